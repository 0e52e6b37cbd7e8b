"""Estimates from generated texts: green rate, KL and detections, with their intervals.

The tokens of a text are dependent, so a text is the unit: intervals come from the spread between
texts, and a text counts as detected or not.

A promised power p is *broken* if its Clopper-Pearson interval lies below p, and *kept* if p less
LOSS is excluded in the same way, one-sided at 95 %. Both are exact binomial tests; ``texts_needed``
says how many texts they take. A size is kept if alpha plus LOSS is excluded, a KL and a green rate
if the error of :func:`margin_of` is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from powermark.checks import Array
from powermark.detection.scoring import Scores, score
from powermark.statistics.p_values import green_rate_interval
from powermark.watermark.scheme import Scheme

LEVEL = 0.95  # of an interval
POWERS = ("power", "attacked_power", "coverage", "attacked_coverage")
LOSS = 0.05  # the loss of power to detect
_KL_MARGIN, _RATE_MARGIN = 0.1, 0.02  # a share of the promised KL, and a green rate
CHANCE = 0.8  # the share of runs that detect it
_SURE = 0.95
_MOST = 100_000  # texts, more than one would write
_GROWTH = 1.02  # between the numbers of texts tried


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value and its interval, infinite if unknown, from a number of texts."""

    value: float
    low: float
    high: float
    texts: int

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return bool(np.isfinite([self.value, self.low, self.high]).all())

    def to_dict(self) -> dict[str, float | None]:
        """Return plain numbers, None for unknown ones."""
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {k: v if np.isfinite(v) else None for k, v in values.items()} | {"texts": self.texts}

    def covers(self, value: float) -> bool:
        """Whether the interval contains a value."""
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
    """Green tokens among the first ``n_tokens`` that count; nan for shorter texts."""
    scores = score(scheme, texts, prompts=prompts, special_ids=special_ids)
    return scores.first_greens(n_tokens)


def detected(counts: Array, critical_count: int, level: float = LEVEL) -> Estimate:
    """Share of texts that reach the critical count, among those that are long enough."""
    return share(counts[np.isfinite(counts)] >= critical_count, level)


def kl_until(
    scores: Scores,
    records: Sequence[Mapping[str, Any]],
    n_tokens: int | None,
    level: float = LEVEL,
) -> Estimate:
    """Mean KL of the tokens that count; a plan promises no other.

    With ``n_tokens`` it is the KL spent until the n-th token that counts, per token that counts;
    short texts are left out. This is the KL of a steered plan for one length: its bias rises
    towards the end of a block, so a mean over all tokens would include the beginning of the next
    block. ``scores`` are those of the sampled ids.
    """
    places = [scores.positions(i) for i in range(scores.texts)]
    if n_tokens is None:
        rows = zip(places, records, strict=True)
        return mean_per_token([np.asarray(record["kl"])[at] for at, record in rows], level)
    return spent_until(places, [record["kl"] for record in records], n_tokens, level)


def spent_until(
    places: Sequence[Any], kls: Sequence[ArrayLike], n_tokens: int, level: float = LEVEL
) -> Estimate:
    """As :func:`kl_until`, given the positions of the tokens that count."""
    spent = [
        [np.sum(np.asarray(kl)[: where[n_tokens - 1] + 1]) / n_tokens]
        for where, kl in zip(places, kls, strict=True)
        if where.size >= n_tokens
    ]
    return mean_per_token(spent, level)


def level_of(joint_level: float, checks: int) -> float:
    """Return the level of each two-sided interval, one side of which is tested, for all checks."""
    return 1.0 - 2.0 * (1.0 - joint_level) / checks


def texts_needed(promised: float, level: float) -> int:
    """Return how many texts show a loss of LOSS as a broken promise in CHANCE of runs.

    Examples
    --------
    >>> texts_needed(0.95, level_of(0.95, 4))
    256
    """
    for texts in _numbers(8):
        most = _most_broken(texts, promised, level)
        if most >= 0 and special.bdtr(most, texts, max(promised - LOSS, 0.0)) >= CHANCE:
            return texts
    return _MOST


def shown_to_hold(share: float, texts: int, promised: float) -> bool:
    """Whether this share of texts found excludes a loss of more than LOSS."""
    found, lower = round(share * texts), promised - LOSS
    return lower <= 0.0 or bool(special.bdtrc(found - 1, texts, lower) <= 1.0 - _SURE)


def shown_to_keep(share: float, texts: int, alpha: float) -> bool:
    """Whether this share of unmarked texts found excludes a size of more than alpha + LOSS."""
    return bool(special.bdtr(round(share * texts), texts, alpha + LOSS) <= 1.0 - _SURE)


def texts_to_decide(share: float, texts: int, promised: float, level: float) -> int | None:
    """Return how many texts decide if the share found stays the same; None if over _MOST."""
    for more in _numbers(texts + 1):
        broken = round(share * more) <= _most_broken(more, promised, level)
        if broken or shown_to_hold(share, more, promised):
            return max(more, texts_needed(promised, level))
    return None


def texts_to_keep(share: float, texts: int, alpha: float) -> int | None:
    """The same for a size; None if it is more than alpha + LOSS, or needs over _MOST texts."""
    if share >= alpha + LOSS:
        return None
    more = (each for each in _numbers(texts + 1) if shown_to_keep(share, each, alpha))
    return next(more, None)


def margin_of(name: str, promised: float) -> float:
    """Return the error of a promised mean that is excluded where the promise is kept."""
    return _KL_MARGIN * promised if name == "kl" else _RATE_MARGIN


def texts_to_exclude(room: float, seen: Estimate, level: float, error: float) -> int | None:
    """Return how many texts exclude a mean ``room`` away from the measured one, at 95 %.

    No more than there are if these do; None if no number does. ``level`` is that of the
    measurement's interval, ``error`` the standard error of the promise.
    """
    wide, narrow = (special.stdtrit(seen.texts - 1, p) for p in (0.5 + level / 2.0, _SURE))
    reach = (seen.high - seen.value) * narrow / wide
    left = max(room, 0.0) ** 2 - (special.ndtri(_SURE) * error) ** 2
    if reach**2 <= left:
        return seen.texts
    needed = seen.texts * reach**2 / left if left > 0.0 else np.inf
    return int(4 * np.ceil(needed / 4)) if needed <= _MOST else None


def _numbers(first: int) -> list[int]:
    """Return the numbers of texts to try: multiples of 4, ever further apart."""
    steps = np.arange(np.log(_MOST / first) / np.log(_GROWTH))
    return [int(number) for number in np.unique(4 * np.ceil(first * _GROWTH**steps / 4))]


def _most_broken(texts: int, promised: float, level: float) -> int:
    """Return the largest number found that shows a broken promise; -1 if no number does."""
    counts = np.arange(texts + 1)
    return int(np.sum(special.bdtr(counts, texts, promised) < (1.0 - level) / 2.0)) - 1
