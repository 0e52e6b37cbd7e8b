"""The summary of a scan: the share of marked documents, and which may be called marked.

**Share.** Near-identical documents are one document (:mod:`powermark.corpus.copies`): the first of
a group represents it, and m is the number of groups. Let a_i be the probability that document i is
called watermarked if it is not (the exact size of its test), and b_i if it is (the power at the
plan's green rate). If marking does not depend on length, the expected share of calls is
``(1 - s) a + s b`` with the means a and b, so ``s = (calls / m - a) / (b - a)``. Were documents
independent, calls would spread less than a binomial of the same mean (Hoeffding, 1956). Under one
key they are not: they share n-grams, and their calls have the variance of ``effective`` independent
ones. The interval is Clopper and Pearson's for as many trials with the same rate of calls, moved
through the line above. ``share_at_least`` does not depend on the power: it is the lower limit
with b = 1, valid for edited or weaker marks too. ``python -m benchmarks.coverage`` measures how
often intervals cover on templates.

**Calls.** Benjamini-Hochberg's at a false-discovery rate, Holm's at the same family-wise level.
Both are thresholds on p, so no row has to be written again. A mark's groups are one family: a group
is called if the p of its first document is small enough, and so are its copies with a p as small. m
marks share the rate: each has rate / m. A mark's own calls then keep to rate / m. So do all
calls taken together to the rate, however marks depend on one another: of V_k false ones among R_k,
``sum V_k / sum R_k <= sum (V_k / R_k)``. One family of all rows would only promise the latter, and
give an unused mark the loose threshold of a frequent one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import special

from powermark.checks import Array, Mask, open_unit
from powermark.corpus.batches import Reject
from powermark.corpus.copies import Copies
from powermark.corpus.output import Output
from powermark.corpus.scanner import SCHEMA, Mark
from powermark.detection.detection import VERDICTS

BINS = 20  # of the histogram of p-values
_COLUMNS = [
    "mark",
    "spec",
    "signature",
    "verdict",
    "p",
    "tokens",
    "scored",
    "power",
    "size",
    "detector",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkSummary:
    """The summary of one mark.

    Shares are of ``distinct`` documents, near-identical ones merged, and have 95 % intervals; None
    if no document is long enough to tell. ``effective`` independent documents would vary as much
    from key to key. A distinct document is called by Benjamini-Hochberg or Holm if its p is at most
    the threshold; None means no calls. ``bh_calls`` and ``holm_calls`` count the calls.
    ``fdr`` is the rate of all calls, ``level`` this mark's part of it. ``p_histogram`` counts
    p-values in bins of .05.
    """

    mark: str
    spec: str
    documents: int
    distinct: int
    merged: int
    largest_group: int
    effective: float
    tokens: int
    scored: int
    verdicts: dict[str, int]
    share: float | None
    share_low: float | None
    share_high: float | None
    share_at_least: float
    fdr: float
    level: float
    bh_threshold: float | None
    bh_calls: int
    holm_threshold: float | None
    holm_calls: int
    p_histogram: list[int]
    signatures: list[str]


@dataclass(slots=True)
class _Sums:
    """Running sums over the rows of one mark.

    Documents, verdicts, tokens and the histogram are of all rows, the rest of the first document of
    each group. p-values are those of counts, so few are distinct.
    """

    spec: str
    documents: int = 0
    calls: int = 0
    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    tokens: int = 0
    scored: int = 0
    power: float = 0.0
    size: float = 0.0
    exact_size: float = 0.0
    small: Array = field(default_factory=lambda: np.zeros(0))  # p-values that may be called
    times: Array = field(default_factory=lambda: np.zeros(0))  # how often each occurs
    histogram: Array = field(default_factory=lambda: np.zeros(BINS))
    signatures: set[str] = field(default_factory=set)


def summarise(
    output: Output, fdr: float, copies: Copies, marks: Mapping[str, Mark]
) -> list[MarkSummary]:
    """Read all partitions, one at a time, and return a summary of each mark, by its label."""
    level = float(open_unit("fdr", fdr))
    sums: dict[str, _Sums] = {}
    first = copies.first
    for table in output.tables(_COLUMNS):
        for mark in pc.unique(table["mark"]).to_pylist():
            rows = table.filter(pc.equal(table["mark"], mark))
            kept = sums.setdefault(mark, _Sums(rows["spec"][0].as_py()))
            _add(kept, rows, first[kept.documents :][: rows.num_rows], level)
    return [
        _summary(mark, kept, copies, marks[mark], level, level / len(sums))
        for mark, kept in sums.items()
    ]


def _add(kept: _Sums, rows: Any, first: Mask, fdr: float) -> None:
    for each in pc.value_counts(rows["verdict"]).to_pylist():
        kept.verdicts[each["values"]] += each["counts"]
    kept.documents += rows.num_rows
    kept.tokens += pc.sum(rows["tokens"]).as_py()
    kept.scored += pc.sum(rows["scored"]).as_py()
    kept.histogram += np.histogram(rows["p"].to_numpy(), BINS, (0.0, 1.0))[0]
    kept.signatures.update(pc.unique(rows["signature"]).to_pylist())
    rows = rows.filter(pa.array(first))
    p, size = rows["p"].to_numpy(), rows["size"].to_numpy()
    kept.calls += int(pc.equal(rows["verdict"], VERDICTS[0]).to_numpy().sum())
    kept.power += float(rows["power"].to_numpy().sum())
    kept.size += float(size.sum())
    kept.exact_size += float(size[pc.equal(rows["detector"], "count").to_numpy()].sum())
    called = p[p <= fdr]
    kept.small, where = np.unique(np.concatenate([kept.small, called]), return_inverse=True)
    times = np.concatenate([kept.times, np.ones(called.size)])
    kept.times = np.bincount(where, times).astype(np.float64)


def _summary(
    label: str, kept: _Sums, copies: Copies, mark: Mark, fdr: float, level: float
) -> MarkSummary:
    distinct = int(copies.first.sum())
    power, size, rate = (sum_ / distinct for sum_ in (kept.power, kept.size, kept.calls))
    effective = copies.effective(size, None if mark.counts else mark.judge)
    low, high = rate_interval(rate, effective)
    known = power > size
    bh = benjamini_hochberg(kept.small, kept.times, distinct, level)
    holm = holm_threshold(kept.small, kept.times, distinct, level)
    return MarkSummary(
        mark=label,
        spec=kept.spec,
        documents=kept.documents,
        distinct=distinct,
        merged=kept.documents - distinct,
        largest_group=int(np.bincount(copies.heads).max()),
        effective=effective,
        tokens=kept.tokens,
        scored=kept.scored,
        verdicts=kept.verdicts,
        share=_share(rate, size, power) if known else None,
        share_low=_share(low, size, power) if known else None,
        share_high=_share(high, kept.exact_size / distinct, power) if known else None,
        share_at_least=_share(low, size, 1.0),
        fdr=fdr,
        level=level,
        bh_threshold=bh,
        bh_calls=0 if bh is None else int(kept.times[kept.small <= bh].sum()),
        holm_threshold=holm,
        holm_calls=0 if holm is None else int(kept.times[kept.small <= holm].sum()),
        p_histogram=kept.histogram.astype(int).tolist(),
        signatures=sorted(kept.signatures),
    )


def rate_interval(rate: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a rate; ``trials`` need not be a whole number."""
    hits, misses, miss = rate * trials, (1.0 - rate) * trials, (1.0 - level) / 2.0
    low = special.betaincinv(hits, misses + 1.0, miss) if hits > 0.0 else 0.0
    high = special.betaincinv(hits + 1.0, misses, 1.0 - miss) if misses > 0.0 else 1.0
    return float(low), float(high)


