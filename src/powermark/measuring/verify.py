"""``verify``: a mark on a model, promise against measurement.

Texts are generated in pairs, with the mark and without, and judged as a reader gets them: a copy of
the text, tokenised again. Results on the sampled ids are shown beside it. Every text counts: one
with fewer tokens than planned is detected if the plan's test, at its length, detects it.

A plan for a coverage is about answers of any length: each is tested at its own.

A promise is broken if the measurement lies on its wrong side by more than chance allows: in at most
5 % of honest cases over all checks, and allowing for the error of the profile. It is kept if more
than a small error is excluded at 95 %: .05 of a power or size, .02 of a green rate, a tenth of the
KL. Between the two there are not enough texts to say.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from powermark.checks import Mask
from powermark.detection.scoring import Scores, score
from powermark.detection.text import token_ids_of
from powermark.generation.writing import Record
from powermark.measuring.attacks import replace_block, substitute
from powermark.measuring.estimates import (
    POWERS,
    Estimate,
    kl_until,
    level_of,
    margin_of,
    mean_per_token,
    share,
    shown_to_hold,
    shown_to_keep,
    texts_needed,
    texts_to_decide,
    texts_to_exclude,
    texts_to_keep,
)
from powermark.measuring.promise import unlike_profile
from powermark.measuring.verification import Check, Verification
from powermark.planning.coverage import coverage
from powermark.planning.design import Design, evaluate
from powermark.planning.for_evalue import evalue_powers
from powermark.planning.for_windows import window_powers
from powermark.planning.lengths import Lengths
from powermark.planning.plan import Plan
from powermark.planning.steered_coverage import steered_coverage
from powermark.signals.edits import Edits
from powermark.signals.profile import Profile
from powermark.signals.signal import PlugIn, SignalModel
from powermark.signature import signature
from powermark.statistics.evalue import EvalueTest
from powermark.statistics.windows import WindowTest
from powermark.steering.goal import Goal, Tilt
from powermark.steering.recursion import forward
from powermark.theory.power import critical_count
from powermark.version import __version__
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

__all__ = ["Check", "Verification", "texts_for", "verify"]

JOINT_LEVEL = 0.95
_TOO_MUCH = ("size", "kl")  # bounded from above by a promise; the others from below
_TESTED = ("power", "size", "attacked_power")  # with the detector of the plan
_NAMES = ("gamma_prime", "kl", *_TESTED)
_OF_ANY_LENGTH = {"power": "coverage", "attacked_power": "attacked_coverage"}


def verify(
    mark: Watermark,
    promise: Design,
    marked: Sequence[Record],
    unmarked: Sequence[Record],
    *,
    tokenizer: Any = None,
    profile: Profile | None = None,
    special_ids: Collection[int] = (),
    seed: int = 0,
    joint_level: float = JOINT_LEVEL,
    about: dict[str, str] | None = None,
) -> Verification:
    """Compare a promise with texts that were written with the mark and without.

    Parameters
    ----------
    marked, unmarked
        Records of :func:`~powermark.generation.writing.write_texts`. The KL is checked if the
        marked ones record it; a server's texts do not.
    tokenizer
        Tokenises copies of the texts again; without one, the sampled ids are judged.
    profile
        Adds this profile's predictions to the result.
    special_ids
        Ids that never count: the tokenizer's special ids.
    seed
        Seeds the edits, if the promise is for edited text.
    joint_level
        Level of all intervals together; nearer to 1 if many promises are compared.
    about
        Names of what is verified, such as model and sampling; spec, key, date and version are
        added.
    """
    spec, n, edits = mark.spec, promise.n_tokens, promise.edits
    recorded = all("kl" in record for record in marked)
    names = checked_names(promise, kl=recorded, size=bool(unmarked))
    level = level_of(joint_level, len(names))
    for_ids = tokenizer is None or (promise.profile or {}).get("source") == "ids"
    readers = [_Reader(mark, promise, None, level, special_ids)]
    if tokenizer is not None:
        readers.append(_Reader(mark, promise, tokenizer, level, special_ids))
    seen = [reader.measured(edits, marked, unmarked, seed) for reader in readers]
    by_ids, measured = seen[0], seen[0 if for_ids else -1]
    if recorded:
        most = None if covers(promise) or spec.steering is None else n
        measured["kl"] = kl_until(readers[0].scores(marked), marked, most, level)
    chosen = readers[0 if for_ids else -1]
    scores = chosen.scores(marked)
    predicted = {
        name: {
            **_predicted(spec, promise, readers[0].test, edits, signal),
            **_predicted_coverage(spec, promise, edits, signal, scores),
        }
        for name, signal in _signals(profile).items()
    }
    checks = [
        Check(
            name=name,
            promised=_promised(promise, name),
            plug_in=predicted["plug_in"][name],
            profile=predicted["profile"][name] if profile is not None else None,
            measured=measured[name],
            by_ids=by_ids[name] if name not in _NAMES[:2] and tokenizer is not None else None,
            **_judged(promise, name, measured[name], level),
        )
        for name in names
    ]
    long = scores.scored >= n
    return Verification(
        checks=tuple(checks),
        n_tokens=n,
        alpha=promise.alpha,
        gamma=spec.gamma,
        delta=spec.delta,
        read="ids" if for_ids else "text",
        texts=len(marked),
        marked=int(long.sum()),
        unmarked=int((chosen.scores(unmarked).scored >= n).sum()),
        notes=tuple(
            f"note: {note}"
            for note in (
                *_notes(promise, chosen.found(scores)[long], scores, edits),
                *unlike_profile(promise.profile or {}, unmarked or marked, chosen.scores),
            )
        ),
        signature=signature(
            "verify",
            spec=spec.digest,
            promise=promise.signal,
            n=n,
            a=promise.alpha,
            read="ids" if for_ids else "text",
            texts=len(marked),
            level=level,
            seed=seed,
        ),
        about={
            **(about or {}),
            "spec": spec.digest,
            "key": mark.fingerprint or "of another tool",
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "version": f"powermark {__version__}",
        },
    )


def checked_names(promise: Design, *, kl: bool, size: bool) -> tuple[str, ...]:
    """Return the quantities to check; KL if it is recorded, size if there are unmarked texts."""
    edits, renamed = promise.edits, _OF_ANY_LENGTH if covers(promise) else {}
    return tuple(
        renamed.get(name, name)
        for name in (_NAMES if edits.edit_rate or edits.removal else _NAMES[:-1])
        if (kl or name != "kl") and (size or name != "size")
    )


def texts_for(promise: Design, *, kl: bool = True, size: bool = True) -> int:
    """Return how many texts show a loss of LOSS in every promised power, in CHANCE of runs."""
    names = checked_names(promise, kl=kl, size=size)
    level = level_of(JOINT_LEVEL, len(names))
    return max(texts_needed(_promised(promise, n), level) for n in names if n in POWERS)


class _Reader:
    """Applies the plan's test to sampled ids or to copies of the text."""

    def __init__(
        self,
        mark: Watermark,
        promise: Design,
        tokenizer: Any,
        level: float,
        special_ids: Collection[int],
    ) -> None:
        self._scheme, self._promise, self._level = mark.scheme, promise, level
        self._tokenizer, self._special_ids = tokenizer, special_ids
        self._skip = mark.spec.skipped if tokenizer is None else 1
        self.test = _other_test(promise, promise.n_tokens)

    def ids(self, records: Sequence[Record]) -> list[Any]:
        """Return the ids to test."""
        if self._tokenizer is None:
            return [record["token_ids"] for record in records]
        return [token_ids_of(self._tokenizer, record["text"].strip()) for record in records]

    def scores(self, records: Sequence[Record]) -> Scores:
        """Return the colours of the ids to test."""
        return self._score(self.ids(records))

    def _score(self, texts: Sequence[ArrayLike]) -> Scores:
        return score(self._scheme, texts, skip=self._skip, special_ids=self._special_ids)

    def measured(
        self, edits: Edits, marked: Sequence[Record], unmarked: Sequence[Record], seed: int
    ) -> dict[str, Estimate]:
        """Return an estimate of each quantity but the KL."""
        any_length = covers(self._promise)
        n, ids, plain = self._promise.n_tokens, self.ids(marked), self.ids(unmarked)
        scores, most = self._score(ids), None if any_length else n
        found = {
            "gamma_prime": mean_per_token(
                [scores.colours(i)[:most] for i in range(scores.texts)], self._level
            ),
            "coverage" if any_length else "power": share(self.found(scores), self._level),
            "size": share(self.found(self._score(plain)), self._level),
        }
        if edits.edit_rate:
            edited = substitute(ids, edits.edit_rate, seed=seed)
        elif edits.removal:
            # from another prompt: with one seed, texts of the same prompt may begin alike
            foreign = [*plain[1:], *plain[:1]]
            edited = replace_block(ids, foreign, edits.removal, within=n, seed=seed)
        else:
            return found
        attacked = share(self.found(self._score(edited.ids)), self._level)
        return {**found, "attacked_coverage" if any_length else "attacked_power": attacked}

    def found(self, scores: Scores) -> Mask:
        """Return which texts the test finds, by their first n tokens that count, or fewer.

        With a plan for a coverage, by all tokens that count.
        """
        promise = self._promise
        most = int(scores.scored.max(initial=0)) if covers(promise) else promise.n_tokens
        length = np.minimum(scores.scored, most)
        found = np.zeros(scores.texts, bool)
        for n in np.unique(length[length > 0]).tolist():
            mine = np.flatnonzero(length == n)
            colours = np.stack([scores.colours(i)[:n] for i in mine.tolist()])
            test = _other_test(promise, n)
            if test is None:
                k = int(critical_count(n, promise.gamma, promise.alpha))
                enough = promise.critical_count if n == promise.n_tokens else k
                found[mine] = colours.sum(axis=1) >= enough
            else:
                found[mine] = test.threshold(promise.alpha).rejects(test.statistics(colours))
        return found


