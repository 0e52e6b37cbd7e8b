"""The design problem: the least KL that reaches a power, exactly (the paper's dual form).

For each critical count k the best gamma is the largest whose size is alpha: ``P0(S >= k) = alpha``,
an inverse Beta function. What is left is the delta that gives the power; with the plug-in signal,
independent tokens and no edits that too is an inverse Beta function, so all k are compared at once.
Otherwise k is screened with the closed form and settled by exact evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from powermark.calibration.downhill import downhill
from powermark.calibration.problem import GAMMA_MIN, Problem, rate_for
from powermark.calibration.screen import candidates, gap, screen
from powermark.calibration.signal import MAX_DELTA, PlugIn
from powermark.checks import Array
from powermark.errors import Infeasible
from powermark.theory.power import binomial_tail, critical_count

GAMMA_GRID = 2.0**-32  # a 32-bit hash colours tokens; gamma is a multiple, rounded down
_WEAKEST = 1e-4  # a smaller bias is no mark
_COMPARING = 1e-7  # precision of delta while critical counts are compared
_STARTS = (1.0, 0.97, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1)  # shares of n where the exact search looks too


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The cheapest design that solves a problem."""

    gamma: float
    delta: float
    critical_count: int
    kl: float


def on_grid(gamma: Array | float) -> Array:
    """Return the multiple of GAMMA_GRID just below, or at, a gamma."""
    return np.asarray(np.floor(np.asarray(gamma) / GAMMA_GRID) * GAMMA_GRID)


def least_kl(problem: Problem) -> Solution:
    """Return the design of least KL whose exact test keeps alpha and reaches the power.

    Raises
    ------
    Infeasible
        If no gamma in [GAMMA_MIN, 1) and delta up to MAX_DELTA do.
    """
    if problem.gamma is not None:
        return _at_gamma(problem, problem.gamma)
    ks = candidates(problem)
    costs = screen(problem, ks)
    if problem.closed_form:
        left_out = gap(ks, ks[np.argmin(costs)])
        ks, costs = np.append(ks, left_out), np.append(costs, screen(problem, left_out))
        return _solution(problem, ks[np.argmin(costs)])
    return _descend(problem, ks, costs)


def settle(problem: Problem, solution: Solution) -> Solution:
    """Put gamma on the hash grid and delta on float32, on the safe side of size and power.

    What is deployed then has exactly the planned values: a hash resolves gamma no finer, and
    engines add delta in float32.
    """
    n, k, gamma = problem.n_tokens, solution.critical_count, solution.gamma
    if problem.gamma is None:
        gamma = float(on_grid(gamma))
        while binomial_tail(n, k, gamma) > problem.alpha:
            gamma -= GAMMA_GRID
    if problem.delta is not None:
        gamma = _nudge(lambda g: problem.margin(k, g, problem.delta or 0.0), gamma, GAMMA_GRID)
        while binomial_tail(n, k, gamma) > problem.alpha:  # no room above: take what was lost
            gamma -= GAMMA_GRID
        return replace(solution, gamma=gamma, kl=float(problem.signal.kl(gamma, problem.delta)))
    found = _tune(problem, k, gamma, near=solution.delta)
    delta = float(np.float32(solution.delta if found is None else found[1]))
    ulp = float(np.spacing(np.float32(delta)))
    delta = min(MAX_DELTA, _nudge(lambda d: problem.margin(k, gamma, d), delta, ulp))
    return replace(solution, gamma=gamma, delta=delta, kl=float(problem.signal.kl(gamma, delta)))


def _nudge(margin: Callable[[float], float], value: float, step: float) -> float:
    """Raise ``value`` by as few steps as make the margin non-negative, in doubling strides."""
    strides = (0.0, *(step * 2.0**i for i in range(24)))
    return next((value + s for s in strides if margin(value + s) >= 0.0), value)


