"""The paper's own methods: Eq. (1) in place of the exact test, and the authors' published grid.

They are kept to reproduce the paper and to show what the approximation costs. Under Eq. (1) the
best gamma lies at the very bound gamma_star with an unbounded delta, so delta is capped as in the
authors' code; the resulting design needs all tokens green and has an exact size above alpha.

Facts taken from the authors' code (repository shooof/wm, solver script): budgets ``-log(gamma_star)
+ {0, .0005, ..., .0075}`` (the paper's table prints 0.025) and green shares ``gamma_star - {0,
.0003, ..., .0078}``; delta solves the KL. Pairs with normal power >= .95 and delta <= 20 are kept;
of the five most powerful the cheapest is taken. Six reduced-strength points follow: delta lowered
by 1 to 4, gamma lowered by .1 and .2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from scipy import optimize

from powermark.checks import Array, count, in_interval, open_unit
from powermark.errors import Infeasible
from powermark.planning import invert
from powermark.planning.request import GAMMA_MIN, Answer, Request, Target
from powermark.signals.signal import SignalModel
from powermark.theory.bounds import gamma_star
from powermark.theory.distortion import (
    delta_from_kl,
    gamma_roots,
    gamma_zero,
    kl_bound,
    kl_divergence,
)
from powermark.theory.green_rate import gamma_prime
from powermark.theory.power import normal_gamma_prime, normal_power, normal_score

DELTA_CAP = 20.0  # the largest delta the authors' solver accepts
POWER = 0.95
_POINTS = 65
_BUDGETS = 0.0005 * np.arange(16)
_SHARES = 0.0003 * np.arange(27)
_REDUCTIONS = ((0.0, 1.0), (0.0, 2.0), (0.0, 3.0), (0.0, 4.0), (0.1, 0.0), (0.2, 0.0))


def solve_paper(request: Request) -> Answer:
    """Find the quantity that is missing, and the paper's design, by Eq. (1)."""
    free: dict[str, Any] = {
        "signal": request.signal,
        "variance_inflation": request.variance_inflation,
        "gamma": request.gamma,
    }
    n, alpha = request.n_tokens, request.alpha
    if n is not None and alpha is not None and request.power is None:  # Eq. (2), directly
        gamma, delta = search_down(n, alpha, kl=request.kl, **free)
        return Answer(gamma=gamma, delta=delta, n_tokens=n, alpha=alpha)

    def cost(target: Target) -> float:
        if request.variance_inflation > 1.0 and target.n_tokens <= request.variance_inflation:
            return inf
        try:
            return float(request.signal.kl(*search_down(*target, **free)))
        except Infeasible:
            return inf

    uneven = invert.uneven_at(request.gamma, 8)
    target = invert.target_of(request, cost, lambda *_: invert.Lengths(uneven=uneven))
    gamma, delta = search_down(*target, **free)
    return Answer(
        gamma=gamma,
        delta=delta,
        n_tokens=target.n_tokens,
        alpha=target.alpha,
        notes=invert.limits_reached(request, target),
    )


def solve_authors(request: Request) -> Answer:
    """Return the authors' design for a length and level, and their weaker points."""
    n, alpha = request.n_tokens, request.alpha
    assert n is not None
    assert alpha is not None
    points = published_points(n, alpha, power=request.power or POWER)
    gamma, delta = points[0]
    return Answer(gamma=gamma, delta=delta, n_tokens=n, alpha=alpha, points=tuple(points))


def search_down(
    n_tokens: int,
    alpha: float,
    power: float | None = None,
    *,
    kl: float | None = None,
    signal: SignalModel,
    variance_inflation: float = 1.0,
    gamma: float | None = None,
) -> tuple[float, float]:
    """Return the paper's (gamma, delta): the least KL for ``power`` or the most power for ``kl``.

    Starts just below gamma_star and walks down to the first local optimum (Section 4): the branch
    gamma_h. With ``gamma`` given only delta is left.
    """
    star = float(gamma_star(n_tokens, alpha))
    goal = f"power {power:g}" if power is not None else f"kl {kl:g}"

    def deltas(gammas: Array) -> Array:
        if kl is not None:
            return np.array([signal.delta_for_kl(g, kl) for g in gammas])
        rates = normal_gamma_prime(gammas, n_tokens, alpha, power or 0.0, variance_inflation)
        pairs = zip(gammas, rates, strict=True)
        return np.array([signal.delta_for_rate(g, r) if g < r < 1.0 else np.inf for g, r in pairs])

    def losses(gammas: Array, biases: Array) -> Array:
        if kl is None:
            return signal.kl(gammas, biases)
        rates = signal.green_rate(gammas, biases)
        return -normal_score(gammas, rates, n_tokens, alpha, variance_inflation)

    tops = star - np.geomspace(1e-12, max(star - GAMMA_MIN, 2e-12), _POINTS)
    gammas = tops if gamma is None else np.array([gamma])
    while True:
        biases = deltas(gammas)
        allowed = np.flatnonzero(biases <= DELTA_CAP)
        if not allowed.size:
            where = "any gamma" if gamma is None else f"gamma = {gamma:g}"
            raise Infeasible(
                f"Eq. (1) does not meet {goal} at {where} with n_tokens = {n_tokens}, alpha = "
                f"{alpha:g}: gamma must be below gamma_star = {star:.4f}, delta at most "
                f"{DELTA_CAP:g}.",
                hint="ask for more tokens, a larger alpha, less power or another gamma.",
            )
        first = int(allowed[0])
        loss = losses(gammas[first:], np.minimum(biases[first:], DELTA_CAP))
        rises = np.flatnonzero(np.diff(loss) > 0.0)
        best = first + (int(rises[0]) if rises.size else loss.size - 1)
        high, low = gammas[max(best - 1, 0)], gammas[min(best + 1, gammas.size - 1)]
        if high - low <= 1e-12:
            return float(gammas[best]), float(biases[best])
        gammas = np.linspace(high, low, _POINTS)


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
    and refined by Brent's method. For a small delta there is none (below .6905 at n = 50, alpha
    = .05: gamma_l leads throughout) and the meeting point itself is returned.
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
