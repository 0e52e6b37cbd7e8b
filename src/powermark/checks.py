"""Validators for each kind of quantity. Messages: "name must be in DOMAIN; got X."."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark.errors import InvalidInput

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.int64]  # token ids, or places

_INEXACT = 2.0**53  # from here on n and n + 1 may be the same float

_MEANING = {
    "gamma": "gamma is the green share of the vocabulary, for example 0.25.",
    "delta": "delta is the bias added to green logits, for example 2.",
    "alpha": "alpha is the false-positive rate you can bear, for example 0.01.",
    "power": "power is the share of marked texts to be detected, for example 0.95.",
    "kl": "kl is the distortion in nats per token, for example 0.05.",
    "edit_rate": "edit_rate is the probability that a token is rewritten, for example 0.1.",
    "survival": "survival is the share of positions that keep their signal, for example 0.8.",
    "removal": "removal is the share of the text that is replaced, for example 0.2.",
    "coverage": "coverage is the share of all answers to be detected, for example 0.9.",
    "n_tokens": "n_tokens counts the tokens that the detector scores, for example 200.",
}


def in_interval(
    name: str, value: ArrayLike, low: float, high: float, *, closed: str = "neither"
) -> Array:
    """Return ``value`` as float64 if every element lies between ``low`` and ``high``.

    ``closed`` is ``"neither"``, ``"low"``, ``"high"`` or ``"both"``; nan is never inside.
    """
    try:
        x = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must be a number; got {value!r}.") from None
    smallest, largest = (float(x), float(x)) if x.ndim == 0 else _extremes(x)
    above = smallest >= low if closed in ("low", "both") else smallest > low
    below = largest <= high if closed in ("high", "both") else largest < high
    if not (above and below):
        left = "[" if closed in ("low", "both") else "("
        right = "]" if closed in ("high", "both") else ")"
        worst = largest if above else smallest
        raise InvalidInput(
            f"{name} must be in {left}{low:g}, {high:g}{right}; got {worst:g}.",
            hint=_MEANING.get(name),
        )
    return x


def _extremes(x: Array) -> tuple[float, float]:
    """Return the smallest and largest element, or nan; an empty array passes every check."""
    return (float(x.min()), float(x.max())) if x.size else (np.inf, -np.inf)


def open_unit(name: str, value: ArrayLike) -> Array:
    """Check a quantity that lives strictly between 0 and 1: gamma, alpha, power."""
    return in_interval(name, value, 0.0, 1.0)


def unit(name: str, value: ArrayLike) -> Array:
    """Check a quantity that lives in [0, 1]: a probability, a mass, a share."""
    return in_interval(name, value, 0.0, 1.0, closed="both")


def positive(name: str, value: ArrayLike) -> Array:
    """Check a strictly positive, finite quantity."""
    return in_interval(name, value, 0.0, np.inf)


def logit_bias(value: ArrayLike) -> Array:
    """Check delta: at least 0, and at most 700 so that exp(delta) stays a float."""
    return in_interval("delta", value, 0.0, 700.0, closed="both")


def count(name: str, value: ArrayLike, *, at_least: int = 1) -> Array:
    """Check whole numbers that are at least ``at_least``; returned as float64 for the formulas."""
    x = in_interval(name, value, at_least, np.inf, closed="low")
    broken = float(x) % 1.0 if x.ndim == 0 else float(np.max(x % 1.0, initial=0.0))
    if broken:
        raise InvalidInput(
            f"{name} must be a whole number; got {np.ravel(x)[np.argmax(x % 1.0)]:g}."
        )
    largest = float(x) if x.ndim == 0 else float(np.max(x, initial=0.0))
    if largest >= _INEXACT:
        raise InvalidInput(
            f"{name} must be below 2^53, where whole numbers stop being exact; got {largest:g}.",
            hint=_MEANING.get(name),
        )
    return x


def token_ids(name: str, values: ArrayLike) -> NDArray[np.uint32]:
    """Return token ids as uint32; anything but whole numbers in [0, 2^32) is refused."""
    ids = np.asarray(values)
    if ids.size == 0:
        return ids.astype(np.uint32)
    if ids.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must be whole numbers; got dtype {ids.dtype}.")
    if int(ids.view(f"u{ids.itemsize}").max()) >= 2**32:  # a negative id is a huge unsigned one
        raise InvalidInput(f"{name} must be in [0, 2^32); got {ids.min()} to {ids.max()}.")
    return ids.astype(np.uint32)
