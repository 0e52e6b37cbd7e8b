"""Near-identical documents are merged, and the rest is worth as many independent ones as it is."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from powermark.corpus import copies as module
from powermark.corpus.copies import Copies, call_correlation, heads_of
from powermark.corpus.ngram_kernels import grams
from powermark.corpus.scan import scan
from powermark.corpus.sketches import GRAMS, LANES, Sketches
from powermark.errors import FileProblem
from powermark.statistics.calls import calls
from powermark.statistics.p_values import green_rate_interval
from powermark.theory.power import binomial_tail, critical_count
from tests.corpus.conftest import KEY, WORDS, World, save_key
from tests.detection.marked import marked_ids

GAMMA, ALPHA = 0.5, 0.05


def filled(fixed: int, random: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Documents of one template: a fixed beginning and a random end."""
    beginning = rng.integers(0, WORDS, fixed)
    return [np.append(beginning, rng.integers(0, WORDS, random)) for _ in range(count)]


def sketched(documents: list[np.ndarray], context_width: int = 2) -> Sketches:
    offsets = np.cumsum([0, *map(len, documents)])
    return Sketches.of(np.concatenate([np.zeros(0, np.int64), *documents]), offsets, context_width)


def test_documents_with_half_of_their_grams_in_common_are_merged() -> None:
    rng = np.random.default_rng(0)
    alike = filled(90, 10, 30, rng)  # Jaccard index .8
    apart = filled(30, 70, 30, rng)  # .17
    order = rng.permutation(60)
    mixed = [(alike + apart)[i] for i in order]
    heads = heads_of(sketched(mixed).minima)
    first = int(np.flatnonzero(order < 30)[0])
    assert (heads[order < 30] == first).all()
    assert (heads[order >= 30] == np.flatnonzero(order >= 30)).all()


def test_documents_without_grams_are_nobodys_copies() -> None:
    documents = [np.array(ids, np.int64) for ids in ([], [1, 2], [3, 4], [1, 2, 3], [1, 2, 3])]
    assert heads_of(sketched(documents).minima).tolist() == [0, 1, 2, 3, 3]
    nothing = Copies.of(sketched([]))
    assert nothing.heads.size == 0
    assert nothing.effective(0.05) == 0.0


def test_a_sketch_estimates_the_jaccard_index() -> None:
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(40):
        left, right = sketched(filled(60, 40, 2, rng)).minima
        shares.append((left == right).mean())
    index = 58 / (98 + 98 - 58)  # of n-grams of three
    chance = index + (1 - index) / 256
    assert abs(np.mean(shares) - chance) < 4 * np.sqrt(chance * (1 - chance) / (40 * LANES))


def test_hashes_of_grams_are_those_of_equal_tokens() -> None:
    ids = np.array([5, 6, 7, 5, 6, 7, 8])
    found = grams(ids, 3)
    assert found[0] == found[3]
    assert np.unique(found).size == 4
    assert grams(ids[:2], 3).size == 0


def test_of_long_documents_the_same_grams_are_kept() -> None:
    rng = np.random.default_rng(2)
    documents = filled(3_000, 3_000, 2, rng)
    found = sketched(documents)
    assert found.sizes.tolist() == [np.unique(grams(ids, 3)).size for ids in documents]
    assert found.lengths.tolist() == [GRAMS, GRAMS]
    overlap = Copies.of(found).overlaps[0, 1]
    assert overlap == pytest.approx(0.5, abs=0.1)


def test_sketches_are_joined_thinned_and_read_again() -> None:
    rng = np.random.default_rng(3)
    parts = [sketched(filled(20, 20, 5, rng)) for _ in range(3)]
    whole = Sketches.joined(parts, 100)
    assert whole.sampled.tolist() == list(range(15))
    few = whole.thinned(4)
    assert few.sampled.size == 4
    assert few.grams.size == few.lengths.sum()
    assert len(few.minima) == 15
    again = Sketches.from_bytes(few.to_bytes())
    assert all(np.array_equal(getattr(few, name), getattr(again, name)) for name in few._fields)


@pytest.mark.parametrize("size", [0.05, 0.01])
def test_call_correlation_is_the_bivariate_normals(size: float) -> None:
    z = stats.norm.isf(size)
    for r in (0.0, 0.3, 0.7, 0.99):
        both = stats.multivariate_normal.cdf([-z, -z], cov=[[1.0, r], [r, 1.0]])
        wanted = (both - size**2) / (size * (1 - size))
        assert call_correlation(np.array([r]), size)[0] == pytest.approx(wanted, abs=2e-3)


@pytest.mark.parametrize("detector", ["count", "evalue", "winmax-c"])
def test_the_effective_number_is_the_variance_of_calls_over_colourings(detector: str) -> None:
    """Of 60 documents that share a third of their n-grams; 2,000 random colourings."""
    rng = np.random.default_rng(4)
    documents = filled(40, 62, 60, rng)
    copies = Copies.of(sketched(documents))
    assert copies.first.all()

    def judge(draws: np.ndarray) -> np.ndarray:
        return calls(detector, draws < GAMMA, gamma=GAMMA, bet=0.7, alpha=ALPHA)

    colours = rng.random((2_000, 38 + 60 * 62))
    called = np.stack(
        [judge(np.hstack([colours[:, :38], colours[:, 38 + 62 * i :][:, :62]])) for i in range(60)],
        axis=1,
    )
    size = float(called.mean())
    exact = float(binomial_tail(100, critical_count(100, GAMMA, ALPHA), GAMMA))
    if detector == "count":
        assert abs(size - exact) < 0.01
    independent = size * (1 - size) / called.mean(axis=1).var()
    found = copies.effective(size, None if detector == "count" else judge)
    assert found < 40
    assert 0.6 * independent < found < 1.3 * independent