def _other_test(promise: Design, n_tokens: int) -> WindowTest | EvalueTest | None:
    """Return the test that a plan was made for, at a length; None for the count."""
    match promise:
        case Plan(detector="evalue", bet=float(bet)):
            return EvalueTest(n_tokens, promise.gamma, bet)
        case Plan(detector="winmax" | "winmax-c" as kind):
            return WindowTest(kind, n_tokens, promise.gamma)
    return None


def covers(promise: Design) -> bool:
    """Whether a promise is about answers of any length."""
    return isinstance(promise, Plan) and "coverage" in promise.asked


def _predicted_coverage(
    spec: WatermarkSpec, promise: Design, edits: Edits, signal: SignalModel, scores: Scores
) -> dict[str, float]:
    """Return the coverage that a signal model predicts for texts of these lengths.

    With a steered mark also its green rate and KL, as these depend on the lengths.
    """
    if not covers(promise):
        return {}
    if spec.schedule is not None:
        steered = steered_coverage(
            spec.schedule,
            signal,
            alpha=promise.alpha,
            strength=max(promise.gamma_prime - spec.gamma, 0.0),
            lengths=Lengths.of(scores.scored),
            edits=edits,
        )
        return {
            "gamma_prime": steered.gamma_prime,
            "kl": steered.kl,
            "coverage": steered.clean,
            "attacked_coverage": steered.attacked,
        }
    found = coverage(
        signal,
        spec.gamma,
        spec.delta,
        alpha=promise.alpha,
        lengths=Lengths.of(scores.scored),
        edits=edits,
    )
    return {"coverage": found.clean, "attacked_coverage": found.attacked}


