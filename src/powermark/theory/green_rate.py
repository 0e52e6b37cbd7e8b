"""How often a marked text is green: the token lemma and its averages (paper, Section 3.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import Array, logit_bias, open_unit, positive, unit
from powermark.theory.beta import beta_expectation

_MAX_TERMS = 4096  # beyond this the series is slower than the quadrature that replaces it


def token_green_rate(green_mass: ArrayLike, delta: ArrayLike) -> Array:
    """Lemma 3.3: green probability after the mark, ``e y / (1 + (e-1) y)`` with ``e = exp(delta)``.

    Written as ``y / (y + (1-y) exp(-delta))``: no overflow, exact at y = 0 and y = 1.

    Parameters
    ----------
    green_mass
        Mass y that the unmarked next-token distribution puts on the green list, in [0, 1].
    delta
        Logit bias, at least 0.

    Examples
    --------
    >>> round(float(token_green_rate(0.5, 2.0)), 4)
    0.8808
    """
    y, d = unit("green_mass", green_mass), logit_bias(delta)
    return y / (y + (1.0 - y) * np.exp(-d))


def gamma_prime(gamma: ArrayLike, delta: ArrayLike) -> Array:
    """Theorem 3.5, large-vocabulary limit: the token lemma at y = gamma (the plug-in)."""
    return token_green_rate(open_unit("gamma", gamma), delta)


def delta_from_gamma_prime(gamma: ArrayLike, gamma_prime: ArrayLike) -> Array:
    """Invert Lemma 3.3 at y = gamma: ``delta = logit(gamma_prime) - logit(gamma)``.

    Negative where ``gamma_prime < gamma``: no bias towards green gives that rate.
    """
    g, r = open_unit("gamma", gamma), open_unit("gamma_prime", gamma_prime)
    return np.log(r / g) + np.log((1.0 - g) / (1.0 - r))


def gamma_prime_finite(
    gamma: ArrayLike, delta: ArrayLike, vocab_size: ArrayLike, concentration: ArrayLike = 1.0
) -> Array:
    """Theorem 3.5, exact for a finite vocabulary: ``e gamma 2F1(1, gamma V + 1; V + 1; 1 - e)``.

    The next-token distribution is Dir(concentration, ..., concentration); the paper's prior has
    concentration 1. The printed hypergeometric series alternates and overflows at real vocabulary
    sizes; Pfaff's transformation turns it into a series of positive terms,

        gamma_prime = gamma * sum_k x^k (b)_k / (c)_k,   x = 1 - exp(-delta),

    with ``b = (1-gamma) V concentration`` and ``c = V concentration + 1``. The ratio of successive
    terms grows towards x, so the remainder after a term t is at most ``t exp(delta)``, and summing
    stops when that is below half an ulp. Where this takes too long (concentration or gamma V near
    zero with a large delta) the same expectation is integrated instead.
    """
    g, d = open_unit("gamma", gamma), logit_bias(delta)
    total = positive("vocab_size", vocab_size) * positive("concentration", concentration)
    g, d, total = np.broadcast_arrays(g, d, total)
    x, b, c = -np.expm1(-d), (1.0 - g) * total, total + 1.0
    term, series = np.ones_like(x), np.ones_like(x)
    for k in range(_MAX_TERMS):
        term = term * x * (b + k) / (c + k)
        series = series + term
        if np.all(term * np.exp(d) <= 1e-16 * series):
            return g * series
    return beta_expectation(lambda y: token_green_rate(y, d[..., None]), g * total, b)
