"""Expected signal after a contiguous share f of a text has lost its mark (Appendix B.7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import Array, count, in_interval, open_unit


def clean_shift(gamma: ArrayLike, gamma_prime: ArrayLike, n_tokens: ArrayLike) -> Array:
    """Expected z-score of a clean text: ``sqrt(n) (gamma' - gamma) / sqrt(gamma (1-gamma))``."""
    g, r = open_unit("gamma", gamma), open_unit("gamma_prime", gamma_prime)
    return np.sqrt(count("n_tokens", n_tokens)) * (r - g) / np.sqrt(g * (1.0 - g))


def full_sequence_shift(shift: ArrayLike, removal: ArrayLike) -> Array:
    """Expected z-score of the whole text after removal: ``(1 - f) * clean``."""
    return np.asarray(shift, dtype=np.float64) * (1.0 - _share(removal))


def winmax_c_shift(shift: ArrayLike, removal: ArrayLike) -> Array:
    """Expected z-score after WinMax-C cuts out the attacked block: ``sqrt(1 - f) * clean``.

    This is the shift at the true block. The maximum over blocks raises the null quantile too, so
    the gain in power is smaller than ``1 / sqrt(1-f)`` suggests.
    """
    return np.asarray(shift, dtype=np.float64) * np.sqrt(1.0 - _share(removal))


def _share(removal: ArrayLike) -> Array:
    return in_interval("removal", removal, 0.0, 1.0, closed="low")
