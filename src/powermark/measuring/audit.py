"""``audit``: the false-positive rate of one key on text that is known to be unmarked.

Under H0 the colours of one text are independent, and over random keys the size is exact. But texts
share common word pairs, and a key gives those the same colours in every text: for a given key the
rate differs from alpha, the more so the narrower the context, and most on text made from templates.
An audit measures the rate on your own text, for each kind of text and detector.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import Mask, in_interval
from powermark.counting import SCORED
from powermark.detection.scoring import Scores, score
from powermark.errors import InvalidInput
from powermark.signature import signature
from powermark.statistics.calls import DETECTORS, calls, threshold
from powermark.statistics.p_values import green_rate_interval
from powermark.theory.power import binomial_tail, critical_count
from powermark.watermark.keys import SecretKey
from powermark.watermark.watermark import Watermark

ALL = "all"  # kinds of text together


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """Rejections of one kind of text by one detector, at one length and level.

    ``size`` is the rate for independent colours, at most alpha (for the e-value a bound, alpha
    itself). ``kind`` is "all" for all texts together. ``rate`` and its 95 % interval are those of
    the given key; the other rates are over all keys, including the given one.
    ``chance_worst_rate`` is the median rate of the worst of that many keys if texts shared nothing.
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
    kind: str
    detector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The rows, the rejected texts, and the n-grams that most texts share."""

    rows: tuple[AuditRow, ...]
    rejected: tuple[int, ...]
    shared: tuple[tuple[tuple[int, ...], int, bool], ...]  # n-gram, number of texts, green
    context_width: int
    signature: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints."""
        return dataclasses.asdict(self)


def audit(
    mark: Watermark,
    texts: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    lengths: Sequence[int] = (50, 100, 200, 400),
    alphas: Sequence[float] = (0.05, 0.01),
    fresh_keys: int = 20,
    special_ids: Collection[int] = (),
    kinds: Sequence[str] | None = None,
    detectors: Sequence[str] = ("count",),
    on_key: Callable[[], object] = lambda: None,
) -> Audit:
    """Count how often unmarked texts are called marked, under the mark's key and fresh keys.

    Parameters
    ----------
    texts
        Token ids of texts without the mark.
    rng
        Draws the fresh keys, which are used for nothing else.
    lengths
        Counted tokens. The first ones of each text are tested; shorter texts are left out.
    fresh_keys
        Number of other keys, to see how much the rate varies with the key.
    kinds
        The kind of each text. If there are several, each has its own rows after those of all.
    detectors
        Some of ``powermark.statistics.calls.DETECTORS``. The time for windows grows with the square
        of the length.
    on_key
        Called after each key.
    """
    if not texts:
        raise InvalidInput("an audit needs at least one text.")
    for n in lengths:
        in_interval("lengths", n, 1, 10_000_000, closed="both")
    if unknown := sorted(set(detectors) - set(DETECTORS)):
        raise InvalidInput(f"detectors must be among {DETECTORS}; got {', '.join(unknown)}.")
    spec = mark.spec
    if fresh_keys and not isinstance(mark.key, SecretKey):
        raise InvalidInput(f"fresh keys are for scheme pm1; the spec has {spec.scheme}.")
    if kinds is not None and len(kinds) != len(texts):
        raise InvalidInput(f"kinds must be one per text, {len(texts)}; got {len(kinds)}.")
    fresh = dataclasses.replace(spec, key_fingerprint=None)
    schemes = [mark.scheme]
    schemes += [Watermark(fresh, SecretKey(rng.bytes(32))).scheme for _ in range(fresh_keys)]
    given = score(schemes[0], texts, special_ids=special_ids)
    cells = [(d, n, alpha) for d in detectors for n in lengths for alpha in alphas]
    found: dict[tuple[str, int, float], list[Mask]] = {cell: [] for cell in cells}
    for scheme in schemes:
        scores = given if scheme is schemes[0] else score(scheme, texts, special_ids=special_ids)
        colours = {n: scores.first_colours(n) for n in lengths}
        for detector, n, alpha in cells:
            found[detector, n, alpha].append(
                calls(detector, colours[n], gamma=spec.gamma, bet=spec.bet, alpha=alpha)
            )
        on_key()
    of = np.array([ALL] * len(texts) if kinds is None else kinds)
    several = list(dict.fromkeys(of.tolist())) if len(set(of.tolist())) > 1 else []
    rows, rejected = [], np.zeros(len(texts), bool)
    for kind in (ALL, *several):
        for detector, n, alpha in cells:
            long_enough = given.scored >= n
            mine = of[long_enough] == kind if kind != ALL else np.ones(long_enough.sum(), bool)
            called = np.array(found[detector, n, alpha])  # (keys, texts)
            rejected[long_enough] |= called[0]
            size = _size(detector, n, spec.gamma, alpha)
            rows.append(_row(kind, detector, n, alpha, size, called[:, mine], rng))
    return Audit(
        rows=tuple(rows),
        rejected=tuple(np.flatnonzero(rejected).tolist()),
        shared=_shared(given, spec.context_width),
        context_width=spec.context_width,
        signature=signature(
            "audit",
            spec=spec.digest[:12],
            key=mark.fingerprint,
            texts=len(texts),
            fresh=fresh_keys,
        ),
    )


def _size(detector: str, n: int, gamma: float, alpha: float) -> float:
    if detector == "count":
        return float(binomial_tail(n, critical_count(n, gamma, alpha), gamma))
    if detector == "evalue":
        return alpha
    limit = threshold(detector, n, gamma, alpha)
    return 0.0 if limit.value is None else limit.size


def _row(
    kind: str,
    detector: str,
    n: int,
    alpha: float,
    size: float,
    called: Mask,
    rng: np.random.Generator,
) -> AuditRow:
    keys, texts = called.shape
    rejections = int(called[0].sum())
    low, high = green_rate_interval(rejections, texts)
    rates = called.mean(axis=1) if texts else np.zeros(keys)
    # the worst rate of as many keys if texts were independent
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
        kind=kind,
        detector=detector,
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