def test_without_pairs_nothing_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    documents = [rng.integers(0, WORDS, 50), *filled(90, 10, 5, rng)]
    monkeypatch.setattr(module, "_JUDGED", 1)

    def judge(draws: np.ndarray) -> np.ndarray:
        raise AssertionError(draws.shape)

    assert Copies.of(sketched(documents)).effective(0.05, judge) == pytest.approx(2.0)


def corpus(folder: Path, documents: list[np.ndarray]) -> Path:
    path = folder / "corpus.parquet"
    pq.write_table(pa.table({"token_ids": [ids.tolist() for ids in documents]}), path)
    return path


def scanned(world: World, path: Path, folder: Path, **given: Any) -> dict[str, Any]:
    job = world.job(field="token_ids", model=None, **given)
    found = scan([str(path)], job, str(folder), workers=1)
    mark: dict[str, Any] = found["marks"][0]
    return mark


def test_the_interval_covers_on_templates(world: World, tmp_path: Path) -> None:
    """Twenty templates of twenty documents, none marked, under 60 keys.

    At 95 % more than 7 misses have a chance of .02; taking documents for independent misses 20.
    """
    rng = np.random.default_rng(6)
    documents = [ids for _ in range(20) for ids in filled(110, 12, 20, rng)]
    path = corpus(tmp_path, documents)
    missed = before = 0
    for number in range(60):
        key = tmp_path / f"{number}.key"
        save_key(rng.bytes(32), key)
        mark = scanned(world, path, tmp_path / str(number), keys=(str(key),), alpha=ALPHA)
        assert (mark["documents"], mark["distinct"], mark["merged"]) == (400, 20, 380)
        assert mark["largest_group"] == 20
        assert mark["effective"] == pytest.approx(20, abs=1.0)
        missed += mark["share_low"] > 0.0 or mark["share_at_least"] > 0.0
        sizes = pq.read_table(next((tmp_path / str(number)).glob("part-*")))["size"].to_numpy()
        low = green_rate_interval(mark["verdicts"]["watermarked"], 400)[0]
        before += low > sizes.mean()
    assert missed <= 7
    assert before >= 12


def test_copies_are_listed_and_called_with_their_first(world: World, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    marked = np.array(marked_ids(world.spec, KEY, 150, rng))
    copy = np.append(marked, rng.integers(0, WORDS, 5))
    others = [rng.integers(0, WORDS, 150) for _ in range(8)]
    path = corpus(tmp_path, [marked, *others, copy])
    mark = scanned(world, path, tmp_path / "out")
    assert (mark["documents"], mark["distinct"], mark["bh_calls"]) == (10, 9, 1)
    names = pq.read_table(next((tmp_path / "out").glob("part-*")))["id"].to_pylist()
    listed = pq.read_table(tmp_path / "out" / "copies.parquet").to_pylist()
    assert listed == [{"id": names[9], "copy_of": names[0]}]
    called = pq.read_table(tmp_path / "out" / "calls.parquet").to_pylist()
    found = [(row["id"], row["copy_of"]) for row in called]
    assert found == [(names[0], None), (names[9], names[0])]


def test_windows_have_an_effective_number_of_their_own(world: World, tmp_path: Path) -> None:
    """Documents that share a header: a window finds it in all of them or in none."""
    rng = np.random.default_rng(8)
    path = corpus(tmp_path, [*filled(40, 80, 40, rng), np.array([1])])
    count = scanned(world, path, tmp_path / "count", alpha=ALPHA)
    windows = scanned(world, path, tmp_path / "windows", alpha=ALPHA, detector="evalue")
    assert count["distinct"] == windows["distinct"] == 41
    assert windows["effective"] < 0.8 * count["effective"] < 0.8 * 40


def test_scans_of_0_1_are_refused_and_sketches_that_are_lost_made_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(9)
    path = corpus(tmp_path, filled(20, 80, 6, rng))
    whole = scanned(world, path, tmp_path / "out")
    [sketches] = (tmp_path / "out").glob("sketches-*")
    content = sketches.read_bytes()
    sketches.write_bytes(content[:-40])
    with pytest.raises(FileProblem, match=r"sketches-.* is damaged"):
        scanned(world, path, tmp_path / "out")
    sketches.unlink()
    monkeypatch.setattr("time.time", lambda: 2e9)  # files do not depend on the clock
    assert scanned(world, path, tmp_path / "out") == whole
    assert sketches.read_bytes() == content
    job = tmp_path / "out" / "job.json"
    old = json.loads(job.read_bytes())
    del old["sketches"]
    job.write_text(json.dumps(old))
    with pytest.raises(FileProblem, match=r"a scan by powermark 0\.1, .* cannot be resumed"):
        scanned(world, path, tmp_path / "out")
