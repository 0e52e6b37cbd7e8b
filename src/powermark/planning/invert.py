"""Inversions of the least KL: for the power, for the length and for the level.

The least KL of :mod:`powermark.planning.solver` rises with the power and falls with n and alpha.
Each inversion brackets its unknown, starts from the information limit, and returns a value on the
safe side: the KL found there does not exceed the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from scipy import optimize, special

from powermark.errors import Infeasible
from powermark.planning.request import ALPHA_FLOOR, Request, Target
from powermark.theory.bounds import information_limit
from powermark.theory.required_length import LONGEST

POWER_CEILING = 1.0 - 1e-6  # more power than this is not worth distortion

Cost = Callable[[float], float]  # least KL as a function of the unknown; inf if infeasible


class Costed(Protocol):
    """A design with its KL."""

    @property
    def kl(self) -> float:
        """Nats per token."""


Found = TypeVar("Found", bound=Costed)


class Lengths(NamedTuple):
    """Where to look for the shortest text: above ``above``, up to ``longest``.

    ``uneven`` lengths just below the first found are tried too, because integers make the cost a
    saw-tooth. ``known`` is the length where a formula gives it.
    """

    uneven: int = 0
    above: int = 0
    longest: int = LONGEST
    known: int | None = None


def uneven_at(gamma: float | None, otherwise: int) -> int:
    """Return how many lengths to try below the first found, at a fixed gamma or a free one."""
    return otherwise if gamma is None else int(3.0 / min(gamma, 1.0 - gamma))


def target_of(
    request: Request,
    cost: Callable[[Target], float],
    lengths: Callable[[float, float, float], Lengths],
) -> Target:
    """Return the target of a request, with the missing quantity solved for.

    ``cost`` is the least KL of a target, and ``lengths`` says for alpha, power and kl where to look
    for the shortest text.
    """
    match request.n_tokens, request.alpha, request.power, request.kl:
        case None, float(alpha), float(power), float(kl):
            where = lengths(alpha, power, kl)
            n = where.known or least_tokens(
                lambda n: cost(Target(int(n), alpha, power)), kl, alpha, power, where
            )
        case int(n), None, float(power), float(kl):
            alpha = least_alpha(lambda a: cost(Target(n, a, power)), kl, n, power)
        case int(n), float(alpha), None, float(kl):
            power = most_power(lambda p: cost(Target(n, alpha, p)), kl, alpha)
        case int(n), float(alpha), float(power), _:  # pragma: no branch
            pass
    return Target(n, alpha, power)


def within_budget(
    request: Request, target: Target, design: Callable[[Target], Found], step: float
) -> tuple[Target, Found]:
    """Return a design for a target; where rounding overspends, for one a little easier."""
    found = design(target)
    while request.kl is not None and found.kl > request.kl:
        target = _relax(request.solved_for, target, step)
        found, step = design(target), 1.5 * step
    return target, found


def _relax(solved_for: str, target: Target, step: float) -> Target:
    """Make a target a little easier in the quantity that is solved for."""
    if solved_for == "n_tokens":
        return target._replace(n_tokens=target.n_tokens + 1)
    if solved_for == "alpha":
        return target._replace(alpha=target.alpha * (1.0 + step))
    return target._replace(power=float(special.expit(special.logit(target.power) - step)))


def limits_reached(request: Request, target: Target) -> tuple[str, ...]:
    """Return a note where the solver's smallest level or largest power leaves budget over."""
    if request.solved_for == "alpha" and target.alpha <= 1.001 * ALPHA_FLOOR:
        return (f"alpha = {target.alpha:g} is the smallest level computed; kl is not used up.",)
    if request.solved_for == "power" and 1.0 - target.power <= 1.001 * (1.0 - POWER_CEILING):
        return ("this power needs less than the kl allowed; more would buy nothing.",)
    return ()


def most_power(cost: Cost, kl: float, lowest: float) -> float:
    """Return the largest power in (lowest, POWER_CEILING] whose least KL is within the budget."""
    if cost(POWER_CEILING) <= kl:
        return POWER_CEILING
    low, high = special.logit(lowest + 1e-9 * (1.0 - lowest)), special.logit(POWER_CEILING)
    if cost(float(special.expit(low))) > kl:
        raise Infeasible(
            f"kl = {kl:g} buys no power above {lowest:g} here.",
            hint="spend more kl, more tokens or a larger alpha.",
        )
    return float(special.expit(_crossing(lambda x: cost(float(special.expit(x))), kl, low, high)))


def least_alpha(cost: Cost, kl: float, n_tokens: int, power: float) -> float:
    """Return the smallest alpha in [ALPHA_FLOOR, power) whose least KL is within the budget."""
    # the information limit: power (-log alpha) <= n kl + entropy(power)
    entropy = float(special.entr(power) + special.entr(1.0 - power))
    low = max(np.log(ALPHA_FLOOR), -(n_tokens * kl + entropy) / power - 1e-9)
    least = float(np.exp(low)) if low > np.log(ALPHA_FLOOR) else ALPHA_FLOOR
    if cost(least) <= kl:  # at the floor; or for Eq. (1), which is not monotone in alpha
        return least
    high = np.log(power) - 1e-9
    if cost(float(np.exp(high))) > kl:
        raise Infeasible(
            f"kl = {kl:g} reaches power {power:g} with n_tokens = {n_tokens} at no alpha below "
            f"the power itself.",
            hint="spend more kl or more tokens.",
        )
    found = -_crossing(lambda x: cost(float(np.exp(-x))), kl, -high, -low)
    return float(np.exp(found))


def least_tokens(cost: Cost, kl: float, alpha: float, power: float, lengths: Lengths) -> int:
    """Return the smallest n whose least KL is within the budget.

    Bisection between the information limit, below which no n can do, and the first doubling that
    does; then a look at the lengths just below.
    """
    uneven, above, longest = min(300, lengths.uneven), lengths.above, lengths.longest
    low = max(1, above, int(np.floor(float(information_limit(1, alpha, power)) / kl)))
    high = low + 1
    while high > longest or cost(high) > kl:
        if high >= longest:
            raise Infeasible(
                f"kl = {kl:g} does not reach power {power:g} at alpha = {alpha:g} within "
                f"{longest:,} tokens.",
                hint="spend more kl per token, or allow fewer edits.",
            )
        low, high = high, min(2 * high, longest)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cost(middle) <= kl else (middle, high)
    for n in range(max(1, above + 1, high - uneven), high):
        if cost(n) <= kl:
            return n
    return high


def _crossing(cost: Cost, kl: float, low: float, high: float) -> float:
    """Return the last x in [low, high] with ``cost(x) <= kl``; cost increases and may jump."""
    cap = 2.0 * kl + 1.0  # keeps infeasible points finite for the root finder
    x = float(optimize.brentq(lambda x: min(cost(x), cap) - kl, low, high, xtol=1e-9, rtol=1e-12))
    step = 1e-9 * (1.0 + abs(x))
    while cost(x) > kl:
        x, step = max(low, x - step), 2.0 * step
    return x
