"""What plans and profiles say of themselves, checked where it is read: of which kind, how large.

A digest tells that a file was changed since; whoever writes a file can write its digest too. Fields
that are missing are left to whoever needs them, and unknown ones are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

import numpy as np

from powermark.calibration.design import Test
from powermark.checks import in_interval
from powermark.errors import InvalidInput
from powermark.theory.required_length import LONGEST

Check = Callable[[str, Any], object]
_ROUNDING = 1e-9  # by which a share may seem to be above 1
_MANY = 2**63
_DETECTORS = ("count", "winmax", "winmax-c")  # that a plan can be made for


def check_fields(found: Mapping[str, Any], fields: Mapping[str, Check], of: str = "") -> None:
    """Refuse fields that are not what they should be; ``of`` stands before their names."""
    for name, check in fields.items():
        if name in found:
            check(of + name, found[name])


def _number(low: float, high: float, *, closed: str = "both", whole: bool = False) -> Check:
    kinds = (int,) if whole else (int, float)

    def check(name: str, value: Any) -> None:
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise _not(name, "a whole number" if whole else "a number", value)
        in_interval(name, value, low, high, closed=closed)

    return check


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise _not(name, "text", value)


def _profile(name: str, value: Any) -> None:
    _object(name, value)
    check_fields(value, PROFILE, f"{name}.")


def _errors(name: str, value: Any) -> None:
    _object(name, value)
    check_fields(value, dict.fromkeys(value, _not_negative), f"{name}.")


def _object(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise _not(name, "an object", value)


def _or_none(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _one_of(*allowed: str) -> Check:
    def check(name: str, value: Any) -> None:
        if value not in allowed:
            raise InvalidInput(f"{name} must be one of {', '.join(allowed)}.")

    return check


def _not(name: str, kind: str, value: Any) -> InvalidInput:
    return InvalidInput(f"{name} must be {kind}; got {type(value).__name__}.")


_share = _number(0.0, 1.0 + _ROUNDING)
_positive = _number(0.0, np.inf, closed="neither")
_not_negative = _number(0.0, np.inf, closed="low")
_open_unit = _number(0.0, 1.0, closed="neither")
_count = _number(0, _MANY, whole=True)

PROFILE: dict[str, Check] = {
    **dict.fromkeys(("model", "model_digest", "tokenizer_digest", "prompts", "digest"), _text),
    **dict.fromkeys(("top_k", "batch", "texts", "steps", "next"), _count),
    "vocab_size": _number(2, 2**32, whole=True),
    "n_tokens": _number(1, LONGEST, whole=True),
    "temperature": _not_negative,
    "top_p": _number(0.0, 1.0, closed="high"),
}
DESIGN: dict[str, Check] = {
    **dict.fromkeys(("gamma", "alpha"), _open_unit),
    **dict.fromkeys(("gamma_prime", "size", "power"), _share),
    **dict.fromkeys(("kl", "information_limit", "efficiency"), _not_negative),
    **dict.fromkeys(("normal_power", "attacked_power"), _or_none(_share)),
    **dict.fromkeys(("edit_rate", "survival", "removal"), _or_none(_share)),
    **dict.fromkeys(("signal", "signature"), _text),
    **dict.fromkeys(("window_size", "window_power", "window_attacked_power"), _share),
    "delta": _number(0.0, 700.0),
    "n_tokens": _number(1, LONGEST, whole=True),
    "critical_count": _count,
    "draws": _count,
    "context_width": _count,
    "variance_inflation": _positive,
    "test": _one_of(*get_args(Test)),
    "detector": _one_of(*_DETECTORS),
    "profile": _or_none(_profile),
    "standard_errors": _or_none(_errors),
}
