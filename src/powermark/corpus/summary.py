"""What a scanned corpus holds: the share of marked documents, and which ones may be called marked.

**Share.** Let a_i be the probability that document i is called watermarked if it is not (the exact
size of its test), b_i if it is (the power at the plan's green rate), and m their number. Where
marking has nothing to do with length, the expected share of calls is ``(1 - s) a + s b`` with the
means a and b, so ``s = (calls / m - a) / (b - a)``. Calls are a sum of independent trials, which
spreads less than a binomial of the same mean (Hoeffding, 1956), so a Clopper-Pearson interval of
calls / m, moved through the same line, covers s at least as often as it says. ``share_at_least``
asks nothing of the power: it is the lower limit with b = 1, right for edited or weaker marks too.

**Calls.** Benjamini-Hochberg's at a false-discovery rate, Holm's at the same family-wise level.
Both are thresholds on p, so no row has to be written again. A mark's documents are one family, and
m marks share the rate: each has rate / m. A mark's own calls then keep to rate / m. So do all calls
taken together to the rate, however marks depend on one another: of V_k false ones among R_k,
``sum V_k / sum R_k <= sum (V_k / R_k)``. One family of all rows would only promise the latter, and
hand a mark that nobody uses the loose threshold of one that is everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from powermark.checks import Array, open_unit
from powermark.corpus.batches import Reject
from powermark.corpus.output import Output
from powermark.corpus.scanner import SCHEMA
from powermark.detection.findings import VERDICTS
from powermark.detection.statistics import green_rate_interval

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
    """What was found of one mark.

    Shares have 95 % intervals; None where no document is long enough to tell. A document is called
    by Benjamini-Hochberg or Holm if its p is at most the threshold, and none is where that is None.
    ``fdr`` is the rate of all calls, ``level`` this mark's part of it. ``p_histogram`` counts
    p-values in bins of .05.
    """

    mark: str
    spec: str
    documents: int
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
    """What is kept of the rows of one mark while partitions go by.

    p-values are those of counts, so the different ones among them soon stop growing in number.
    """

    spec: str
    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    tokens: int = 0
    scored: int = 0
    power: float = 0.0
    size: float = 0.0
    exact_size: float = 0.0
    small: Array = field(default_factory=lambda: np.zeros(0))  # p-values that may be called
    times: Array = field(default_factory=lambda: np.zeros(0))  # how often there is each
    histogram: Array = field(default_factory=lambda: np.zeros(BINS))
    signatures: set[str] = field(default_factory=set)


def summarise(output: Output, fdr: float) -> list[MarkSummary]:
    """Read all partitions, one at a time, and return a summary of each mark."""
    level = float(open_unit("fdr", fdr))
    sums: dict[str, _Sums] = {}
    for table in output.tables(_COLUMNS):
        for mark in pc.unique(table["mark"]).to_pylist():
            rows = table.filter(pc.equal(table["mark"], mark))
            _add(sums.setdefault(mark, _Sums(rows["spec"][0].as_py())), rows, level)
    return [_summary(mark, kept, level, level / len(sums)) for mark, kept in sums.items()]


def _add(kept: _Sums, rows: Any, fdr: float) -> None:
    p, size = rows["p"].to_numpy(), rows["size"].to_numpy()
    for each in pc.value_counts(rows["verdict"]).to_pylist():
        kept.verdicts[each["values"]] += each["counts"]
    kept.tokens += pc.sum(rows["tokens"]).as_py()
    kept.scored += pc.sum(rows["scored"]).as_py()
    kept.power += pc.sum(rows["power"]).as_py()
    kept.size += float(size.sum())
    kept.exact_size += float(size[pc.equal(rows["detector"], "count").to_numpy()].sum())
    called = p[p <= fdr]
    kept.small, where = np.unique(np.concatenate([kept.small, called]), return_inverse=True)
    times = np.concatenate([kept.times, np.ones(called.size)])
    kept.times = np.bincount(where, times).astype(np.float64)
    kept.histogram += np.histogram(p, BINS, (0.0, 1.0))[0]
    kept.signatures.update(pc.unique(rows["signature"]).to_pylist())


def _summary(mark: str, kept: _Sums, fdr: float, level: float) -> MarkSummary:
    documents = sum(kept.verdicts.values())
    calls = kept.verdicts["watermarked"]
    power, size = kept.power / documents, kept.size / documents
    low, high = (float(limit) for limit in green_rate_interval(calls, documents))
    known = power > size
    bh = benjamini_hochberg(kept.small, kept.times, documents, level)
    holm = holm_threshold(kept.small, kept.times, documents, level)
    return MarkSummary(
        mark=mark,
        spec=kept.spec,
        documents=documents,
        tokens=kept.tokens,
        scored=kept.scored,
        verdicts=kept.verdicts,
        share=_share(calls / documents, size, power) if known else None,
        share_low=_share(low, size, power) if known else None,
        share_high=_share(high, kept.exact_size / documents, power) if known else None,
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


def _share(rate: float, size: float, power: float) -> float:
    return float(np.clip((rate - size) / (power - size), 0.0, 1.0))


def benjamini_hochberg(small: Array, times: Array, documents: int, fdr: float) -> float | None:
    """Return the largest p that is called, of ``small`` p-values in order; others are above fdr."""
    return _last(small, small <= fdr * np.cumsum(times) / documents)


def holm_threshold(small: Array, times: Array, documents: int, level: float) -> float | None:
    """Return the largest p that Holm calls: the last before the first that fails.

    Of equal ones the first has the least room.
    """
    passed = small <= level / (documents - (np.cumsum(times) - times))
    return _last(small, np.logical_and.accumulate(passed))


def _last(small: Array, passed: Any) -> float | None:
    return float(small[np.flatnonzero(passed)[-1]]) if passed.any() else None


def write_calls(output: Output, marks: list[MarkSummary]) -> None:
    """Write the rows that Benjamini-Hochberg calls, with Holm's answer beside each."""
    schema = SCHEMA.append(pa.field("holm", pa.bool_()))
    with output.writing_rows("calls", schema) as add:
        for table in output.tables():
            for mark in marks:
                if mark.bh_threshold is None:
                    continue
                own = pc.equal(table["mark"], mark.mark)
                rows = table.filter(pc.and_(own, pc.less_equal(table["p"], mark.bh_threshold)))
                limit = -1.0 if mark.holm_threshold is None else mark.holm_threshold
                rows = rows.append_column("holm", pc.less_equal(rows["p"], limit))
                add(rows.cast(schema))


def to_dict(marks: list[MarkSummary], rejects: Iterable[Reject]) -> dict[str, Any]:
    """Return the summary that is written beside the rows."""
    count = files = 0
    for reject in rejects:
        count += 1
        files += reject.file
    return {"rejects": count, "files_not_read": files, "marks": [asdict(mark) for mark in marks]}
