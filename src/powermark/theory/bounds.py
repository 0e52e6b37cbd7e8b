"""Where designs must lie: gamma_star (paper, Appendix A.6) and the information limit."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from powermark.checks import Array, count, open_unit, positive, unit
from powermark.theory.distortion import bernoulli_kl


def gamma_star(n_tokens: ArrayLike, alpha: ArrayLike) -> Array:
    """Appendix A.6: ``n / (n + z_{1-alpha}^2)``; above it Eq. (1) never reaches power 1/2.

    Examples
    --------
    >>> round(float(gamma_star(50, 0.05)), 7)
    0.9486668
    """
    n = count("n_tokens", n_tokens)
    return n / (n + special.ndtri(open_unit("alpha", alpha)) ** 2)


def information_limit(n_tokens: ArrayLike, alpha: ArrayLike, power: ArrayLike) -> Array:
    """Least KL per token of *any* mark whose detector has this level and power after n tokens.

    By the data-processing inequality ``n kl >= KL(Bern(power) || Bern(alpha))``, whatever the
    watermark and whatever the test. 0 where power <= alpha: guessing reaches that.
    """
    a, p = np.broadcast_arrays(open_unit("alpha", alpha), unit("power", power))
    return np.where(p > a, bernoulli_kl(p, a), 0.0) / count("n_tokens", n_tokens)


def efficiency(n_tokens: ArrayLike, alpha: ArrayLike, power: ArrayLike, kl: ArrayLike) -> Array:
    """Share of the distortion that was unavoidable: information limit / kl, at most 1."""
    return information_limit(n_tokens, alpha, power) / positive("kl", kl)
