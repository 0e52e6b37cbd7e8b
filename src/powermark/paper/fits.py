"""Curves through points, as in the paper: lines without intercept, frontiers, logistic curves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from powermark.checks import Array

TOLERANCE = 0.02  # by which a point must be beaten to leave the frontier


class Line(NamedTuple):
    """A line through the origin and how much of the spread about the mean it explains.

    ``r2_identity`` is the same for y = x: what a prediction is worth without a free slope.
    """

    slope: float
    r2: float
    r2_identity: float


def through_origin(x: Array, y: Array) -> Line:
    """Fit y = kx by least squares."""
    slope = float(x @ y / (x @ x))
    spread = float(np.sum((y - y.mean()) ** 2))
    left = (float(np.sum((y - k * x) ** 2)) for k in (slope, 1.0))
    return Line(slope, *(1.0 - part / spread for part in left))


def straight(x: Array, y: Array) -> tuple[float, float, float]:
    """Fit y = a + bx; return a, b and R^2."""
    b, a = np.polyfit(x, y, 1)
    return float(a), float(b), float(np.corrcoef(x, y)[0, 1] ** 2)


def frontier(x: Array, y: Array, tolerance: float = TOLERANCE) -> NDArray[np.bool_]:
    """Which points no other one beats: by the tolerance in one direction, at least even in both."""
    right, up = (v[None] - v[:, None] for v in (x, y))  # by how much column j exceeds row i
    beaten = (right >= 0.0) & (up >= 0.0) & (np.maximum(right, up) >= tolerance)
    beaten &= (right > 0.0) | (up > 0.0)
    return np.asarray(~beaten.any(axis=1), bool)


def logistic(x: Array, y: Array) -> tuple[float, float] | None:
    """Fit ``y = 1 / (1 + e^(a (x - b)))``, a > 0; None for fewer than three different x."""
    if np.unique(x).size < 3:
        return None
    middle, spread = float(np.median(x)), float(np.std(x))  # so that the axis has no unit

    def residuals(p: Array) -> Array:
        fitted = special.expit(p[0] * (p[1] - (x - middle) / spread))
        return np.asarray(fitted - np.clip(y, 1e-4, 1.0 - 1e-4))

    found = optimize.least_squares(residuals, [2.0, 0.0], bounds=([1e-3, -np.inf], [50.0, np.inf]))
    return float(found.x[0]) / spread, middle + spread * float(found.x[1])
