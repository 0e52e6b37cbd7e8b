"""What a scanned corpus holds: the share of marked documents, and which ones may be called marked.

**Share.** Let a_i be the probability that document i is called watermarked if it is not (the exact
size of its test), b_i if it is (the power at the plan's green rate), and m their number. Where
marking has nothing to do with length, the expected share of calls is ``(1 - s) a + s b`` with the
means a and b, so ``s = (calls / m - a) / (b - a)``. Calls are a sum of independent trials, which
spreads less than a binomial of the same mean (Hoeffding, 1956), so a Clopper-Pearson interval of
calls / m, moved through the same line, covers s at least as often as it says. ``share_at_least``
asks nothing of the power: it is the lower limit with b = 1, right for edited or weaker marks too.

**Calls.** Benjamini-Hochberg's at a false-discovery rate, Holm's at the same family-wise level.
Both are thresholds on p, so no row has to be written again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from powermark.checks import Array, open_unit
from powermark.corpus.output import Output
from powermark.corpus.scanner import SCHEMA
from powermark.detection.findings import VERDICTS
from powermark.detection.statistics import green_rate_interval

BINS = 20  # of the histogram of p-values
_COLUMNS = ["spec", "signature", "verdict", "p", "tokens", "scored", "power", "size", "detector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkSummary:
    """What was found of one mark.

    Shares have 95 % intervals; None where no document is long enough to tell. A document is called
    by Benjamini-Hochberg or Holm if its p is at most the threshold, and none is where that is None.
    ``p_histogram`` counts p-values in bins of .05.
    """

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
    bh_threshold: float | None
    bh_calls: int
    holm_threshold: float | None
    holm_calls: int
    p_histogram: list[int]
    signatures: list[str]


@dataclass(slots=True)
class _Sums:
    """What is kept of the rows of one mark while partitions go by."""

    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    tokens: int = 0
    scored: int = 0
    power: float = 0.0
    size: float = 0.0
    exact_size: float = 0.0
    small: list[Array] = field(default_factory=list)  # p-values that a correction could call
    histogram: Array = field(default_factory=lambda: np.zeros(BINS))
    signatures: set[str] = field(default_factory=set)


def summarise(output: Output, fdr: float) -> list[MarkSummary]:
    """Read all partitions, one at a time, and return a summary of each mark."""
    level = float(open_unit("fdr", fdr))
    sums: dict[str, _Sums] = {}
    for table in output.tables(_COLUMNS):
        for spec in pc.unique(table["spec"]).to_pylist():
            _add(sums.setdefault(spec, _Sums()), table.filter(pc.equal(table["spec"], spec)), level)
    return [_summary(spec, kept, level) for spec, kept in sums.items()]


def _add(kept: _Sums, rows: Any, fdr: float) -> None:
    p, size = rows["p"].to_numpy(), rows["size"].to_numpy()
    for each in pc.value_counts(rows["verdict"]).to_pylist():
        kept.verdicts[each["values"]] += each["counts"]
    kept.tokens += pc.sum(rows["tokens"]).as_py()
    kept.scored += pc.sum(rows["scored"]).as_py()
    kept.power += pc.sum(rows["power"]).as_py()
    kept.size += float(size.sum())
    kept.exact_size += float(size[pc.equal(rows["detector"], "count").to_numpy()].sum())
    kept.small.append(p[p <= fdr])
    kept.histogram += np.histogram(p, BINS, (0.0, 1.0))[0]
    kept.signatures.update(pc.unique(rows["signature"]).to_pylist())


def _summary(spec: str, kept: _Sums, fdr: float) -> MarkSummary:
    documents = sum(kept.verdicts.values())
    calls = kept.verdicts["watermarked"]
    power, size = kept.power / documents, kept.size / documents
    low, high = (float(limit) for limit in green_rate_interval(calls, documents))
    known = power > size
    small = np.sort(np.concatenate(kept.small))
    bh, holm = benjamini_hochberg(small, documents, fdr), holm_threshold(small, documents, fdr)
    return MarkSummary(
        spec=spec,
        documents=documents,
        tokens=kept.tokens,
        scored=kept.scored,
        verdicts=kept.verdicts,
        share=_share(calls / documents, size, power) if known else None,
        share_low=_share(low, size, power) if known else None,
        share_high=_share(high, kept.exact_size / documents, power) if known else None,
        share_at_least=_share(low, size, 1.0),
        fdr=fdr,
        bh_threshold=bh,
        bh_calls=0 if bh is None else int(np.searchsorted(small, bh, "right")),
        holm_threshold=holm,
        holm_calls=0 if holm is None else int(np.searchsorted(small, holm, "right")),
        p_histogram=kept.histogram.astype(int).tolist(),
        signatures=sorted(kept.signatures),
    )


def _share(rate: float, size: float, power: float) -> float:
    return float(np.clip((rate - size) / (power - size), 0.0, 1.0))


def benjamini_hochberg(small: Array, documents: int, fdr: float) -> float | None:
    """Return the largest p that is called, of ``small`` sorted p-values; others are above fdr."""
    return _last(small, small <= fdr * np.arange(1, small.size + 1) / documents)


def holm_threshold(small: Array, documents: int, level: float) -> float | None:
    """Return the largest p that Holm calls: the last before the first that fails."""
    passed = small <= level / (documents - np.arange(small.size))
    return _last(small, np.logical_and.accumulate(passed))


def _last(small: Array, passed: Any) -> float | None:
    return float(small[np.flatnonzero(passed)[-1]]) if passed.any() else None


def write_calls(output: Output, marks: list[MarkSummary]) -> None:
    """Write the rows that Benjamini-Hochberg calls, with Holm's answer beside each."""
    schema = SCHEMA.append(pa.field("holm", pa.bool_()))
    chosen = [schema.empty_table()]
    for table in output.tables():
        for mark in marks:
            if mark.bh_threshold is None:
                continue
            called = pc.and_(
                pc.equal(table["spec"], mark.spec), pc.less_equal(table["p"], mark.bh_threshold)
            )
            rows = table.filter(called)
            limit = -1.0 if mark.holm_threshold is None else mark.holm_threshold
            rows = rows.append_column("holm", pc.less_equal(rows["p"], limit))
            chosen.append(rows.cast(schema))
    output.write_table("calls", pa.concat_tables(chosen))


def to_dict(marks: list[MarkSummary], rejects: int, files: int) -> dict[str, Any]:
    """Return the summary that is written beside the rows."""
    return {"rejects": rejects, "files_not_read": files, "marks": [asdict(mark) for mark in marks]}
