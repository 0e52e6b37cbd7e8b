"""How green counts vary between marked texts of any length: two moments, compact enough for a spec.

The green count of n scored tokens has mean ``n r`` and variance ``n r (1-r) (1 + (n-1) rho)``. The
green rate r and the correlation rho are stored at a few lengths, and interpolated linearly in
log n. A beta-binomial law with these moments gives powers within a few thousandths of a profile's
own (docs/decisions.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy import special

from powermark import fields
from powermark.checks import Array
from powermark.errors import InvalidInput
from powermark.signals.signal import SignalModel
from powermark.theory.power import beta_binomial_power, most_inflation
from powermark.theory.required_length import LONGEST

_LONGER = 4  # longest length stored, as a multiple of the planned length
_LENGTHS = 12


@dataclass(frozen=True, eq=False)
class Spread:
    """Green rate and correlation of the tokens of a text, (lengths,) each."""

    lengths: Array
    rates: Array
    correlations: Array

    @classmethod
    def of(cls, signal: SignalModel, n_tokens: int, gamma: float, delta: float) -> Self:
        """Return the moments of a signal for texts shorter and longer than planned."""
        lengths = np.unique(np.round(np.geomspace(2, max(_LONGER * n_tokens, 2), _LENGTHS)))
        moments = [signal.moments(int(n), gamma, delta) for n in lengths]
        rates, inflations = np.array(moments).T
        return cls(lengths, rates, (inflations - 1.0) / (lengths - 1.0))

    @classmethod
    def from_list(cls, found: list[list[float]]) -> Self:
        """Read what :meth:`to_list` returned."""
        return cls(*np.array(found, np.float64).T)

    def to_list(self) -> list[list[float]]:
        """Return length, rate and correlation, row by row."""
        rows = zip(self.lengths, self.rates, self.correlations, strict=True)
        return [[float(n), float(f"{r:.6g}"), float(f"{rho:.4g}")] for n, r, rho in rows]

    def moments(self, n_tokens: int) -> tuple[float, float]:
        """Return the green rate of n tokens and the inflation of their variance, 1 or more."""
        at, where = np.log(n_tokens), np.log(self.lengths)
        rate, rho = (float(np.interp(at, where, y)) for y in (self.rates, self.correlations))
        return rate, min(max(1.0 + (n_tokens - 1) * rho, 1.0), most_inflation(n_tokens))

    def power(self, n_tokens: int, critical_count: int) -> float:
        """P(S >= critical_count) over marked texts with n scored tokens."""
        return float(beta_binomial_power(n_tokens, critical_count, *self.moments(n_tokens)))

    def text_rates(self, n_tokens: int, texts: int) -> Array:
        """Return the rates of representative texts, quantiles of the Beta law; (texts,)."""
        rate, inflation = self.moments(n_tokens)
        if inflation == 1.0 or n_tokens == 1 or not 0.0 < rate < 1.0:
            return np.full(1, rate)
        rho = (inflation - 1.0) / (n_tokens - 1)
        pair = rate * (1.0 / rho - 1.0), (1.0 - rate) * (1.0 / rho - 1.0)
        return np.asarray(special.betaincinv(*pair, (np.arange(texts) + 0.5) / texts))


def check_spread(name: str, value: Any) -> None:
    """Require rows of length, green rate and correlation, as in :meth:`Spread.to_list`."""
    rows = value if isinstance(value, list) else []
    if not rows or any(not isinstance(row, list) or len(row) != 3 for row in rows):
        raise fields.invalid(name, "rows of a length, a rate and a correlation", value)
    for length, rate, correlation in rows:
        fields.number(1, LONGEST)(f"{name}'s lengths", length)
        fields.share(f"{name}'s rates", rate)
        fields.number(-1.0, 1.0)(f"{name}'s correlations", correlation)
    if any(one[0] >= other[0] for one, other in pairwise(rows)):
        raise InvalidInput(f"{name}'s lengths must ascend.")
