"""Expectations under a Beta distribution, by the trapezoidal rule in logit space.

Under a Dirichlet prior the green mass Y of a next-token distribution is Beta(a, b) (Appendix A.4),
and a plan needs expectations of smooth functions of Y. With ``u = logit(y)`` the density
becomes ``exp(a u) / (1 + exp(u))^(a+b)``, analytic in a strip around the real line, and there the
plain trapezoidal rule converges exponentially: a few dozen nodes give full double precision from
concentrations of 1e-2 (spiky models) to 1e6 (a flat vocabulary). Beyond 1e8 the grid is laid around
the mode, where the density is a difference of much larger terms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from powermark.checks import Array, in_interval

_SMALLEST = 1e-300  # a parameter whose inverse is a double
_TAIL = 1e-17  # mass cut off on either side: below double precision
_NARROW = 1e8  # a and b above which logit(Y) is normal to 1e-4, and quantiles lose digits
_SPAN_IN_SD = 9.0  # of a normal law, on either side
_STEP_IN_SD = 0.45  # trapezoid step in standard deviations of logit(Y)
_STEP_LIMIT = 0.25  # one-sided tails have Fourier weight exp(-pi^2 / step) at the grid frequency


def beta_expectation(
    function: Callable[[Array], Array],
    a: ArrayLike,
    b: ArrayLike,
    *,
    width: ArrayLike = np.inf,
    reach: float = 745.0,
) -> Array:
    """Return ``E[function(Y)]`` for ``Y ~ Beta(a, b)``, broadcasting over ``a`` and ``b``.

    Parameters
    ----------
    function
        Maps green masses of shape ``(..., nodes)`` to values of that shape.
    a, b
        Beta parameters, at least 1e-300.
    width
        Scale, in logit units, on which ``function`` itself varies, where it is sharper than a
        logistic sigmoid (a rejection probability is: about ``1 / sqrt(n y (1-y))``).
    reach
        ``|logit(y)|`` beyond which ``function`` keeps its limits; at 745 a double has no smaller y.

    Notes
    -----
    The rule is applied to ``function(y) - f0 - (f1 - f0) y``, with f0 and f1 the limits at y = 0
    and 1: it vanishes at both ends, however slowly the density itself does, and E[Y] is known.
    """
    a = in_interval("a", a, _SMALLEST, np.inf, closed="low")
    b = in_interval("b", b, _SMALLEST, np.inf, closed="low")
    a, b, width = np.broadcast_arrays(a, b, np.asarray(width, float))
    left, right = _logit_quantile(a, b), -_logit_quantile(b, a)  # (...)
    sd = np.sqrt(special.polygamma(1, a) + special.polygamma(1, b))  # of logit(Y)
    mode = np.log(a) - np.log(b)
    narrow = np.minimum(a, b) > _NARROW
    left = np.where(narrow, mode - _SPAN_IN_SD * sd, left)
    right = np.where(narrow, mode + _SPAN_IN_SD * sd, right)
    low = np.clip(left, -reach, reach)
    high = np.clip(right, low, reach)
    sharpness = np.hypot(1.0 / sd, 1.0 / width)
    step = _STEP_IN_SD / np.maximum(sharpness, _STEP_IN_SD / _STEP_LIMIT)
    nodes = int(np.max(np.ceil((high - low) / step))) + 2
    u = low[..., None] + (high - low)[..., None] * np.linspace(0.0, 1.0, nodes)  # (..., nodes)
    y = special.expit(u)
    log_density = a[..., None] * u - (a + b)[..., None] * np.logaddexp(0.0, u)
    if np.any(narrow):  # the two terms cancel to a (u - mode)^2 / 2 and less
        t = np.where(narrow[..., None], u - mode[..., None], 0.0)
        around = a[..., None] * t - (a + b)[..., None] * np.log1p(
            (a / (a + b))[..., None] * np.expm1(t)
        )
        log_density = np.where(narrow[..., None], around, log_density)
    peak = log_density.max(axis=-1)
    weight = np.exp(log_density - peak[..., None])
    whole = narrow | ((low == left) & (high == right))  # then the rule normalises itself
    cut = ~whole & (high > low)
    exact = np.exp(np.where(cut, special.betaln(a, b) - peak, 0.0))
    length = np.where(cut, high - low, 1.0)
    norm = np.where(cut, exact * (nodes - 1) / length, weight.sum(axis=-1))
    f0 = function(np.zeros((*a.shape, 1)))[..., 0]
    f1 = function(np.ones((*a.shape, 1)))[..., 0]
    values = function(y)
    excess = values - f0[..., None] - (f1 - f0)[..., None] * y
    linear = f0 + (f1 - f0) * (a / (a + b))
    mean = linear + np.sum(weight * excess, axis=-1) / norm
    inside = np.clip(mean, values.min(axis=-1), values.max(axis=-1))  # last digits only
    # a law that lies wholly beyond reach needs only its mean
    return np.asarray(np.where(whole | cut, inside, linear))


def _logit_quantile(a: Array, b: Array) -> Array:
    """Logit of the lower ``_TAIL`` quantile.

    Near 0 the distribution function is ``y^a / (a B(a, b))``, whose inverse is taken where the
    quantile underflows, or where scipy returns nan (a near 1, b below 1: 1.17 does).
    """
    asymptote = (np.log(_TAIL) + np.log(a) + special.betaln(a, b)) / a
    quantile = special.betaincinv(a, b, _TAIL)
    tiny = ~(quantile >= 1e-200)
    return np.where(tiny, asymptote, special.logit(np.where(tiny, 0.5, quantile)))
