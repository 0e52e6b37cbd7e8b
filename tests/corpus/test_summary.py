"""The share of marked documents and the calls, against what is known to be true."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from statsmodels.stats.multitest import multipletests

from powermark.corpus.copies import Copies
from powermark.corpus.output import Output
from powermark.corpus.scanner import SCHEMA, Mark, Scanned
from powermark.corpus.sketches import Sketches
from powermark.corpus.summary import (
    MarkSummary,
    benjamini_hochberg,
    holm_threshold,
    summarise,
    write_calls,
)
from powermark.detection.detector import Detector
from powermark.statistics.p_values import p_value
from powermark.theory.power import binomial_tail, critical_count
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec

GAMMA, RATE, ALPHA = 0.4, 0.62, 0.01


def corpus(rng: np.random.Generator, documents: int, share: float) -> tuple[pa.Table, np.ndarray]:
    """Rows as a scan writes them, of documents drawn from the model, and which ones are marked."""
    scored = rng.integers(20, 120, documents)
    marked = rng.random(documents) < share
    green = rng.binomial(scored, np.where(marked, RATE, GAMMA))
    k = critical_count(scored, GAMMA, ALPHA)
    p = p_value(green, scored, GAMMA)
    columns = {
        "id": [str(i) for i in range(documents)],
        "mark": ["s.1"] * documents,
        "spec": ["s"] * documents,
        "verdict": np.where(p <= ALPHA, "watermarked", "no watermark found"),
        "p": p,
        "tokens": scored + 2,
        "scored": scored,
        "power": binomial_tail(scored, k, RATE),
        "size": binomial_tail(scored, k, GAMMA),
        "detector": ["count"] * documents,
        "signature": ["x"] * documents,
    }
    empty = pa.nulls(documents)
    arrays = [pa.array(columns[n]) if n in columns else empty for n in SCHEMA.names]
    return pa.table(arrays, names=SCHEMA.names).cast(SCHEMA), marked


def unalike(documents: int, first: int = 0) -> Sketches:
    """Sketches of documents that share nothing."""
    ids = 5 * first + np.arange(5 * documents)
    return Sketches.of(ids, np.arange(0, 5 * documents + 1, 5), 2)


def part(table: pa.Table, sketches: Sketches) -> Scanned:
    return Scanned(table, 0, 0, [], sketches)


def summed(output: Output) -> tuple[list[MarkSummary], Copies]:
    spec = WatermarkSpec(gamma=GAMMA, delta=1.0, context_width=2, vocab_size=10_000)
    mark = Mark(Detector(spec, SecretKey(bytes(32)), alpha=ALPHA))
    marks = dict.fromkeys([f"s.{i}" for i in range(4)], mark)
    copies = Copies.of(output.sketches())
    return summarise(output, 0.05, copies, marks), copies


def test_the_interval_covers_the_share_and_calls_are_mostly_true(tmp_path: Path) -> None:
    """Of 60 corpora the 95 % interval may miss 8 (chance below .01); false calls stay below 5 %."""
    rng = np.random.default_rng(5)
    misses, too_high, false = 0, 0, []
    for repeat in range(60):
        table, marked = corpus(rng, 2_000, 0.03)
        output = Output(str(tmp_path / str(repeat)))
        (tmp_path / str(repeat)).mkdir()
        parts = [part(table.slice(0, 900), unalike(900)), part(table.slice(900, 0), unalike(0))]
        output.write_part("00000-00000", parts)
        output.write_part("00000-00001", [part(table.slice(900), unalike(1_100, 900))])
        (found,), _ = summed(output)
        assert found.share is not None
        assert found.share_low is not None
        assert found.share_high is not None
        assert found.share_low <= found.share <= found.share_high
        true = marked.mean()
        misses += not found.share_low <= true <= found.share_high
        too_high += found.share_at_least > true
        called = table["p"].to_numpy() <= (found.bh_threshold or -1.0)
        false.append((called & ~marked).sum() / max(called.sum(), 1))
        assert called.sum() == found.bh_calls
    assert misses <= 8
    assert too_high <= 5
    assert np.mean(false) <= 0.05


@pytest.mark.parametrize("seed", range(5))
def test_calls_are_those_of_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.random(200), rng.random(20) * 10.0 ** -rng.integers(2, 9, 20)])
    p = np.concatenate([p, p[-30:]])  # ties
    small = np.unique(p[p <= 0.1], return_counts=True)
    for ours, method in ((benjamini_hochberg, "fdr_bh"), (holm_threshold, "holm")):
        limit = ours(small[0], small[1].astype(float), p.size, 0.1)
        assert ((p <= (limit or -1.0)) == multipletests(p, 0.1, method)[0]).all()
    none = np.zeros(0)
    assert benjamini_hochberg(none, none, 5, 0.1) is holm_threshold(none, none, 5, 0.1) is None


def test_calls_are_written_with_holms_answer(tmp_path: Path) -> None:
    table, _ = corpus(np.random.default_rng(0), 500, 0.1)
    other = table.set_column(1, "mark", pa.array(["s.2"] * 500))
    other = other.set_column(SCHEMA.get_field_index("p"), "p", pa.array(np.linspace(0.2, 1.0, 500)))
    output = Output(str(tmp_path))
    output.write_part("00000-00000", [part(pa.concat_tables([table, other]), unalike(500))])
    marks, copies = summed(output)
    first, second = marks
    assert second.bh_threshold is second.holm_threshold is None
    assert (second.bh_calls, sum(second.p_histogram)) == (0, 500)
    assert (first.mark, second.mark, first.spec, second.spec) == ("s.1", "s.2", "s", "s")
    assert first.level == second.level == 0.025
    write_calls(output, marks, copies)
    rows = pq.read_table(tmp_path / "calls.parquet").to_pylist()
    assert len(rows) == first.bh_calls
    assert sum(row["holm"] for row in rows) == first.holm_calls
    assert {row["mark"] for row in rows} == {"s.1"}


def test_a_mark_that_nobody_uses_is_not_called_by_another_ones_threshold(tmp_path: Path) -> None:
    """All its calls would be false. Of all calls together at most the rate is: both are promised.

    Ten corpora, each with a mark in every second document and three that are nowhere: some 10,000
    calls, of which fewer than 5 % are false, and next to none of the marks that are nowhere. With
    one family of all rows they would have hundreds.
    """
    rng = np.random.default_rng(8)
    false = calls = unused = 0
    for repeat in range(10):
        output = Output(str(tmp_path / str(repeat)))
        (tmp_path / str(repeat)).mkdir()
        made = [corpus(rng, 2_000, share) for share in (0.5, 0.0, 0.0, 0.0)]
        tables = [
            table.set_column(1, "mark", pa.array([f"s.{i}"] * 2_000))
            for i, (table, _) in enumerate(made)
        ]
        output.write_part("00000-00000", [part(pa.concat_tables(tables), unalike(2_000))])
        for (table, marked), mark in zip(made, summed(output)[0], strict=True):
            called = table["p"].to_numpy() <= (mark.bh_threshold or -1.0)
            false += (called & ~marked).sum()
            calls += called.sum()
            unused += called.sum() if mark.mark != "s.0" else 0
    assert false <= 0.05 * calls
    assert unused <= 10
    assert calls > 5_000
