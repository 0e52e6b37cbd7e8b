"""Types and ranges of the metadata in plans and profiles.

A digest does not replace these checks: anyone who writes a file can also write its digest. Missing
fields are reported where they are needed, and unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from powermark.checks import in_interval
from powermark.errors import InvalidInput

Check = Callable[[str, Any], object]
_ROUNDING = 1e-9  # tolerance for shares above 1
_MANY = 2**63


def check_fields(found: Mapping[str, Any], fields: Mapping[str, Check], of: str = "") -> None:
    """Raise for the first invalid field; ``of`` is a prefix for names in messages."""
    for name, check in fields.items():
        if name in found:
            check(of + name, found[name])


def number(low: float, high: float, *, closed: str = "both", whole: bool = False) -> Check:
    """Require a number between two limits."""
    kinds = (int,) if whole else (int, float)

    def check(name: str, value: Any) -> None:
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise invalid(name, "a whole number" if whole else "a number", value)
        in_interval(name, value, low, high, closed=closed)

    return check


def text(name: str, value: Any) -> None:
    """Require text."""
    if not isinstance(value, str):
        raise invalid(name, "text", value)


def truth(name: str, value: Any) -> None:
    """Require true or false."""
    if not isinstance(value, bool):
        raise invalid(name, "true or false", value)


def object_of(check: Check) -> Check:
    """Require an object whose values all pass ``check``."""

    def check_all(name: str, value: Any) -> None:
        mapping(name, value)
        check_fields(value, dict.fromkeys(value, check), f"{name}.")

    return check_all


def list_of(check: Check) -> Check:
    """Require a list whose items all pass ``check``."""

    def check_all(name: str, value: Any) -> None:
        if not isinstance(value, list | tuple):
            raise invalid(name, "a list", value)
        for each in value:
            check(f"each of {name}", each)

    return check_all


def pairs(name: str, value: Any) -> None:
    """Require an object of pairs of numbers."""
    mapping(name, value)
    for field, pair in value.items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise invalid(f"{name}.{field}", "two numbers", pair)
        for each in pair:
            not_negative(f"{name}.{field}", each)


def mapping(name: str, value: Any) -> None:
    """Require an object."""
    if not isinstance(value, dict):
        raise invalid(name, "an object", value)


def or_none(check: Check) -> Check:
    """Allow None, or a value that passes ``check``."""
    return lambda name, value: None if value is None else check(name, value)


def one_of(*allowed: str) -> Check:
    """Require one of these values."""

    def check(name: str, value: Any) -> None:
        if value not in allowed:
            raise InvalidInput(f"{name} must be one of {', '.join(allowed)}.")

    return check


def invalid(name: str, kind: str, value: Any) -> InvalidInput:
    """Return the error for a value of the wrong type."""
    return InvalidInput(f"{name} must be {kind}; got {type(value).__name__}.")


share = number(0.0, 1.0 + _ROUNDING)
positive = number(0.0, np.inf, closed="neither")
not_negative = number(0.0, np.inf, closed="low")
errors = object_of(not_negative)
shares = object_of(share)
open_unit = number(0.0, 1.0, closed="neither")
count = number(0, _MANY, whole=True)