def _descend(problem: Problem, ks: Array, guide: Array) -> Solution:
    """Evaluate critical counts exactly: the guide's best, a coarse net, then downhill."""
    n = problem.n_tokens
    padded = np.concatenate([[np.inf], guide, [np.inf]])
    valleys = np.flatnonzero((guide <= padded[:-2]) & (guide <= padded[2:]))
    net, step = ks[valleys[np.argsort(guide[valleys])[:3]]], max(1, n // 128)
    if not isinstance(problem.signal, PlugIn) or problem.delta is not None:  # a poor guide
        net, step = np.append(net, np.floor(np.array(_STARTS) * n)), max(1, n // 16)
    rough = replace(problem, signal=problem.signal.thinned())
    deltas: dict[int, float] = {}  # by critical count; where to look for those of others

    def cost(k: int) -> float:
        nearest = min(deltas, key=lambda other: abs(other - k), default=None)
        near = 1.0 if nearest is None else deltas[nearest]
        gamma = float(rate_for(n, k, problem.alpha))
        found = _tune(rough, k, gamma, near=near, precision=_COMPARING)
        deltas[k] = 1.0 if found is None else found[1]
        return np.inf if found is None else float(rough.signal.kl(*found))

    all_over = ks[:: max(1, ks.size // 24)]
    best = downhill(cost, map(int, net), int(ks[0]), n, step, spare=map(int, all_over))
    return _solution(problem, best, near=deltas[best])


def _tune(
    problem: Problem, k: float, gamma: float, *, near: float = 1.0, precision: float = 1e-12
) -> tuple[float, float] | None:
    """Return the cheapest (gamma, delta) with critical count k and gamma at most the one given.

    ``near`` is where to look for delta first.
    """
    if problem.delta is not None:
        return _tune_gamma(problem, k, gamma, problem.delta)
    if problem.closed_form:
        rate = float(rate_for(problem.n_tokens, k, problem.power))
        return (gamma, problem.signal.delta_for_rate(gamma, rate)) if rate < 1.0 else None
    bracket = _bracket(lambda d: problem.margin(k, gamma, d), near)
    if bracket is None:
        return None
    low, high = bracket
    if low >= high:  # overdispersion alone may pass a low power
        return gamma, high
    root = optimize.brentq(lambda d: problem.margin(k, gamma, d), low, high, xtol=precision)
    return gamma, float(root)


def _bracket(margin: Callable[[float], float], near: float) -> tuple[float, float] | None:
    """Return biases on both sides of the least that is enough, looking around ``near`` first."""
    low = high = min(max(near, _WEAKEST), MAX_DELTA)
    stride = 1.2
    if margin(near) >= 0.0:
        while low > _WEAKEST:
            low = max(low / stride, _WEAKEST)
            if margin(low) < 0.0:
                return low, high
            high, stride = low, stride**2
        return low, high
    while high < MAX_DELTA:
        high = min(high * stride, MAX_DELTA)
        if margin(high) >= 0.0:
            return low, high
        low, stride = high, stride**2
    return None


def _tune_gamma(
    problem: Problem, k: float, most: float, delta: float
) -> tuple[float, float] | None:
    """At a fixed delta the power rises with gamma, while the KL rises and then falls (Lemma 3.9).

    So the cheapest gamma is the largest that keeps alpha or the least that has the power. The
    latter is only looked for where small gammas are the cheaper ones.
    """
    if problem.margin(k, most, delta) < 0.0:
        return None
    least = min(GAMMA_MIN, most)
    if problem.signal.kl(least, delta) >= problem.signal.kl(most, delta):
        return most, delta
    if problem.margin(k, least, delta) < 0.0:
        least = optimize.brentq(lambda g: problem.margin(k, g, delta), least, most, xtol=1e-13)
        least = min(most, least * (1.0 + 1e-9))
    cheaper = problem.signal.kl(least, delta) < problem.signal.kl(most, delta)
    return (float(least), delta) if cheaper else (most, delta)


def _at_gamma(problem: Problem, gamma: float) -> Solution:
    """Solve with gamma given by the user: the critical count follows, delta is left."""
    n, alpha = problem.n_tokens, problem.alpha
    k = int(critical_count(n, gamma, alpha))
    if k > n:
        needed = int(np.ceil(np.log(alpha) / np.log(gamma)))
        raise Infeasible(
            f"no test of level alpha = {alpha:g} exists at gamma = {gamma:g}, n_tokens = {n}: all "
            f"{n} tokens are green by chance with probability {gamma**n:.3g}.",
            hint=f"plan for at least {needed} scored tokens, or gamma at most "
            f"{alpha ** (1 / n):.4g}.",
        )
    return _solution(problem, k)


def _solution(problem: Problem, k: float, near: float = 1.0) -> Solution:
    """Return the cheapest design with critical count k."""
    most = problem.gamma or float(rate_for(problem.n_tokens, k, problem.alpha))
    found = _tune(problem, k, most, near=near)
    if found is None:
        raise Infeasible(
            _unreachable(problem), hint="allow fewer edits, more tokens or less power."
        )
    gamma, delta = found
    kl = float(problem.signal.kl(gamma, delta))
    return Solution(gamma=gamma, delta=delta, critical_count=int(k), kl=kl)


def _unreachable(problem: Problem) -> str:
    """Return the sentence for a power that no design reaches."""
    asked = f"power {problem.power:g}"
    if problem.attacked_power is not None:
        share = problem.edits.surviving_share(problem.n_tokens)
        asked += f" and attacked_power {problem.attacked_power:g} with {share:.0%} surviving"
    fixed = "" if problem.gamma is None else f" at gamma = {problem.gamma:g}"
    fixed += "" if problem.delta is None else f" at delta = {problem.delta:g}"
    return (
        f"no design{fixed} reaches {asked} with n_tokens = {problem.n_tokens}, "
        f"alpha = {problem.alpha:g}."
    )