def _promised(promise: Design, name: str) -> float:
    return float(promise.alpha if name == "size" else getattr(promise, name))


def _judged(promise: Design, name: str, measured: Estimate, level: float) -> dict[str, Any]:
    """Return whether a promise is kept, given the measurement's interval and the promise's error.

    It may take more texts to say.
    """
    sampled = promise.profile is not None and name != "size"
    error = (promise.standard_errors or {}).get(name) if sampled else 0.0
    if not measured.known or error is None:
        return {"holds": None, "texts_needed": None}
    reach = float(special.ndtri(0.5 + level / 2.0)) * error
    promised, value, texts = _promised(promise, name), measured.value, measured.texts
    if name in _TOO_MUCH:
        broken = value - np.hypot(value - measured.low, reach) > promised
    else:
        broken = promised > value + np.hypot(measured.high - value, reach)
    if broken:
        return {"holds": False, "texts_needed": None}
    needed: int | None = texts
    if name == "size":
        if not shown_to_keep(value, texts, promised):
            needed = texts_to_keep(value, texts, promised)
    elif name in POWERS:
        if not shown_to_hold(value, texts, promised):
            needed = texts_to_decide(value, texts, promised, level)
    else:
        above = promised - value if name == "kl" else value - promised
        needed = texts_to_exclude(above + margin_of(name, promised), measured, level, error)
    if needed == texts:
        return {"holds": True, "texts_needed": None}
    return {"holds": None, "texts_needed": needed}


