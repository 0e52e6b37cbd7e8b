"""The false-positive rate that one key really has on text that is known to be unmarked.

Under H0 the colours of one text are independent, and over random keys the size is exact. But texts
share common word pairs, and one key fixes their colours once and for all: for a given key the rate
differs from alpha, the more so the narrower the context. An audit measures it on your own text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark.checks import Array, in_interval
from powermark.detection.kernels import SCORED
from powermark.detection.scoring import Scores, score
from powermark.detection.statistics import green_rate_interval
from powermark.errors import InvalidInput
from powermark.signature import signature
from powermark.theory.power import binomial_tail, critical_count
from powermark.watermark.embed import scheme_of
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """Rejections at one length and level.

    ``size`` is what an ideal colouring gives, at most alpha. ``rate`` with its 95 % interval is the
    given key's; the others are over all keys, the given one included. ``chance_worst_rate`` is how
    bad the worst of so many keys would be, in the median, if texts shared nothing.
    """

    length: int
    alpha: float
    size: float
    texts: int
    rejections: int
    rate: float
    low: float
    high: float
    keys: int
    mean_rate: float
    least_rate: float
    median_rate: float
    worst_rate: float
    chance_worst_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The rows, the texts that were rejected, and the n-grams that most texts share."""

    rows: tuple[AuditRow, ...]
    rejected: tuple[int, ...]
    shared: tuple[tuple[tuple[int, ...], int, bool], ...]  # n-gram, number of texts, green
    context_width: int
    signature: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints."""
        return dataclasses.asdict(self)


def audit(
    spec: WatermarkSpec,
    key: SecretKey | HashKey,
    texts: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    lengths: Sequence[int] = (50, 100, 200, 400),
    alphas: Sequence[float] = (0.05, 0.01),
    fresh_keys: int = 20,
    special_ids: Collection[int] = (),
) -> Audit:
    """Count how often unmarked texts are called marked, under ``key`` and under fresh keys.

    Parameters
    ----------
    texts
        Token ids of texts without the mark.
    rng
        Draws the fresh keys, which are used for nothing else.
    lengths
        Counted tokens; of each text the first so many are taken, and shorter texts are left out.
    fresh_keys
        Further keys, to see how much the rate varies with the key.
    """
    if not texts:
        raise InvalidInput("an audit needs at least one text.")
    for n in lengths:
        in_interval("lengths", n, 1, 10_000_000, closed="both")
    if fresh_keys and not isinstance(key, SecretKey):
        raise InvalidInput(f"fresh keys are for scheme pm1; {spec.scheme} has its own.")
    fresh = dataclasses.replace(spec, key_fingerprint=None)
    schemes = [scheme_of(spec, key)]
    schemes += [scheme_of(fresh, SecretKey(rng.bytes(32))) for _ in range(fresh_keys)]
    given = score(schemes[0], texts, special_ids=special_ids)
    rejected: set[int] = set()
    counts: dict[int, list[Array]] = {n: [] for n in lengths}
    for scheme in schemes:
        scores = given if scheme is schemes[0] else score(scheme, texts, special_ids=special_ids)
        for n in lengths:
            counts[n].append(scores.first_greens(n))
    rows = []
    for n in lengths:
        for alpha in alphas:
            k = int(critical_count(n, spec.gamma, alpha))
            calls = np.array(
                [found[np.isfinite(found)] >= k for found in counts[n]]
            )  # (keys, texts)
            rejected |= set(np.flatnonzero(counts[n][0] >= k).tolist())
            rows.append(_row(n, alpha, float(binomial_tail(n, k, spec.gamma)), calls, rng))
    fingerprint = key.fingerprint if isinstance(key, SecretKey) else None
    return Audit(
        rows=tuple(rows),
        rejected=tuple(sorted(rejected)),
        shared=_shared(given, spec.context_width),
        context_width=spec.context_width,
        signature=signature(
            "audit", spec=spec.digest[:12], key=fingerprint, texts=len(texts), fresh=fresh_keys
        ),
    )


def _row(
    n: int, alpha: float, size: float, calls: NDArray[np.bool_], rng: np.random.Generator
) -> AuditRow:
    keys, texts = calls.shape
    rejections = int(calls[0].sum())
    low, high = green_rate_interval(rejections, texts)
    rates = calls.mean(axis=1) if texts else np.zeros(keys)
    # how bad the worst of as many keys would be if texts were independent
    worst = rng.binomial(texts, size, (2_000, keys)).max(axis=1) / max(texts, 1)
    return AuditRow(
        length=n,
        alpha=alpha,
        size=size,
        texts=texts,
        rejections=rejections,
        rate=float(rates[0]),
        low=float(low),
        high=float(high),
        keys=keys,
        mean_rate=float(rates.mean()),
        least_rate=float(rates.min()),
        median_rate=float(np.median(rates)),
        worst_rate=float(rates.max()),
        chance_worst_rate=float(np.median(worst)),
    )


def _shared(scores: Scores, h: int) -> tuple[tuple[tuple[int, ...], int, bool], ...]:
    """Return the ten n-grams that the most texts have, with their colour under the key."""
    counted = np.flatnonzero(scores.state == SCORED)
    if counted.size == 0:
        return ()
    grams = scores.ids[counted[:, None] - np.arange(h, -1, -1)]
    distinct, first, number = np.unique(grams, axis=0, return_index=True, return_counts=True)
    top = np.argsort(-number, kind="stable")[:10]
    return tuple(
        (tuple(distinct[i].tolist()), int(number[i]), bool(scores.green[counted[first[i]]]))
        for i in top
    )
