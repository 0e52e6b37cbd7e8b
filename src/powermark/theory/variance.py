"""The variance inflation constant c and its estimate from counts (paper, Appendix C)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import count
from powermark.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceInflation:
    """Estimate of c from M texts of n scored tokens each."""

    c: float
    standard_error: float
    gamma_prime: float
    n_tokens: int
    n_texts: int


def variance_inflation(green_counts: ArrayLike, n_tokens: int) -> VarianceInflation:
    """Appendix C: ``c = Var(S) / (n g (1-g))`` with g the mean green share of the texts.

    c = 1 means independent tokens, c > 1 positive dependence. The standard error is that of a
    sample variance of a normal count, ``c sqrt(2 / (M-1))``.

    Parameters
    ----------
    green_counts
        Green tokens among the first ``n_tokens`` scored ones of each text; two texts or more.
    n_tokens
        Scored tokens per text, the same for all.
    """
    n = int(count("n_tokens", n_tokens))
    s = np.atleast_1d(count("green_counts", green_counts, at_least=0))
    if s.size < 2:
        raise InvalidInput(f"green_counts must hold at least 2 texts; got {s.size}.")
    if s.max() > n:
        raise InvalidInput(f"green_counts must be at most n_tokens = {n}; got {s.max():g}.")
    rate = float(s.mean()) / n
    if rate in (0.0, 1.0):
        raise InvalidInput("green_counts must vary: all tokens have one colour, so c is undefined.")
    c = float(s.var(ddof=1)) / (n * rate * (1.0 - rate))
    return VarianceInflation(
        c=c,
        standard_error=c * float(np.sqrt(2.0 / (s.size - 1))),
        gamma_prime=rate,
        n_tokens=n,
        n_texts=s.size,
    )