def _share(rate: float, size: float, power: float) -> float:
    return float(np.clip((rate - size) / (power - size), 0.0, 1.0))


def benjamini_hochberg(small: Array, times: Array, documents: int, fdr: float) -> float | None:
    """Return the largest p that is called; ``small`` are the sorted p-values up to fdr."""
    return _last(small, small <= fdr * np.cumsum(times) / documents)


def holm_threshold(small: Array, times: Array, documents: int, level: float) -> float | None:
    """Return the largest p that Holm calls: the last before the first that fails.

    Of equal p-values the first has the strictest threshold.
    """
    passed = small <= level / (documents - (np.cumsum(times) - times))
    return _last(small, np.logical_and.accumulate(passed))


def _last(small: Array, passed: Any) -> float | None:
    return float(small[np.flatnonzero(passed)[-1]]) if passed.any() else None


def write_calls(output: Output, marks: list[MarkSummary], copies: Copies) -> None:
    """Write the rows that Benjamini-Hochberg calls, with a column for Holm's call.

    A copy is called if the first document of its group (``copy_of``) is called and its own p is
    within the same limit: level x calls / distinct, or Holm's level / (distinct - calls). No first
    document has a p between the largest that is called and that limit.
    """
    schema = SCHEMA.append(pa.field("holm", pa.bool_())).append(pa.field("copy_of", pa.string()))
    done = dict.fromkeys((mark.mark for mark in marks), 0)
    called: dict[str, dict[int, str]] = {mark.mark: {} for mark in marks}  # first ones of groups
    with output.writing_rows("calls", schema) as add:
        for table in output.tables():
            for mark in marks:
                own = table.filter(pc.equal(table["mark"], mark.mark))
                heads = copies.heads[done[mark.mark] :][: own.num_rows]
                places = done[mark.mark] + np.arange(own.num_rows)
                done[mark.mark] += own.num_rows
                if mark.bh_threshold is None:
                    continue
                limit = mark.level * mark.bh_calls / mark.distinct
                low = np.flatnonzero(own["p"].to_numpy() <= limit)
                names = called[mark.mark]
                for i in low[heads[low] == places[low]].tolist():
                    names[int(places[i])] = own["id"][i].as_py()
                low = low[[head in names for head in heads[low].tolist()]]
                rows = own.take(pa.array(low))
                limit = mark.level / max(mark.distinct - mark.holm_calls, 1)
                rows = rows.append_column("holm", pc.less_equal(rows["p"], limit))
                of = [None if heads[i] == places[i] else names[int(heads[i])] for i in low.tolist()]
                add(rows.append_column("copy_of", pa.array(of, pa.string())).cast(schema))


