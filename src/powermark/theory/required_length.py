"""How many scored tokens the exact test needs before a design reaches a power."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from powermark.checks import Array, in_interval, open_unit
from powermark.errors import Infeasible, InvalidInput
from powermark.theory.bounds import information_limit
from powermark.theory.distortion import bernoulli_kl
from powermark.theory.power import beta_binomial_power, binomial_tail, critical_count

LONGEST = 10_000_000  # tokens; longer than any text we plan for
_CHUNK = 32  # red tolerances tried at a time


def required_length(
    gamma: float, gamma_prime: float, alpha: float, power: float, variance_inflation: float = 1.0
) -> int:
    """Return the first n at which the exact level-alpha test has at least ``power``.

    The exact power is a saw-tooth in n: it rises where the number r of tolerated red tokens grows
    by one, and sinks slowly in between. So the first n to reach a power is one of the lengths

        n_r = min{ n : P0(at most r red among n) <= alpha },   r = 0, 1, 2, ...

    For independent tokens they are tried in order from the first n whose *randomised* test reaches
    the power: its power is at least that of ours and grows with n. With overdispersion the start is
    found by bisection over r instead, and the few dozen r below it are tried as well. Longer texts
    may fall below the power again, until the next tooth.
    """
    g = float(open_unit("gamma", gamma))
    rate = float(in_interval("gamma_prime", gamma_prime, 0.0, 1.0, closed="high"))
    a, target = float(open_unit("alpha", alpha)), float(open_unit("power", power))
    c = float(in_interval("variance_inflation", variance_inflation, 1.0, np.inf, closed="low"))
    if rate <= g:
        raise InvalidInput(f"gamma_prime must exceed gamma = {g:g}; got {rate:g}.")

    def reached(reds: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Lengths n_r and whether the test has the power there."""
        n = _first_length(reds, g, a)
        usable = (n > c) | (c == 1.0)  # a shorter text cannot have this inflation
        powers = beta_binomial_power(np.where(usable, n, np.floor(c) + 2.0), n - reds, rate, c)
        return n, usable & (powers >= target)

    if c == 1.0:
        start = _first_randomised(g, rate, a, target)
        red = max(0.0, float(start - critical_count(start, g, a))) if start <= LONGEST else np.inf
    else:
        red = _first_red(lambda r: bool(reached(np.array([r]))[1][0]), LONGEST * (1.0 - g))
    while red < np.inf:
        n, enough = reached(red + np.arange(_CHUNK, dtype=np.float64))
        if np.any(enough):
            return int(n[np.argmax(enough)])
        red = red + _CHUNK if n[-1] <= LONGEST else np.inf
    raise Infeasible(
        f"power {target:g} needs more than {LONGEST:,} scored tokens at gamma = {g:g}, "
        f"gamma_prime = {rate:g}, alpha = {a:g}.",
        hint="a larger delta reaches it with fewer tokens.",
    )


def _first_red(reached: Callable[[float], bool], most: float) -> float:
    """Return where a scan over r may begin: a chunk below the first r that bisection finds."""
    low, high = -1.0, 0.0
    while not reached(high):
        low, high = high, 2.0 * high + 1.0
        if high > most:
            return np.inf
    while high - low > 1.0:
        middle = np.floor((low + high) / 2.0)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return max(0.0, high - _CHUNK + 1.0)


def _first_randomised(gamma: float, rate: float, alpha: float, power: float) -> int:
    """Return the first n at which the randomised level-alpha test reaches ``power``.

    No test reaches it with fewer tokens than the information limit; the search starts there, in
    doubling steps.
    """
    growth = max(float(bernoulli_kl(rate, gamma)), 1e-300)  # rounding may leave it below 0
    low = int(min(float(information_limit(1, alpha, power)) / growth * (1.0 - 1e-9), LONGEST))
    high, step = low + 1, 1
    while _randomised_power(high, gamma, rate, alpha) < power and high <= LONGEST:
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        reached = _randomised_power(middle, gamma, rate, alpha) >= power
        low, high = (low, middle) if reached else (middle, high)
    return high


def _randomised_power(n: int, gamma: float, rate: float, alpha: float) -> float:
    """Power of the test whose size is exactly alpha, because it tosses a coin at k - 1."""
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