def _predicted(
    spec: WatermarkSpec,
    promise: Design,
    test: WindowTest | EvalueTest | None,
    edits: Edits,
    signal: SignalModel,
) -> dict[str, float]:
    """Return a signal model's predictions for the mark, steered or not."""
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
        found = {name: getattr(design, name) for name in _NAMES}
        if isinstance(test, EvalueTest):
            whole, edited, _ = evalue_powers(test, promise.alpha, signal, spec.delta, edits)
            found |= {"power": whole, "attacked_power": edited, "size": test.size(promise.alpha)}
        elif test is not None:
            by_windows = window_powers(test, promise.alpha, signal, spec.delta, edits)
            found |= {"power": by_windows.whole, "attacked_power": by_windows.edited}
            found["size"] = test.threshold(promise.alpha).size
        return found
    goal = Goal.of(spec.gamma, promise.alpha, [n], edits=edits)
    settled = signal.at_strength(max(promise.gamma_prime - spec.gamma, 0.0))
    steered = forward(goal, Tilt.of(settled, spec.gamma, n), schedule.deltas)
    return {
        "gamma_prime": steered.gamma_prime,
        "kl": steered.kl,
        "power": steered.powers[-1],
        "size": promise.size,
        "attacked_power": steered.attacked_power,
    }


def _signals(profile: Profile | None) -> dict[str, SignalModel]:
    signals: dict[str, SignalModel] = {"plug_in": PlugIn()}
    return signals if profile is None else {**signals, "profile": profile}


def _notes(promise: Design, found: Mask, scores: Scores, edits: Edits) -> list[str]:
    """Return notes; ``found`` says which of the long enough texts were found."""
    notes, texts = [], scores.texts
    if covers(promise):
        low, middle, high = np.percentile(scores.scored, [5, 50, 95], method="lower").astype(int)
        notes.append(
            f"every answer is tested at its own length: {middle} tokens that count at the median, "
            f"{low} to {high} for 90 % of them."
        )
    elif found.size < texts:
        n, rest = promise.n_tokens, f", and of the other {found.size} it finds {found.sum()}"
        notes.append(
            f"{texts - found.size} of {texts} marked texts have fewer than {n} tokens that count. "
            f"The test judges them by the tokens they have{rest if found.size else ''}. The "
            f"promise is for texts of {n}."
        )
    if edits.survival is not None:
        notes.append("a survival does not say which tokens are edited; nothing was edited.")
    return notes
