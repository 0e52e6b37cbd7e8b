"""How long answers are, in tokens that a detector counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from powermark.checks import count, in_interval
from powermark.errors import InvalidInput

QUANTILES = 12  # lengths that represent all of them while designs are compared


@dataclass(frozen=True, slots=True)
class Lengths:
    """Numbers of tokens that a detector counts in answers, and the share of answers with each.

    Parameters
    ----------
    counted
        Distinct numbers, ascending; 0 for answers of which nothing counts.
    shares
        Sum to 1.
    """

    counted: tuple[int, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, counted: Sequence[int] | NDArray[Any]) -> Lengths:
        """Return the lengths of some answers, by the tokens that count in each."""
        given = np.asarray(count("lengths", counted, at_least=0)).astype(int)
        if given.size == 0:
            raise InvalidInput("`lengths` must not be empty.")
        values, times = np.unique(given, return_counts=True)
        return cls(tuple(values.tolist()), tuple((times / times.sum()).tolist()))

    @classmethod
    def of_generated(cls, tokens: Sequence[int] | NDArray[Any], scored_share: float) -> Lengths:
        """Return the lengths of answers by their generated tokens, of which a share counts."""
        in_interval("scored_share", scored_share, 0.0, 1.0, closed="high")
        return cls.of(np.floor(np.asarray(tokens) * scored_share + 0.5).astype(int))

    def quantile(self, share: float) -> int:
        """Return the least length that at least this share of answers does not exceed."""
        place = int(np.searchsorted(np.cumsum(self.shares), share - 1e-12))
        return self.counted[min(place, len(self.counted) - 1)]

    def some(self) -> Lengths:
        """Return a dozen of the lengths, each for as many answers."""
        return Lengths.of([self.quantile((i + 0.5) / QUANTILES) for i in range(QUANTILES)])

    def to_dict(self) -> dict[str, float]:
        """Return the mean and quantiles, for plans to show."""
        mean = float(np.dot(self.counted, self.shares))
        quantiles = {f"q{q}": float(self.quantile(q / 100)) for q in (5, 25, 50, 75, 95)}
        return {"mean": mean, **quantiles}