def write_copies(output: Output, mark: str, copies: Copies) -> None:
    """Write the merged documents, each with the first document of its group, ``copy_of``.

    Every mark has the same documents; ids are read from the rows of ``mark``.
    """
    schema = pa.schema([("id", pa.string()), ("copy_of", pa.string())])
    groups = np.flatnonzero(np.bincount(copies.heads, minlength=1) > 1)
    named: dict[int, str] = {}
    done = 0
    with output.writing_rows("copies", schema) as add:
        for table in output.tables(["id", "mark"]):
            names = table.filter(pc.equal(table["mark"], mark))["id"]
            heads = copies.heads[done:][: len(names)]
            places = done + np.arange(len(names))
            done += len(names)
            for i in np.flatnonzero(np.isin(places, groups)).tolist():
                named[int(places[i])] = names[i].as_py()
            merged = np.flatnonzero(heads != places)
            of = pa.array([named[head] for head in heads[merged].tolist()], pa.string())
            add(pa.table([names.take(pa.array(merged)), of], schema=schema))


def to_dict(marks: list[MarkSummary], rejects: Iterable[Reject]) -> dict[str, Any]:
    """Return the content of summary.json."""
    count = files = 0
    for reject in rejects:
        count += reject.more or 1
        files += reject.file
    return {"rejects": count, "files_not_read": files, "marks": [asdict(mark) for mark in marks]}
