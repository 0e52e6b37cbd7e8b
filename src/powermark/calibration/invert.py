"""Three inversions of the least KL: for the power, for the length and for the level.

The least KL of :mod:`powermark.calibration.solve` rises with the power asked and falls with n and
alpha. Each solver brackets its unknown, starts from the information limit, and returns a value on
the safe side: the KL found there does not exceed the budget.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize, special

from powermark.errors import Infeasible, InvalidInput
from powermark.theory.bounds import information_limit
from powermark.theory.required_length import LONGEST

POWER_CEILING = 1.0 - 1e-6  # more power than this is not worth distortion
ALPHA_FLOOR = 1e-240  # below about 1e-250 scipy's incomplete Beta function may return 0

Cost = Callable[[float], float]  # least KL as a function of the unknown; inf if infeasible


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


def least_tokens(
    cost: Cost,
    kl: float,
    alpha: float,
    power: float,
    *,
    uneven: int,
    above: int = 0,
    longest: int = LONGEST,
) -> int:
    """Return the smallest n above ``above``, up to ``longest``, whose least KL is in the budget.

    Bisection between the information limit, below which no n can do, and the first doubling that
    does; then a look at the ``uneven`` lengths just below, because integers make the cost a
    saw-tooth.
    """
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


def the_missing(**given: float | None) -> str:
    """Return the name of the one argument that is None.

    Raises
    ------
    InvalidInput
        If none or several are.
    """
    missing = [name for name, value in given.items() if value is None]
    names = ", ".join(given)
    if len(missing) != 1:
        what = "all were given" if not missing else f"missing: {', '.join(missing)}"
        raise InvalidInput(
            f"give all but one of {names}; {what}.",
            hint="the one left out is solved for, for example give n_tokens, alpha and power for "
            "the least kl.",
        )
    return missing[0]
