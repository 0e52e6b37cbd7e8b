"""Size and power of the green-count test: exact, overdispersed and normal (paper, Section 3.3).

The detector counts S green tokens among n scored ones and rejects when S >= critical_count. Under
H0 the count is exactly Binomial(n, gamma) (Lemma 3.2), so sizes here are exact; the paper's z-test
and its normal power, Eq. (1), stand beside them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from powermark.checks import Array, count, in_interval, open_unit, positive, unit
from powermark.errors import InvalidInput
from powermark.theory.beta import beta_expectation


def binomial_tail(n_tokens: ArrayLike, critical_count: ArrayLike, rate: ArrayLike) -> Array:
    """P(S >= critical_count) for S ~ Binomial(n_tokens, rate), to full relative precision.

    The size of the test at rate = gamma (Lemma 3.2) and its power at rate = gamma_prime.
    1 where critical_count <= 0 and 0 where it exceeds n_tokens.
    """
    n, k = count("n_tokens", n_tokens), count("critical_count", critical_count, at_least=0)
    return unchecked_tail(n, k, unit("rate", rate))


def unchecked_tail(n: Array | int, k: Array, p: Array | float) -> Array:
    """The regularised incomplete Beta function I_p(k, n-k+1), and its limits outside 1..n.

    :func:`binomial_tail` for any whole k and for n of 0 as well.
    """
    inside = (k >= 1.0) & (k <= n)
    tail = special.betainc(np.where(inside, k, 1.0), np.where(inside, n - k + 1.0, 1.0), p)
    return np.where(inside, tail, np.where(k < 1.0, 1.0, 0.0))


def critical_count(n_tokens: ArrayLike, gamma: ArrayLike, alpha: ArrayLike) -> Array:
    """Smallest k with P0(S >= k) <= alpha: the exact level-alpha test.

    ``n_tokens + 1`` where even n green tokens are too likely: that test never rejects. Bracketed
    in doubling steps around the normal approximation, then bisected.
    """
    n, g = count("n_tokens", n_tokens), open_unit("gamma", gamma)
    n, g, a = np.broadcast_arrays(n, g, open_unit("alpha", alpha))
    low = np.clip(np.floor(n * g - special.ndtri(a) * np.sqrt(n * g * (1.0 - g))), 0.0, n)
    high, step = low + 1.0, 1.0  # P0(S >= low) > alpha >= P0(S >= high)
    while (wrong := unchecked_tail(n, low, g) <= a).any():
        low, high = np.where(wrong, np.maximum(low - step, 0.0), low), np.where(wrong, low, high)
        step *= 2.0
    while (wrong := unchecked_tail(n, high, g) > a).any():
        low, high = (
            np.where(wrong, high, low),
            np.where(wrong, np.minimum(high + step, n + 1), high),
        )
        step *= 2.0
    while (high - low > 1.0).any():
        middle = np.floor((low + high) / 2.0)
        rejects = unchecked_tail(n, middle, g) <= a
        low, high = np.where(rejects, low, middle), np.where(rejects, middle, high)
    return np.asarray(high)


def z_critical_count(n_tokens: ArrayLike, gamma: ArrayLike, alpha: ArrayLike) -> Array:
    """Smallest green count that the paper's z-test rejects: ``z > z_{1-alpha}``, strictly.

    Its exact size is ``binomial_tail(n, k, gamma)``, which may exceed alpha.
    """
    n, g, a = count("n_tokens", n_tokens), open_unit("gamma", gamma), open_unit("alpha", alpha)
    threshold = n * g - special.ndtri(a) * np.sqrt(n * g * (1.0 - g))
    return np.clip(np.floor(threshold) + 1.0, 0.0, n + 1.0)


def z_score(green: ArrayLike, n_tokens: ArrayLike, gamma: ArrayLike) -> Array:
    """Section 3.1: ``(S - n gamma) / sqrt(n gamma (1 - gamma))``."""
    n, g = count("n_tokens", n_tokens), open_unit("gamma", gamma)
    return (count("green", green, at_least=0) - n * g) / np.sqrt(n * g * (1.0 - g))


def beta_binomial_power(
    n_tokens: ArrayLike,
    critical_count: ArrayLike,
    gamma_prime: ArrayLike,
    variance_inflation: ArrayLike = 1.0,
) -> Array:
    """Power when the green count is overdispersed: ``Var(S) = c n gamma' (1 - gamma')``.

    The count is beta-binomial, a binomial whose rate varies from text to text with intraclass
    correlation ``(c - 1) / (n - 1)``; c = 1 is the plain binomial. Computed as the expectation of
    the binomial tail over the Beta law of the rate.
    """
    n, k = count("n_tokens", n_tokens), count("critical_count", critical_count, at_least=0)
    p = unit("gamma_prime", gamma_prime)
    c = in_interval("variance_inflation", variance_inflation, 1.0, np.inf, closed="low")
    if np.any((c > 1.0) & (c >= n)):
        raise InvalidInput(
            f"variance_inflation must be below n_tokens = {np.min(n):g}, its value when all "
            f"tokens of a text share one colour; got {np.max(c):g}."
        )
    n, k, p, c = np.broadcast_arrays(n, k, p, c)
    binomial = binomial_tail(n, k, p)
    spread = (c > 1.0 + 1e-9) & (p > 0.0) & (p < 1.0)  # elsewhere the two laws agree to 1e-9
    if not np.any(spread):
        return binomial
    p = np.where(spread, p, 0.5)
    total = np.where(spread, beta_total(n, np.where(spread, c, 2.0)), 1.0)
    width = 1.0 / np.sqrt(n * p * (1.0 - p))
    tail = beta_expectation(
        lambda y: binomial_tail(n[..., None], k[..., None], y),
        p * total,
        (1.0 - p) * total,
        width=width,
        reach=40.0,
    )
    return np.where(spread, tail, binomial)


def beta_total(n_tokens: ArrayLike, variance_inflation: ArrayLike) -> Array:
    """Return a + b of the Beta law of rates behind c: ``(n - c) / (c - 1)``, for 1 < c < n.

    The intraclass correlation is ``1 / (a + b + 1)``.
    """
    n, c = np.asarray(n_tokens, np.float64), np.asarray(variance_inflation, np.float64)
    return np.asarray((n - c) / (c - 1.0))


def most_inflation(n_tokens: int) -> float:
    """Return the largest inflation c computed with: just below n, where a text has one colour."""
    return 1.0 + 0.999999 * (n_tokens - 1)


def normal_score(
    gamma: ArrayLike,
    gamma_prime: ArrayLike,
    n_tokens: ArrayLike,
    alpha: ArrayLike,
    variance_inflation: ArrayLike = 1.0,
) -> Array:
    """Return the argument of Phi in Eq. (1), which still ranks designs where Phi is 1."""
    g, r = open_unit("gamma", gamma), unit("gamma_prime", gamma_prime)
    n, c = count("n_tokens", n_tokens), positive("variance_inflation", variance_inflation)
    z = -special.ndtri(open_unit("alpha", alpha))
    shift = np.sqrt(n) * (r - g) - z * np.sqrt(g * (1.0 - g))
    spread = np.sqrt(c * r * (1.0 - r))
    with np.errstate(divide="ignore", invalid="ignore"):  # a rate of 1 has no spread
        return np.where(shift == 0.0, 0.0, shift / spread)


def normal_power(
    gamma: ArrayLike,
    gamma_prime: ArrayLike,
    n_tokens: ArrayLike,
    alpha: ArrayLike,
    variance_inflation: ArrayLike = 1.0,
) -> Array:
    """Eq. (1): the normal approximation to the power of the z-test, with inflation c.

    Not monotone in gamma_prime where it is below 1/2 (gamma near gamma_star).
    """
    return special.ndtr(normal_score(gamma, gamma_prime, n_tokens, alpha, variance_inflation))


def normal_gamma_prime(
    gamma: ArrayLike,
    n_tokens: ArrayLike,
    alpha: ArrayLike,
    power: ArrayLike,
    variance_inflation: ArrayLike = 1.0,
) -> Array:
    """Solve Eq. (1) for the green rate that gives ``power``; a quadratic in gamma_prime.

    1 or more where no rate below 1 does (gamma at or above gamma_star and power at least 1/2).
    """
    g, n = open_unit("gamma", gamma), count("n_tokens", n_tokens)
    c = positive("variance_inflation", variance_inflation)
    z = -special.ndtri(open_unit("alpha", alpha))
    q = special.ndtri(open_unit("power", power))
    edge = g + z * np.sqrt(g * (1.0 - g) / n)  # the rate at which the power is 1/2
    s = q * q * c / n
    # (r - edge)^2 = s r (1 - r); the larger root belongs to power >= 1/2
    root = np.sqrt(np.maximum(s * s / 4.0 + s * edge * (1.0 - edge), 0.0))
    return np.where(edge < 1.0, (edge + s / 2.0 + np.sign(q) * root) / (1.0 + s), edge)


def normal_required_length(
    gamma: ArrayLike,
    gamma_prime: ArrayLike,
    alpha: ArrayLike,
    power: ArrayLike,
    variance_inflation: ArrayLike = 1.0,
) -> Array:
    """Solve Eq. (1) for n (a real number; round it up). Needs ``gamma_prime > gamma``."""
    g, r = open_unit("gamma", gamma), open_unit("gamma_prime", gamma_prime)
    c = positive("variance_inflation", variance_inflation)
    if np.any(r <= g):
        raise InvalidInput("gamma_prime must exceed gamma; a mark with delta > 0 makes it so.")
    z, q = -special.ndtri(open_unit("alpha", alpha)), special.ndtri(open_unit("power", power))
    scale = z * np.sqrt(g * (1.0 - g)) + q * np.sqrt(c * r * (1.0 - r))
    return (np.maximum(scale, 0.0) / (r - g)) ** 2
