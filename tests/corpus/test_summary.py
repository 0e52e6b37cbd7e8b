"""The share of marked documents and the calls, against what is known to be true."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from statsmodels.stats.multitest import multipletests

from powermark.corpus.output import Output
from powermark.corpus.scanner import SCHEMA
from powermark.corpus.summary import (
    benjamini_hochberg,
    holm_threshold,
    summarise,
    write_calls,
)
from powermark.detection.statistics import p_value
from powermark.theory.power import binomial_tail, critical_count

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


def test_the_interval_covers_the_share_and_calls_are_mostly_true(tmp_path: Path) -> None:
    """Of 60 corpora the 95 % interval may miss 8 (chance below .01); false calls stay below 5 %."""
    rng = np.random.default_rng(5)
    misses, too_high, false = 0, 0, []
    for repeat in range(60):
        table, marked = corpus(rng, 2_000, 0.03)
        output = Output(str(tmp_path / str(repeat)))
        (tmp_path / str(repeat)).mkdir()
        output.write_part("00000-00000", [table.slice(0, 900), table.slice(900, 0)], [])
        output.write_part("00000-00001", [table.slice(900)], [])
        (found,) = summarise(output, 0.05)
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
    small = np.sort(p[p <= 0.1])
    for ours, method in ((benjamini_hochberg, "fdr_bh"), (holm_threshold, "holm")):
        limit = ours(small, p.size, 0.1)
        assert ((p <= (limit or -1.0)) == multipletests(p, 0.1, method)[0]).all()
    assert benjamini_hochberg(np.zeros(0), 5, 0.1) is holm_threshold(np.zeros(0), 5, 0.1) is None


def test_calls_are_written_with_holms_answer(tmp_path: Path) -> None:
    table, _ = corpus(np.random.default_rng(0), 500, 0.1)
    other = table.set_column(1, "spec", pa.array(["none"] * 500)).set_column(
        3, "p", pa.array(np.linspace(0.2, 1.0, 500))
    )
    output = Output(str(tmp_path))
    output.write_part("00000-00000", [table, other], [])
    first, second = marks = summarise(output, 0.05)
    assert second.bh_threshold is second.holm_threshold is None
    assert (second.bh_calls, sum(second.p_histogram)) == (0, 500)
    write_calls(output, marks)
    rows = pq.read_table(tmp_path / "calls.parquet").to_pylist()
    assert len(rows) == first.bh_calls
    assert sum(row["holm"] for row in rows) == first.holm_calls
    assert {row["spec"] for row in rows} == {"s"}
