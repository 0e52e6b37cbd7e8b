"""The authors' published procedure, grid and all (repository shooof/wm, solver script).

Facts taken from their code: budgets ``-log(gamma_star) + {0, .0005, ..., .0075}`` (the paper's
table prints 0.025) and green shares ``gamma_star - {0, .0003, ..., .0078}``; delta solves the KL.
Pairs with normal power >= .95 and delta <= 20 are kept; of the five most powerful the cheapest is
taken. Six reduced-strength points follow: delta lowered by 1 to 4, gamma lowered by .1 and .2.
"""

from __future__ import annotations

import numpy as np

from powermark.errors import Infeasible
from powermark.theory.bounds import gamma_star
from powermark.theory.distortion import delta_from_kl, kl_bound
from powermark.theory.green_rate import gamma_prime
from powermark.theory.power import normal_power

POWER = 0.95
_BUDGETS = 0.0005 * np.arange(16)
_SHARES = 0.0003 * np.arange(27)
_REDUCTIONS = ((0.0, 1.0), (0.0, 2.0), (0.0, 3.0), (0.0, 4.0), (0.1, 0.0), (0.2, 0.0))


def published_pair(n_tokens: int, alpha: float, *, power: float = POWER) -> tuple[float, float]:
    """Return their (gamma, delta) for a length and level."""
    star = float(gamma_star(n_tokens, alpha))
    budget, gamma = np.meshgrid(-np.log(star) + _BUDGETS, star - _SHARES, indexing="ij")
    inside = (gamma > 0.0) & (gamma < 1.0)
    inside[inside] &= budget[inside] < kl_bound(gamma[inside])
    budget, gamma = budget[inside], gamma[inside]
    delta = delta_from_kl(gamma, budget)
    reached = normal_power(gamma, gamma_prime(gamma, delta), n_tokens, alpha)
    kept = np.flatnonzero((reached >= power) & (delta <= 20.0))
    if not kept.size:
        raise Infeasible(
            f"the authors' grid holds no pair of power {power:g} for n_tokens = {n_tokens}, "
            f"alpha = {alpha:g}.",
            hint='use method "exact", which solves instead of searching a grid.',
        )
    strongest = kept[np.argsort(-reached[kept], kind="stable")[:5]]
    chosen = strongest[np.argmin(budget[strongest])]
    return float(gamma[chosen]), float(delta[chosen])


def largest_budget(n_tokens: int, alpha: float) -> float:
    """Return the most KL that any green share of their grid can cost, at any delta."""
    return float(kl_bound(gamma_star(n_tokens, alpha) - _SHARES[-1]))


def published_points(
    n_tokens: int, alpha: float, *, power: float = POWER
) -> list[tuple[float, float]]:
    """Return the points of their table: the pair itself and six weaker ones, where they exist."""
    gamma, delta = published_pair(n_tokens, alpha, power=power)
    weaker = [(gamma - less_gamma, delta - less_delta) for less_gamma, less_delta in _REDUCTIONS]
    return [(gamma, delta), *((g, d) for g, d in weaker if g > 0.0 and d > 0.0)]
