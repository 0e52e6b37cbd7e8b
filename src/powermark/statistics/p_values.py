"""Evidence in colours: exact p-values of a green count on any scale, and steps of the e-value."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from powermark.checks import Array, count, in_interval, open_unit
from powermark.theory.power import binomial_tail

_NEAR_ONE = 1.0 - 1e-6  # a bet that a red token can never come would lose everything on the first
_TINY = 1e-200  # below, the incomplete Beta function starts to lose digits, and at 1e-250 all


def p_value(green: ArrayLike, scored: ArrayLike, gamma: ArrayLike) -> Array:
    """P(S >= green) for S ~ Binomial(scored, gamma): exact, as small as a float can be."""
    plain, logarithm = _tails(green, scored, gamma)
    return np.where(plain < _TINY, np.exp(logarithm), plain)


def log_p_value(green: ArrayLike, scored: ArrayLike, gamma: ArrayLike) -> Array:
    """Natural logarithm of :func:`p_value`, exact where the p-value itself is too small to hold."""
    return _tails(green, scored, gamma)[1]


def _tails(green: ArrayLike, scored: ArrayLike, gamma: ArrayLike) -> tuple[Array, Array]:
    """Return the tail as the incomplete Beta function has it, and its logarithm from the better."""
    s, n, g = np.broadcast_arrays(
        np.asarray(green, np.float64), np.asarray(scored, np.float64), open_unit("gamma", gamma)
    )
    plain = np.where(s > n, 0.0, binomial_tail(np.maximum(n, 1.0), s, g))  # checks its arguments
    with np.errstate(divide="ignore"):
        logarithm = np.asarray(np.log(plain))
    for place in zip(*np.nonzero(np.atleast_1d(plain) < _TINY), strict=True):
        where = place if plain.ndim else ()
        logarithm[where] = _log_tail(*(float(one[where]) for one in (s, n, g)))
    return plain, logarithm


def _log_tail(s: float, n: float, g: float) -> float:
    """Logarithm of the tail from its largest term: ``pmf(s) (1 + r_1 + r_1 r_2 + ...)``.

    The term is Loader's saddle-point form (2000), which does not cancel; far in the tail the
    ratios ``r_j = (n - s - j + 1) / (s + j) * g / (1 - g)`` fall from below 1.
    """
    if s >= n:
        return float(n * np.log(g)) if s == n else -np.inf
    steps = np.arange(1.0, n - s + 1.0)
    ratios = np.cumprod((n - s - steps + 1.0) / (s + steps) * (g / (1.0 - g)))
    deviance = special.kl_div(s, n * g) + special.kl_div(n - s, n * (1.0 - g))
    error = _stirling(n) - _stirling(s) - _stirling(n - s)
    spread = 0.5 * np.log(2.0 * np.pi * s * (n - s) / n)
    return float(error - deviance - spread + np.log1p(ratios.sum()))


def _stirling(n: float) -> float:
    """Error of Stirling's formula, ``log n! - log(sqrt(2 pi n) (n/e)^n)``."""
    if n < 16.0:
        return float(special.gammaln(n + 1.0) - (n + 0.5) * np.log(n) + n - 0.5 * np.log(2 * np.pi))
    m = n * n
    return float((1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * m)) / m) / m) / n)


def mid_p_value(green: ArrayLike, scored: ArrayLike, gamma: ArrayLike) -> Array:
    """P(S > green) + P(S = green) / 2: nearer to uniform under H0, but no guarantee of a level."""
    s = count("green", green, at_least=0)
    return np.asarray(p_value(np.stack([s, s + 1.0]), scored, gamma).mean(axis=0))


def green_rate_interval(
    green: ArrayLike, scored: ArrayLike, level: float = 0.95
) -> tuple[Array, Array]:
    """Clopper-Pearson interval of the green rate: covers it at least as often as ``level`` says."""
    s, n = count("green", green, at_least=0), count("scored", scored, at_least=0)
    miss = (1.0 - float(open_unit("level", level))) / 2.0
    low = special.betaincinv(np.maximum(s, 1.0), n - s + 1.0, miss)
    high = special.betaincinv(s + 1.0, np.maximum(n - s, 1.0), 1.0 - miss)
    return np.where(s > 0, low, 0.0), np.where(s < n, high, 1.0)


def marked_share(green_rate: ArrayLike, gamma: ArrayLike, gamma_prime: ArrayLike) -> Array:
    """Share of marked tokens that a green rate points to: ``(rate - gamma) / (gamma' - gamma)``."""
    g = open_unit("gamma", gamma)
    return np.clip((np.asarray(green_rate) - g) / (np.asarray(gamma_prime) - g), 0.0, 1.0)


def log_e_path(colours: ArrayLike, gamma: float, gamma_prime: float) -> Array:
    """Return log E_t after each token that counts."""
    up, down = bets(gamma, gamma_prime)
    return np.cumsum(np.where(np.asarray(colours, bool), up, down))


def bets(gamma: float, gamma_prime: float) -> tuple[float, float]:
    """Return what a green and a red token add to log E."""
    g = float(open_unit("gamma", gamma))
    rate = min(float(in_interval("gamma_prime", gamma_prime, g, 1.0, closed="high")), _NEAR_ONE)
    return float(np.log(rate / g)), float(np.log1p(-rate) - np.log1p(-g))
