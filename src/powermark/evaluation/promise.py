"""What a spec promises, for which settings, and whether a model is the one it was made for."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np

from powermark.calibration.design import Design, evaluate
from powermark.calibration.profile import Profile
from powermark.detection.window_plan import WindowPlan
from powermark.detection.windows import Kind as WindowKind
from powermark.errors import InvalidInput, SpecMismatch
from powermark.evaluation.writing import SETTINGS, Sampling
from powermark.watermark.spec import WatermarkSpec

_ANEW = "make the plan anew with `powermark plan -o FILE`."


def promise_of(
    spec: WatermarkSpec,
    *,
    n_tokens: int | None = None,
    alpha: float | None = None,
    profile: Profile | None = None,
) -> Design:
    """Return what a spec promises: its plan, or for a mark chosen by hand what signals say of it.

    ``n_tokens`` and ``alpha`` are for marks chosen by hand.
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
    if spec.design is not None:
        if n_tokens is not None or alpha is not None:
            raise InvalidInput("the spec has a plan, with its own n_tokens and alpha.")
        windows = spec.design.get("detector") in get_args(WindowKind)
        kind = WindowPlan if windows else Design
        try:
            found = kind(**{f.name: spec.design[f.name] for f in dataclasses.fields(kind)})
        except KeyError as error:
            raise InvalidInput(
                f"the spec's plan has no {error.args[0]}: an older powermark made it.",
                hint=_ANEW,
            ) from None
        edited = (found.edit_rate, found.survival, found.removal) != (None, None, None)
        if edited and found.attacked_power is None:
            raise InvalidInput(
                "the spec's plan is for edits, and has no attacked_power.", hint=_ANEW
            )
        return found
    if n_tokens is None or alpha is None:
        raise InvalidInput("the spec has no plan: say for which n_tokens and alpha.")
    return evaluate(spec.gamma, spec.delta, n_tokens=n_tokens, alpha=alpha, signal=profile)


def enough(n_tokens: int) -> int:
    """Tokens to write so that nearly all texts have ``n_tokens`` that count; repeats do not."""
    return int(np.ceil(1.15 * n_tokens)) + 5


def check_profile(about: dict[str, Any], model: Any, sampling: Sampling, whose: str) -> None:
    """Refuse a profile, or a plan made with one, of another model, tokenizer or setting."""
    mine = {
        "model_digest": model.digest,
        "tokenizer_digest": model.tokenizer_digest,
        **{name: getattr(sampling, name) for name in SETTINGS},
    }
    for name, value in mine.items():
        if (theirs := about.get(name, value)) != value:
            what = {
                "model_digest": f"another model, {about.get('model')!r}, than {model.name!r}",
                "tokenizer_digest": f"another tokenizer, that of {about.get('model')!r}",
            }.get(name, f"{name} {theirs}, not {value}")
            raise SpecMismatch(
                f"{whose} is for {what}.",
                hint="record a profile of the model and settings you use, and plan with it.",
            )
