"""The paper's curves through points: lines without intercept, frontiers, logistic curves."""

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
    """Fit ``y = 1 / (1 + e^(a (x - b)))``; None for fewer than three points."""
    if x.size < 3:
        return None

    def residuals(p: Array) -> Array:
        return np.asarray(special.expit(p[0] * (p[1] - x)) - np.clip(y, 1e-4, 1.0 - 1e-4))

    start, bounds = [5.0, float(np.median(x))], ([1e-3, -np.inf], [50.0, np.inf])
    found = optimize.least_squares(residuals, start, bounds=bounds)
    return float(found.x[0]), float(found.x[1])
