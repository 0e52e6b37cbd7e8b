"""The promise of a spec, and whether a model and its texts are those that the promise is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from powermark.detection.scoring import Scores
from powermark.errors import InvalidInput, SpecMismatch
from powermark.generation.writing import Record, Sampling
from powermark.planning.design import Design, evaluate
from powermark.planning.plan import Plan
from powermark.signals.profile import Profile
from powermark.signals.sampling import SETTINGS, settings_of
from powermark.watermark.spec import WatermarkSpec

_FAR = 3.0  # standard errors
_MUCH = {"certainty": 0.03, "scored_share": 0.03}  # a smaller difference matters little
_MEANS = {
    "certainty": "the mean probability of the likeliest token",
    "scored_share": "the share of tokens that count",
}
_SHORTER = 0.8  # of the profile's length; lengths are shares of the longest allowed


def promise_of(
    spec: WatermarkSpec,
    *,
    n_tokens: int | None = None,
    alpha: float | None = None,
    profile: Profile | None = None,
) -> Design:
    """Return the promise of a spec: its plan, or for a mark without a plan what signals predict.

    ``n_tokens`` and ``alpha`` are for marks without a plan.
    """
    promise, schedule = _promise(spec, n_tokens, alpha, profile), spec.schedule
    if schedule is not None and schedule.n_tokens != promise.n_tokens:
        raise InvalidInput(
            f"the spec is steered for {schedule.n_tokens} tokens; the promise is for "
            f"{promise.n_tokens}."
        )
    return promise


def _promise(
    spec: WatermarkSpec, n_tokens: int | None, alpha: float | None, profile: Profile | None
) -> Design:
    if spec.plan is not None:
        if n_tokens is not None or alpha is not None:
            raise InvalidInput("the spec has a plan, with its own n_tokens and alpha.")
        return spec.plan
    if n_tokens is None or alpha is None:
        raise InvalidInput("the spec has no plan; give n_tokens and alpha.")
    return evaluate(spec.gamma, spec.delta, n_tokens=n_tokens, alpha=alpha, signal=profile)


def enough(n_tokens: int, about: dict[str, Any] | None = None) -> int:
    """Return the tokens to write so that nearly all texts have ``n_tokens`` that count.

    Repeats do not count; ``about`` is a profile's metadata, with the share that counts.
    """
    mean, spread = (about or {}).get("typical", {}).get("scored_share", (1.0, 0.0))
    return int(np.ceil(n_tokens * max(1.15, 1.0 / max(mean - spread, 0.25)))) + 5


def tokens_to_write(promise: Design) -> int:
    """Return the most tokens of a text: enough for the plan's length, or for answers of any.

    Answers of any length are as long as the profile allowed or, without one, as the plan's lengths.
    """
    about = promise.profile
    if isinstance(promise, Plan) and "coverage" in promise.asked:
        if about is not None:
            return int(about["n_tokens"])
        return enough(int((promise.lengths or {}).get("q95", promise.n_tokens)))
    return enough(promise.n_tokens, about)


def check_profile(about: dict[str, Any], model: Any, sampling: Sampling, whose: str) -> None:
    """Refuse a profile, or a plan made with one, for another model, tokenizer or setting."""
    mine = {
        "model_digest": model.digest,
        "tokenizer_digest": model.tokenizer_digest,
        **{name: getattr(sampling, name) for name in SETTINGS},
    }
    known = {**about, **settings_of(about)}
    for name, value in mine.items():
        if (theirs := known.get(name, value)) != value:
            what = {
                "model_digest": f"another model, {about.get('model')!r}, than {model.name!r}",
                "tokenizer_digest": f"another tokenizer, that of {about.get('model')!r}",
            }.get(name, f"{name} {theirs}, not {value}")
            raise SpecMismatch(
                f"{whose} is for {what}.",
                hint="record a profile of the model and settings you use, and plan with it.",
            )


def unlike_profile(
    about: Mapping[str, Any],
    records: Sequence[Record],
    scored: Callable[[Sequence[Record]], Scores],
) -> list[str]:
    """Return a note for each way in which unmarked texts differ from the profile's texts.

    Texts are compared up to the length of the profile's; ``about`` is the profile's metadata.
    """
    typical = about.get("typical")
    if not typical or not records:
        return []
    scores = scored(records)
    lengths = np.array([len(record["token_ids"]) for record in records], np.float64)
    most = about["n_tokens"]  # longer texts repeat themselves more, so fewer of their tokens count
    seen = np.array([(text < most).sum() for text in map(scores.positions, range(scores.texts))])
    values = {"scored_share": seen / np.clip(lengths, 1.0, most)}
    if all("certainty" in record for record in records):
        each = [np.mean(record["certainty"][:most]) for record in records if record["certainty"]]
        values["certainty"] = np.array(each)
    notes = []
    for name, here in values.items():
        mean, spread = typical[name]
        error = np.hypot(spread / np.sqrt(about["texts"]), here.std() / np.sqrt(max(here.size, 1)))
        gap = abs(here.mean() - mean) if here.size else 0.0
        if gap > max(_MUCH[name], _FAR * error):
            notes.append(
                f"these prompts are unlike the profile's: {_MEANS[name]} is {here.mean():.3f}, not "
                f"{mean:.3f}. Record a profile on prompts like these and plan with it."
            )
    usual = min(typical["tokens"][0] / about["n_tokens"], 1.0)
    if lengths.mean() / lengths.max(initial=1.0) < _SHORTER * usual:
        notes.append(
            f"these texts are shorter than the profile's: {lengths.mean():.0f} of at most "
            f"{lengths.max():.0f} tokens on average, where the profile's had "
            f"{typical['tokens'][0]:.0f} of at most {about['n_tokens']}."
        )
    return notes
