"""What a green count is worth to a steered text: the rewards R(s) of :mod:`.steering`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

from powermark.calibration.edits import Edits
from powermark.checks import Array
from powermark.theory.power import unchecked_tail


def clean_reward(n_tokens: int, k: int) -> Array:
    """Whether a count of s reaches k, for s = 0..n."""
    return np.asarray(np.arange(n_tokens + 1) >= k, np.float64)


@lru_cache(maxsize=64)
def edited_reward(n_tokens: int, k: int, gamma: float, edits: Edits) -> Array:
    """P(a count of s still reaches k after edits), for s = 0..n.

    Where a fixed number m of the n positions survives, ``Hypergeom(n, s, m)`` of the greens do, and
    ``Binomial(n - m, gamma)`` others turn up. With an edit rate each survives on its own: a guide,
    as neighbours survive together; :func:`powermark.calibration.steering.edited_power` is exact.
    """
    n, s = n_tokens, np.arange(n_tokens + 1.0)
    if edits.edit_rate is None:
        m = edits.surviving_count(n)
        kept = np.arange(m + 1.0)
        logs = _log_choose(s[:, None], kept) + _log_choose(n - s[:, None], m - kept)
        greens = np.exp(logs - _log_choose(np.asarray(float(n)), np.asarray(float(m))))
        return np.asarray(np.clip(greens @ unchecked_tail(n - m, k - kept, gamma), 0.0, 1.0))
    q = edits.surviving_share(n)
    stays, turns = q + (1.0 - q) * gamma, (1.0 - q) * gamma
    logs = _log_choose(s[:, None], s) + special.xlogy(s, stays)
    greens = np.exp(logs + special.xlog1py(np.maximum(s[:, None] - s, 0.0), -stays))
    tails = np.stack([unchecked_tail(n - count, k - s, turns) for count in range(n + 1)])
    return np.asarray(np.clip((greens * tails).sum(axis=1), 0.0, 1.0))


def _log_choose(n: Array, k: Array) -> Array:
    """Logarithm of the binomial coefficient, minus infinity where there is none."""
    possible = (k >= 0.0) & (k <= n)
    k = np.where(possible, k, 0.0)
    value = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    return np.where(possible, value, -np.inf)
