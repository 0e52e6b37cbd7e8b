"""What generated texts show: green rate, KL and detections, with intervals.

Tokens of a text hang together, so a text is the unit: intervals come from the spread between
texts, and a text counts as detected or not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from powermark.checks import Array
from powermark.detection.scoring import score
from powermark.detection.statistics import green_rate_interval
from powermark.watermark.scheme import Scheme

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value and its interval, from so many texts; infinite where they say nothing."""

    value: float
    low: float
    high: float
    texts: int

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return bool(np.isfinite([self.value, self.low, self.high]).all())

    def to_dict(self) -> dict[str, float | None]:
        """Return plain numbers, None for what is not known."""
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {k: v if np.isfinite(v) else None for k, v in values.items()} | {"texts": self.texts}

    def covers(self, value: float) -> bool:
        """Whether the interval holds a value."""
        return self.low <= value <= self.high


def mean_per_token(texts: Sequence[ArrayLike], level: float = LEVEL) -> Estimate:
    """Mean over all tokens of all texts, with a t interval from the spread between texts.

    A ratio of sums, as texts differ in length; its error is that of the residuals
    ``sum_i - mean * length_i`` (Cochran, *Sampling Techniques*, 6.3).
    """
    rows = [np.asarray(row, np.float64) for row in texts]
    sums, lengths = np.array([row.sum() for row in rows]), np.array([row.size for row in rows])
    total, m = lengths.sum(), len(rows)
    if total == 0:
        return Estimate(np.nan, -np.inf, np.inf, m)
    mean = float(sums.sum() / total)
    if m < 2:
        return Estimate(mean, -np.inf, np.inf, m)
    error = np.sqrt(np.sum((sums - mean * lengths) ** 2) * m / (m - 1)) / total
    reach = float(special.stdtrit(m - 1, 0.5 + level / 2.0) * error)
    return Estimate(mean, mean - reach, mean + reach, m)


def share(found: ArrayLike, level: float = LEVEL) -> Estimate:
    """Share of texts for which something holds, with the Clopper-Pearson interval."""
    hits = np.asarray(found, bool)
    if hits.size == 0:
        return Estimate(np.nan, -np.inf, np.inf, 0)
    low, high = green_rate_interval(int(hits.sum()), hits.size, level)
    return Estimate(float(hits.mean()), float(low), float(high), hits.size)


def green_counts(
    scheme: Scheme,
    texts: Sequence[ArrayLike],
    n_tokens: int,
    prompts: Sequence[ArrayLike] | None = None,
    *,
    special_ids: Collection[int] = (),
) -> Array:
    """Green tokens among the first ``n_tokens`` that count; nan for texts with fewer."""
    scores = score(scheme, texts, prompts=prompts, special_ids=special_ids)
    return scores.first_greens(n_tokens)


def detected(counts: Array, critical_count: int, level: float = LEVEL) -> Estimate:
    """Share of the texts long enough that reach the critical count."""
    return share(counts[np.isfinite(counts)] >= critical_count, level)


def kl_until(
    scheme: Scheme,
    records: Sequence[Mapping[str, Any]],
    n_tokens: int,
    level: float = LEVEL,
    *,
    special_ids: Collection[int] = (),
) -> Estimate:
    """KL spent until the n-th token that counts, per token that counts; short texts are left out.

    What a steered plan promises: its bias rises towards the end of a block, so that a mean over all
    tokens would mix the next block's beginning in.
    """
    scores = score(scheme, [record["token_ids"] for record in records], special_ids=special_ids)
    places = [scores.positions(i) for i in range(scores.texts)]
    return spent_until(places, [record["kl"] for record in records], n_tokens, level)


def spent_until(
    places: Sequence[Any], kls: Sequence[ArrayLike], n_tokens: int, level: float = LEVEL
) -> Estimate:
    """As :func:`kl_until`, from where in each text the tokens that count are."""
    spent = [
        [np.sum(np.asarray(kl)[: where[n_tokens - 1] + 1]) / n_tokens]
        for where, kl in zip(places, kls, strict=True)
        if where.size >= n_tokens
    ]
    return mean_per_token(spent, level)
