"""Which critical counts are worth a closer look, by closed form and all at once."""

from __future__ import annotations

import numpy as np

from powermark.calibration.problem import GAMMA_MIN, Problem, rate_for
from powermark.checks import Array
from powermark.errors import Infeasible
from powermark.theory.distortion import bernoulli_kl
from powermark.theory.green_rate import token_green_rate
from powermark.theory.power import critical_count

_ALL_COUNTS = 96  # up to this n every critical count is compared, above it a subset first


def candidates(problem: Problem) -> Array:
    """Critical counts worth comparing: all, or both ends densely and the middle sparsely."""
    n = problem.n_tokens
    fewest = _fewest(problem)
    if n <= _ALL_COUNTS or problem.delta is not None:  # a fixed delta has several valleys
        return np.arange(fewest, n + 1.0)
    third = _ALL_COUNTS // 3
    ends = [fewest + np.arange(third), n - np.arange(third), np.linspace(fewest, n, third)]
    ks = np.unique(np.floor(np.concatenate(ends)))
    return ks[(ks >= fewest) & (ks <= n)]


def _fewest(problem: Problem) -> float:
    """Smallest critical count whose gamma is at least GAMMA_MIN."""
    n, alpha = problem.n_tokens, problem.alpha
    fewest = float(critical_count(n, GAMMA_MIN, alpha))
    if fewest > n:
        needed = int(np.ceil(np.log(alpha) / np.log(GAMMA_MIN)))
        raise Infeasible(
            f"n_tokens = {n} cannot reach alpha = {alpha:g}: all {n} tokens are green by chance "
            f"with probability {GAMMA_MIN**n:.2g} even at the smallest gamma, {GAMMA_MIN:g}.",
            hint=f"plan for at least {needed} scored tokens, or a larger alpha.",
        )
    return fewest


def gap(ks: Array, best: float) -> Array:
    """Critical counts that a sparse comparison left out beside its best one; may be none."""
    i = int(np.searchsorted(ks, best))
    low, high = ks[max(i - 1, 0)], ks[min(i + 1, ks.size - 1)]
    return np.setdiff1d(np.arange(low + 1.0, high), ks)


def screen(problem: Problem, ks: Array) -> Array:
    """KL of each critical count by closed form: exact where one exists, else a guide.

    The guide takes the plug-in signal and treats surviving positions as independent.
    """
    n = problem.n_tokens
    gamma = rate_for(n, ks, problem.alpha)
    rate = rate_for(n, ks, problem.power)
    if problem.attacked_power is not None:
        share = max(problem.edits.surviving_share(n), 1e-12)
        attacked = rate_for(n, ks, problem.attacked_power)
        rate = np.maximum(rate, (attacked - (1.0 - share) * gamma) / share)
    reachable = rate < 1.0
    rate = np.where(reachable, rate, 0.5)
    if problem.delta is not None:
        # the largest gamma gives the most power; a smaller one may cost less (Lemma 3.9)
        reachable &= token_green_rate(gamma, problem.delta) >= rate
        least = token_green_rate(1.0 - rate, problem.delta)  # red mirror of the token lemma
        lower = np.where(reachable, 1.0 - least, 0.5)
        costs = np.minimum(
            problem.signal.kl(np.clip(lower, GAMMA_MIN, 1.0 - 1e-9), problem.delta),
            problem.signal.kl(gamma, problem.delta),
        )
    else:
        costs = bernoulli_kl(rate, gamma)
    return np.where(reachable, costs, np.inf)
