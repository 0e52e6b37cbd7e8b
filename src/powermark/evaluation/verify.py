"""Promise against measurement: a mark on a model, and what its plan said of it.

Texts are generated in pairs, with the mark and without. What they show is compared with the plan's
green rate, KL, power and size. A promise is broken where the measurement lies on its wrong side by
more than chance allows, all checks together in at most 5 % of honest cases; the error that a
profile's size leaves is allowed for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from powermark.calibration.design import Design, evaluate
from powermark.calibration.edits import Edits
from powermark.calibration.profile import Profile
from powermark.calibration.signal import PlugIn, SignalModel
from powermark.calibration.steering import Goal, forward
from powermark.calibration.tilt import Tilt
from powermark.detection.scoring import score
from powermark.detection.window_plan import WindowPlan, window_powers
from powermark.detection.windows import WindowTest
from powermark.evaluation.attacks import replace_block, substitute
from powermark.evaluation.measure import (
    Estimate,
    detected,
    kl_until,
    mean_per_token,
    share,
)
from powermark.evaluation.verification import Check, Verification
from powermark.evaluation.writing import Record
from powermark.signature import signature
from powermark.watermark.embed import scheme_of
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.scheme import Scheme
from powermark.watermark.spec import WatermarkSpec

__all__ = ["Check", "Verification", "verify"]

JOINT_LEVEL = 0.95
_TOO_MUCH = ("size", "kl")  # what a promise bounds from above; the rest it bounds from below
_NAMES = ("gamma_prime", "kl", "power", "size", "attacked_power")
_TESTED = ("power", "size", "attacked_power")  # by the detector that a plan was made for


def verify(
    spec: WatermarkSpec,
    key: SecretKey | HashKey,
    promise: Design,
    marked: Sequence[Record],
    unmarked: Sequence[Record],
    *,
    profile: Profile | None = None,
    special_ids: Collection[int] = (),
    seed: int = 0,
    joint_level: float = JOINT_LEVEL,
) -> Verification:
    """Compare a promise with texts that were written with the mark and without.

    Parameters
    ----------
    marked, unmarked
        Records of :func:`~powermark.evaluation.writing.write_texts`; those of the marked texts with
        their KL, which is else not checked: a server's texts come without.
    profile
        To say what it foretells beside the promise, where that is not from it.
    special_ids
        Ids that never count: the tokenizer's own.
    seed
        Of the edits, where the promise is about edited text.
    joint_level
        Of all intervals together; nearer to 1 where many promises are compared.
    """
    n, edits = promise.n_tokens, _edits(promise)
    recorded = all("kl" in record for record in marked)
    names = tuple(
        name
        for name in (_NAMES if edits.edit_rate or edits.removal else _NAMES[:-1])
        if (recorded or name != "kl") and (unmarked or name != "size")
    )
    level = 1.0 - (1.0 - joint_level) / len(names)
    scheme = scheme_of(spec, key)
    test = _window_test(promise)
    measured = _measured(scheme, promise, test, edits, marked, unmarked, level, seed, special_ids)
    if spec.steering is not None or not recorded:
        # where a bias is 0, or was not recorded, only the colours say what is green
        texts = [record["token_ids"] for record in marked]
        scores = score(scheme, texts, special_ids=special_ids)
        seen = [scores.colours(i)[:n] for i in range(scores.texts)]
        measured["gamma_prime"] = mean_per_token(seen, level)
        if recorded:
            measured["kl"] = kl_until(scheme, marked, n, level, special_ids=special_ids)
    told = {
        name: _foretold(spec, promise, test, edits, signal)
        for name, signal in _signals(profile).items()
    }
    checks = [
        Check(
            name=_called(promise, name),
            promised=_promised(promise, name),
            plug_in=told["plug_in"][name],
            profile=told["profile"][name] if profile is not None else None,
            measured=measured[name],
            holds=_holds(promise, name, measured[name], level),
        )
        for name in names
    ]
    return Verification(
        checks=tuple(checks),
        n_tokens=n,
        alpha=promise.alpha,
        gamma=spec.gamma,
        delta=spec.delta,
        texts=len(marked),
        marked=measured["power"].texts,
        unmarked=measured["size"].texts,
        notes=_notes(promise, measured["power"], len(marked), edits),
        signature=signature(
            "verify",
            spec=spec.digest,
            promise=promise.signal,
            n=n,
            a=promise.alpha,
            texts=len(marked),
            level=level,
            seed=seed,
        ),
    )


def _window_test(promise: Design) -> WindowTest | None:
    """Return the window test that a plan was made for, if it was made for one."""
    if not isinstance(promise, WindowPlan):
        return None
    return WindowTest(promise.detector, promise.n_tokens, promise.gamma)


def _called(promise: Design, name: str) -> str:
    """Return the promise's name of a quantity: a plan for windows has the count's powers beside."""
    return f"window_{name}" if isinstance(promise, WindowPlan) and name in _TESTED else name


def _measured(
    scheme: Scheme,
    promise: Design,
    test: WindowTest | None,
    edits: Edits,
    marked: Sequence[Record],
    unmarked: Sequence[Record],
    level: float,
    seed: int,
    special_ids: Collection[int],
) -> dict[str, Estimate]:
    """Return what the texts show of each quantity."""
    n, k = promise.n_tokens, promise.critical_count
    threshold = None if test is None else test.threshold(promise.alpha)

    def found_in(texts: Sequence[ArrayLike]) -> Estimate:
        """Count as a detector does that is not told the prompt."""
        scores = score(scheme, texts, special_ids=special_ids)
        if test is None or threshold is None:
            return detected(scores.first_greens(n), k, level)
        return share(threshold.rejects(test.statistics(scores.first_colours(n))), level)

    ids = [record["token_ids"] for record in marked]
    found = {
        "gamma_prime": mean_per_token([record.get("green_rate", ()) for record in marked], level),
        "kl": mean_per_token([record.get("kl", ()) for record in marked], level),
        "power": found_in(ids),
        "size": found_in([record["token_ids"] for record in unmarked]),
    }
    if edits.edit_rate:
        edited = substitute(ids, edits.edit_rate, seed=seed)
    elif edits.removal:
        # of another prompt: with one seed, texts of the same prompt may begin alike
        foreign = [record["token_ids"] for record in [*unmarked[1:], *unmarked[:1]]]
        edited = replace_block(ids, foreign, edits.removal, within=n, seed=seed)
    else:
        return found
    return {**found, "attacked_power": found_in(edited.ids)}


def _promised(promise: Design, name: str) -> float:
    return float(promise.alpha if name == "size" else getattr(promise, _called(promise, name)))


def _holds(promise: Design, name: str, measured: Estimate, level: float) -> bool | None:
    """Say whether a promise is kept, within the measurement's interval and the promise's error."""
    sampled = promise.profile is not None and name != "size"
    error = (promise.standard_errors or {}).get(_called(promise, name)) if sampled else 0.0
    if not measured.known or error is None:
        return None
    reach = float(special.ndtri(0.5 + level / 2.0)) * error
    promised = _promised(promise, name)
    if name in _TOO_MUCH:
        return bool(measured.value - np.hypot(measured.value - measured.low, reach) <= promised)
    return bool(promised <= measured.value + np.hypot(measured.high - measured.value, reach))


def _edits(promise: Design) -> Edits:
    return Edits(
        edit_rate=promise.edit_rate,
        survival=promise.survival
        if promise.edit_rate is None and promise.removal is None
        else None,
        removal=promise.removal,
        context_width=promise.context_width,
    )


def _foretold(
    spec: WatermarkSpec,
    promise: Design,
    test: WindowTest | None,
    edits: Edits,
    signal: SignalModel,
) -> dict[str, float]:
    """Return what a signal model says of the mark, steered or not."""
    n, schedule = promise.n_tokens, spec.schedule
    if schedule is None:
        design = evaluate(
            spec.gamma,
            spec.delta,
            n_tokens=n,
            alpha=promise.alpha,
            signal=signal,
            edits=edits,
            test=promise.test,
        )
        told = {name: getattr(design, name) for name in _NAMES}
        if test is not None:
            by_windows = window_powers(test, promise.alpha, signal, spec.delta, edits)
            told |= {"power": by_windows.whole, "attacked_power": by_windows.edited}
            told["size"] = test.threshold(promise.alpha).size
        return told
    goal = Goal.of(spec.gamma, promise.alpha, [n], edits=edits)
    settled = signal.at_strength(max(promise.gamma_prime - spec.gamma, 0.0))
    found = forward(goal, Tilt.of(settled, spec.gamma, n), schedule.deltas)
    return {
        "gamma_prime": found.gamma_prime,
        "kl": found.kl,
        "power": found.powers[-1],
        "size": promise.size,
        "attacked_power": found.attacked_power,
    }


def _signals(profile: Profile | None) -> dict[str, SignalModel]:
    signals: dict[str, SignalModel] = {"plug_in": PlugIn()}
    return signals if profile is None else {**signals, "profile": profile}


def _notes(promise: Design, power: Estimate, texts: int, edits: Edits) -> tuple[str, ...]:
    notes = []
    if power.texts < texts:
        notes.append(
            f"note: {texts - power.texts} of {texts} marked texts had fewer than "
            f"{promise.n_tokens} tokens that count and say nothing about the power."
        )
    if edits.survival is not None:
        notes.append("note: a survival does not say which tokens are edited; nothing was edited.")
    return tuple(notes)
