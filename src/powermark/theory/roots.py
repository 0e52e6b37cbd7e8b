"""Roots of increasing functions, elementwise and always bracketed, and a fixed point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize
from scipy.optimize import elementwise

from powermark.checks import Array


def bracketed_root(function: Callable[..., Array], low: Array, high: Array, *args: Array) -> Array:
    """Solve ``function(x, *args) = 0`` on [low, high]: Chandrupatla's method, Brent's for scalars.

    The callers prove that ``function`` increases and changes sign on the bracket, so failing to
    converge is a defect of powermark and not of the input: it raises, and never returns nan.
    """
    if low.ndim == 0:
        scalar = optimize.brentq(
            lambda x: float(function(x, *args)),
            float(low),
            float(high),
            xtol=1e-300,
            rtol=1e-15,
            maxiter=2000,  # a double root, as at the maximum of the KL, is reached by bisection
        )
        return np.asarray(scalar)
    result = elementwise.find_root(function, (low, high), args=args, tolerances={"xrtol": 1e-15})
    if not np.all(result.success):
        raise ArithmeticError("a bracketed root search did not converge; please report this.")
    return np.asarray(result.x)


def fixed_point(levels: Array, changed: Array) -> float:
    """Return the first s with ``s = f(s)``, where f is linear between the levels and flat beyond.

    ``changed`` are the values of f at the levels, at least 0; the first level is 0.
    """
    excess = changed - levels
    after = np.flatnonzero(excess <= 0.0)
    if after.size == 0:
        return float(changed[-1])
    i = int(after[0])
    if i == 0:
        return 0.0
    share = excess[i - 1] / (excess[i - 1] - excess[i])
    return float(levels[i - 1] + share * (levels[i] - levels[i - 1]))
