"""How many scored tokens the exact test needs before a design reaches a power."""

from __future__ import annotations

import numpy as np
from scipy import special

from powermark.checks import Array, open_unit
from powermark.errors import Infeasible, InvalidInput
from powermark.theory.bounds import information_limit
from powermark.theory.distortion import bernoulli_kl
from powermark.theory.power import beta_binomial_power, binomial_tail, critical_count

LONGEST = 10_000_000  # tokens; longer than any text we plan for
_CHUNK = 32  # red tolerances tried at first; doubled each round


def required_length(
    gamma: float, gamma_prime: float, alpha: float, power: float, variance_inflation: float = 1.0
) -> int:
    """Return the first n at which the exact level-alpha test has at least ``power``.

    The exact power is a saw-tooth in n: it rises where the number r of tolerated red tokens grows
    by one, and sinks slowly in between. So the first n to reach a power is one of the lengths

        n_r = min{ n : P0(at most r red among n) <= alpha },   r = 0, 1, 2, ...

    They are tried in order. For independent tokens the search may begin at the first n whose
    *randomised* test reaches the power: its power is at least that of ours and grows with n.
    Longer texts may fall below the power again, until the next tooth.
    """
    g, rate = float(open_unit("gamma", gamma)), float(open_unit("gamma_prime", gamma_prime))
    a, target = float(open_unit("alpha", alpha)), float(open_unit("power", power))
    if rate <= g:
        raise InvalidInput(f"gamma_prime must exceed gamma = {g:g}; got {rate:g}.")
    too_long = Infeasible(
        f"power {target:g} needs more than {LONGEST:,} scored tokens at gamma = {g:g}, "
        f"gamma_prime = {rate:g}, alpha = {a:g}.",
        hint="a larger delta reaches it with fewer tokens.",
    )
    red, chunk = 0.0, _CHUNK
    if variance_inflation == 1.0:
        start = _first_randomised(g, rate, a, target)
        if start > LONGEST:
            raise too_long
        red = max(0.0, float(start - critical_count(start, g, a)))
    while True:
        reds = red + np.arange(chunk, dtype=np.float64)
        lengths = _first_length(reds, g, a)
        usable = lengths > variance_inflation
        if np.any(usable):
            n, r = lengths[usable], reds[usable]
            reached = beta_binomial_power(n, n - r, rate, variance_inflation) >= target
            if np.any(reached):
                return int(n[np.argmax(reached)])
        if lengths[-1] > LONGEST:
            raise too_long
        red, chunk = red + chunk, 2 * chunk


def _first_randomised(gamma: float, rate: float, alpha: float, power: float) -> int:
    """Return the first n at which the randomised level-alpha test reaches ``power``.

    No test reaches it with fewer tokens than the information limit; from there in doubling steps.
    """
    limit = float(information_limit(1, alpha, power)) / float(bernoulli_kl(rate, gamma))
    low = int(min(limit * (1.0 - 1e-9), LONGEST))
    high, step = low + 1, 1
    while _randomised_power(high, gamma, rate, alpha) < power and high <= LONGEST:
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        reached = _randomised_power(middle, gamma, rate, alpha) >= power
        low, high = (low, middle) if reached else (middle, high)
    return high


def _randomised_power(n: int, gamma: float, rate: float, alpha: float) -> float:
    """Power of the test that spends alpha to the last digit by tossing a coin at k - 1."""
    k = critical_count(n, gamma, alpha)
    counts = np.array([k, k - 1.0])
    null, marked = binomial_tail(n, counts, gamma), binomial_tail(n, counts, rate)
    coin = (alpha - null[0]) / (null[1] - null[0])
    return float(marked[0] + coin * (marked[1] - marked[0]))


def _first_length(reds: Array, gamma: float, alpha: float) -> Array:
    """Return, for each r, the smallest n with P(Bin(n, gamma) >= n - r) <= alpha."""
    low = reds.copy()  # n = r: no green token is needed, so P0 = 1 > alpha
    high = low + 1.0
    while np.any(too_short := special.betainc(high - reds, reds + 1.0, gamma) > alpha):
        low, high = np.where(too_short, high, low), np.where(too_short, 2.0 * high, high)
    while np.any(high - low > 1.0):
        middle = np.maximum(np.floor((low + high) / 2.0), reds + 1.0)
        rejects = special.betainc(middle - reds, reds + 1.0, gamma) <= alpha
        low, high = np.where(rejects, low, middle), np.where(rejects, middle, high)
    return high
