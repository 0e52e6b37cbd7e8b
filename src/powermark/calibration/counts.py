"""The law of a text's green count, token by token: no approximation where a text is short.

The tokens of a text are green independently, each with its own rate, so the count is
Poisson-binomial. Where readers rewrite tokens, whether a token still carries its mark hangs on its
neighbours; the recursion then keeps how many tokens in a row are untouched.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from powermark.checks import Array

WORK = 2e7  # numbers that a recursion may touch; beyond, the law of the mean and variance is taken


def poisson_binomial_tail(rates: Array, k: int) -> Array:
    """P(S >= k) of sums of independent Bernoulli variables; (texts, n) -> (texts,)."""
    return edited_tail(rates, k, gamma=0.5, edit_rate=0.0, context_width=0)


def edited_tail(
    rates: Array, k: int, *, gamma: float, edit_rate: float, context_width: int
) -> Array:
    """P(S >= k) where each token is rewritten with probability ``edit_rate``; per text.

    A position keeps its rate if its token and the ``context_width`` before it are untouched, and
    is green with probability gamma otherwise. (texts, n) -> (texts,).
    """
    texts, n = rates.shape
    if k <= 0 or k > n:
        return np.full(texts, 1.0 if k <= 0 else 0.0)
    few_reds = n - k < k  # follow the rarer colour, as far as it matters
    most = n - k if few_reds else k - 1
    h = context_width if edit_rate > 0.0 else 0
    if texts * n * (h + 1) * (most + 1) > WORK:
        return _matched(*_moments(rates, gamma, edit_rate, context_width), k)
    chances, lost = (1.0 - rates, 1.0 - gamma) if few_reds else (rates, gamma)
    from powermark.calibration.kernels import at_most  # Numba takes a while to load

    inside: Array = np.clip(
        at_most(np.ascontiguousarray(chances), lost, float(edit_rate), h, most), 0.0, 1.0
    )
    return inside if few_reds else 1.0 - inside


def _moments(
    rates: Array, gamma: float, edit_rate: float, context_width: int
) -> tuple[Array, Array]:
    """Mean and variance of the count, neighbours' covariance included; per text."""
    keep, h, n = 1.0 - edit_rate, context_width, rates.shape[1]
    survival = keep ** (h + 1) if edit_rate > 0.0 else 1.0
    gain = rates - gamma
    mixed = gamma + survival * gain
    variance = (mixed * (1.0 - mixed)).sum(axis=1)
    if edit_rate > 0.0:
        for lag in range(1, min(h, n - 1) + 1):
            together = survival * keep**lag - survival**2
            variance += 2.0 * together * (gain[:, :-lag] * gain[:, lag:]).sum(axis=1)
    return mixed.sum(axis=1), variance


def _matched(mean: Array, variance: Array, k: int) -> Array:
    """P(S >= k) for the binomial law with this mean and variance, its number of trials being free.

    Where the variance exceeds the mean, for the negative binomial law.
    """
    excess = variance / mean - 1.0
    share = np.clip(-excess, 1e-9, 1.0)
    narrow = special.betainc(k, np.maximum(mean / share - k + 1.0, 1e-9), share)
    wide = np.maximum(excess, 1e-9)
    broad = special.betainc(k, mean / wide, wide / (1.0 + wide))
    return np.asarray(np.where(excess < 0.0, narrow, broad))
