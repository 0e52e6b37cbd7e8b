"""The cost of a mark: KL(watermarked || original) in nats per token (paper, Lemma 3.9)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from powermark.checks import Array, in_interval, logit_bias, open_unit, positive, unit
from powermark.errors import Infeasible
from powermark.theory.green_rate import token_green_rate
from powermark.theory.roots import bracketed_root

# Gauss-Legendre on [0, 1]: 16 nodes integrate a function whose poles are pi away to full precision.
_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(16) + np.array([[1.0], [0.0]])) / 2.0


def token_kl(green_mass: ArrayLike, delta: ArrayLike) -> Array:
    """KL of one step whose green mass is y: ``delta y' - log(1 + y (exp(delta) - 1))``.

    Exact whatever the rest of the next-token distribution, because the mark only rescales the
    green and the red block. Three forms, each without cancellation in its range: for delta < 1 the
    integral of ``t y_t (1 - y_t)`` from 0 to delta (Lemma 3.9's derivative; a positive integrand),
    else the formula as printed where ``y exp(delta) <= 1`` and its mirror image in the red mass
    where not.
    """
    y, d = np.broadcast_arrays(unit("green_mass", green_mass), logit_bias(delta))
    marked = token_green_rate(y, d)
    red = (1.0 - y) * np.exp(-d)  # unnormalised red mass after the mark
    small = np.minimum(d, 1.0)
    green_t, red_t = y[..., None], (1.0 - y)[..., None] * np.exp(-small[..., None] * _NODES)
    product = green_t * red_t / (green_t + red_t) ** 2  # y_t (1 - y_t), (..., nodes)
    weak = small**2 * np.sum(_WEIGHTS * _NODES * product, axis=-1)
    few_green = y * np.exp(d) <= 1.0
    printed = d * marked - np.log1p(np.where(few_green, y, 0.0) * np.expm1(d))
    total = y + red
    little = total < 0.5
    log_total = np.where(
        little, np.log(total), np.log1p(np.where(little, 0.0, (1.0 - y) * np.expm1(-d)))
    )
    mirrored = -d * red / total - log_total
    kl: Array = np.where(d < 1.0, weak, np.where(few_green, printed, mirrored))
    return kl


def kl_divergence(gamma: ArrayLike, delta: ArrayLike) -> Array:
    """Lemma 3.9, the plug-in distortion: ``token_kl`` at y = gamma.

    Examples
    --------
    >>> round(float(kl_divergence(0.5, 2.0)), 4)
    0.3278
    """
    return token_kl(open_unit("gamma", gamma), delta)


def bernoulli_kl(p: ArrayLike, q: ArrayLike) -> Array:
    """KL(Bern(p) || Bern(q)), which is the plug-in distortion with p = gamma_prime, q = gamma."""
    p, q = unit("p", p), unit("q", q)
    return special.rel_entr(p, q) + special.rel_entr(1.0 - p, 1.0 - q)


def kl_slope_delta(gamma: ArrayLike, delta: ArrayLike) -> Array:
    """Lemma 3.9: derivative of the KL in delta, ``delta gamma' (1 - gamma')``; positive."""
    g, d = open_unit("gamma", gamma), logit_bias(delta)
    red = (1.0 - g) * np.exp(-d)
    return d * g * red / (g + red) ** 2


def kl_slope_gamma(gamma: ArrayLike, delta: ArrayLike) -> Array:
    """Appendix A.5: derivative of the KL in gamma; zero at :func:`gamma_zero`.

    With ``e = exp(delta)`` it is ``(delta e - (e-1)(1 + (e-1) gamma)) / (1 + (e-1) gamma)^2``, that
    is ``(1 - 1/e)^2 (gamma_zero - gamma) / (gamma + (1-gamma)/e)^2``: no cancellation but the
    one at the zero itself.
    """
    g, d = open_unit("gamma", gamma), logit_bias(delta)
    scaled = np.expm1(-d) / (g + (1.0 - g) * np.exp(-d))
    return scaled**2 * (gamma_zero(d) - g)


def gamma_zero(delta: ArrayLike) -> Array:
    """Lemma 3.9: the gamma at which the KL is largest for a given delta; 1/2 as delta -> 0.

    ``(delta e - (e-1)) / (e-1)^2 = exp(-delta) (delta - 1 + exp(-delta)) / (1 - exp(-delta))^2``.
    The middle factor is ``delta^2`` times the integral of ``(1-s) exp(-delta s)`` over [0, 1]: it
    keeps all digits for small delta.
    """
    d = logit_bias(delta)
    small = np.minimum(d, 1.0)[..., None]
    weak = np.sum(_WEIGHTS * (1.0 - _NODES) * np.exp(-small * _NODES), axis=-1)
    strong = (d + np.expm1(-d)) / np.where(d > 0.0, d, 1.0) ** 2
    shrink = special.exprel(-d)  # (1 - exp(-delta)) / delta
    zero: Array = np.exp(-d) * np.where(d < 1.0, weak, strong) / shrink**2
    return zero


def largest_kl(delta: ArrayLike) -> Array:
    """Lemma 3.9: the most KL that a bias can cost a step, whatever its green mass."""
    return token_kl(gamma_zero(delta), delta)


def kl_bound(gamma: ArrayLike) -> Array:
    """Lemma 3.9: ``-log gamma``, the supremum of the KL over delta."""
    return -np.log(open_unit("gamma", gamma))


def delta_from_kl(gamma: ArrayLike, kl: ArrayLike) -> Array:
    """Solve Lemma 3.9 for delta; unique because the KL increases strictly in delta.

    Raises
    ------
    Infeasible
        If ``kl`` is not below ``-log gamma``.
    """
    g, k = np.broadcast_arrays(open_unit("gamma", gamma), positive("kl", kl))
    bound = kl_bound(g)
    if np.any(k >= bound):
        worst = int(np.argmax(np.atleast_1d(k - bound)))
        raise Infeasible(
            f"kl must be below -log(gamma) = {np.atleast_1d(bound)[worst]:.4g}, the most that "
            f"gamma = {np.atleast_1d(g)[worst]:g} allows at any delta; "
            f"got {np.atleast_1d(k)[worst]:g}.",
            hint="choose a smaller gamma or a smaller kl.",
        )
    return bracketed_root(
        lambda d, g, k: token_kl(g, d) - k, np.zeros_like(g), np.full_like(g, 700.0), g, k
    )


def gamma_roots(delta: ArrayLike, kl: ArrayLike) -> tuple[Array, Array]:
    """Eq. (3): both solutions gamma_l <= gamma_h of ``KL(gamma, delta) = kl``.

    The KL rises from 0 to its maximum at :func:`gamma_zero` and falls back to 0 at gamma = 1. The
    roots are found in ``log gamma`` and ``log(1 - gamma)``, so that both ends keep their digits.

    Raises
    ------
    Infeasible
        If ``kl`` is above the maximum.
    """
    d, k = np.broadcast_arrays(in_interval("delta", delta, 0.0, 700.0), positive("kl", kl))
    peak = gamma_zero(d)
    bound = token_kl(peak, d)
    if np.any(k > bound):
        worst = int(np.argmax(np.atleast_1d(k - bound)))
        raise Infeasible(
            f"kl must be at most {np.atleast_1d(bound)[worst]:.4g}, the most that delta = "
            f"{np.atleast_1d(d)[worst]:g} costs at any gamma; got {np.atleast_1d(k)[worst]:g}.",
            hint="choose a larger delta or a smaller kl.",
        )
    k = np.minimum(k, bound * (1.0 - 1e-14))  # at the maximum itself both roots meet
    far = np.full_like(peak, -740.0)
    low = bracketed_root(lambda t, d, k: token_kl(np.exp(t), d) - k, far, np.log(peak), d, k)
    high = bracketed_root(lambda t, d, k: token_kl(-np.expm1(t), d) - k, far, np.log1p(-peak), d, k)
    return np.exp(low), -np.expm1(high)
