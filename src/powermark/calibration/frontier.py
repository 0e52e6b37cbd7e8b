"""The trade-off curve, and where the two branches of Eq. (3) meet (paper, Section 4, Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from powermark.calibration.design import Design
from powermark.calibration.plan import plan
from powermark.checks import Array, count, in_interval, open_unit
from powermark.errors import Infeasible
from powermark.theory.distortion import gamma_roots, gamma_zero, kl_divergence
from powermark.theory.green_rate import gamma_prime
from powermark.theory.power import normal_power, normal_score

POWERS = tuple(np.round(np.concatenate([np.arange(0.1, 0.95, 0.05), [0.95, 0.97, 0.99, 0.999]]), 3))


def frontier(
    *, n_tokens: int, alpha: float, powers: Sequence[float] = POWERS, **options: Any
) -> list[Design]:
    """Return the cheapest design for each power: the power-KL curve of a method.

    Parameters
    ----------
    n_tokens, alpha
        Length and level.
    powers
        Powers to reach; those that cannot be are left out.
    **options
        Whatever :func:`~powermark.calibration.plan.plan` takes: method, signal, edits, gamma, ...
    """
    designs: list[Design] = []
    for power in powers:
        try:
            designs.append(plan(n_tokens=n_tokens, alpha=alpha, power=power, **options))
        except Infeasible:
            continue
    return designs


@dataclass(frozen=True, slots=True, kw_only=True)
class Intersection:
    """Where gamma_l and gamma_h cost the same and detect the same, for one delta."""

    delta: float
    kl: float
    power: float
    gamma_l: float
    gamma_h: float


def branch_powers(
    delta: float, kl: Array, *, n_tokens: int, alpha: float
) -> tuple[Array, Array, Array, Array]:
    """Figure 1(a): gamma_l, gamma_h and their normal powers as the KL varies at one delta."""
    low, high = gamma_roots(delta, kl)
    powers = [normal_power(g, gamma_prime(g, delta), n_tokens, alpha) for g in (low, high)]
    return low, high, powers[0], powers[1]


def branch_intersection(delta: float, *, n_tokens: int, alpha: float) -> Intersection:
    """Figure 1(b): the power at which the two branches of ``KL(gamma, delta) = K`` cross.

    Above it gamma_h reaches the same power with less KL. Near K = 0 the lower branch detects more,
    and at the largest K both meet in gamma_zero; a crossing in between is bracketed on a grid of K
    and refined by Brent's method. For a small delta there is none (below .69 at n = 50, alpha =
    .05: gamma_l leads throughout) and the meeting point itself is returned.
    """
    d = float(in_interval("delta", delta, 0.0, 700.0))
    n, a = int(count("n_tokens", n_tokens)), float(open_unit("alpha", alpha))
    peak = float(kl_divergence(gamma_zero(d), d))

    def lead(kl: Array) -> Array:
        """How far the upper branch is ahead, in normal scores."""
        low, high = gamma_roots(d, kl)
        return normal_score(high, gamma_prime(high, d), n, a) - normal_score(
            low, gamma_prime(low, d), n, a
        )

    grid = peak * np.geomspace(1e-6, 1.0 - 1e-6, 150)
    ahead = lead(grid)
    crossings = np.flatnonzero((ahead[:-1] < 0.0) & (ahead[1:] >= 0.0))
    kl = peak
    if crossings.size:
        i = int(crossings[0])
        kl = float(optimize.brentq(lambda k: float(lead(np.asarray(k))), grid[i], grid[i + 1]))
    low, high, _, power = branch_powers(d, np.asarray(kl), n_tokens=n, alpha=a)
    return Intersection(delta=d, kl=kl, power=float(power), gamma_l=float(low), gamma_h=float(high))
