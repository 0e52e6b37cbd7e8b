"""The law of a text's green count, token by token; exact for short texts.

The tokens of a text are green independently, each with its own rate, so the count is
Poisson-binomial. If readers rewrite tokens, whether a token still carries its mark depends on its
neighbours; the recursion then also tracks the number of untouched tokens in a row.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from powermark.checks import Array

WORK = 2e7  # table entries of a recursion; larger problems use a law with the same two moments


def poisson_binomial_tail(rates: Array, k: int) -> Array:
    """P(S >= k) of sums of independent Bernoulli variables; (texts, n) -> (texts,)."""
    return edited_tail(rates, k, gamma=0.5, edit_rate=0.0, context_width=0)


def edited_tail(
    rates: Array, k: int, *, gamma: float, edit_rate: float, context_width: int
) -> Array:
    """P(S >= k) if each token is rewritten with probability ``edit_rate``; per text.

    A position keeps its rate if its token and the ``context_width`` before it are untouched, and
    is green with probability gamma otherwise. (texts, n) -> (texts,).
    """
    texts, n = rates.shape
    if k <= 0 or k > n:
        return np.full(texts, 1.0 if k <= 0 else 0.0)
    few_reds = n - k < k  # count the colour that needs the smaller table
    most = n - k if few_reds else k - 1
    h = context_width if edit_rate > 0.0 else 0
    if texts * n * (h + 1) * (most + 1) > WORK:
        return matched_tail(*_moments(rates, gamma, edit_rate, context_width), k)
    chances, lost = (1.0 - rates, 1.0 - gamma) if few_reds else (rates, gamma)
    from powermark.signals.count_kernels import at_most  # Numba takes a while to load

    inside: Array = np.clip(
        at_most(np.ascontiguousarray(chances), lost, float(edit_rate), h, most), 0.0, 1.0
    )
    return inside if few_reds else 1.0 - inside


def tails_by_length(
    rates: Array, needed: Array, *, gamma: float, edit_rate: float, context_width: int
) -> Array:
    """P(S_n >= needed[n - 1]) after each n = 1, 2, ... tokens; (texts, tokens) -> the same.

    Edits are those of :func:`edited_tail`; a need above n has no chance.
    """
    from powermark.signals.count_kernels import at_least_by_length

    h = context_width if edit_rate > 0.0 else 0
    ks = np.asarray(needed, np.int64)
    found = at_least_by_length(np.ascontiguousarray(rates), gamma, float(edit_rate), h, ks)
    return np.asarray(np.clip(found, 0.0, 1.0))


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


def matched_tail(mean: Array, variance: Array, k: int) -> Array:
    """P(S >= k) for the binomial law with this mean and variance and a free number of trials.

    If the variance exceeds the mean, for the negative binomial law.
    """
    excess = variance / mean - 1.0
    share = np.clip(-excess, 1e-9, 1.0)
    narrow = special.betainc(k, np.maximum(mean / share - k + 1.0, 1e-9), share)
    wide = np.maximum(excess, 1e-9)
    broad = special.betainc(k, mean / wide, wide / (1.0 + wide))
    return np.asarray(np.where(excess < 0.0, narrow, broad))
