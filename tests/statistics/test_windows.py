"""WinMax and WinMax-C, against every window one by one, and their null against theirs."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from powermark.detection.detector import Detector
from powermark.errors import InvalidInput
from powermark.statistics.windows import WindowTest
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from tests.detection.marked import marked_ids


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from powermark.statistics import windows

    windows._null.cache_clear()
    monkeypatch.setenv("POWERMARK_CACHE", str(tmp_path))
    return tmp_path / "null"


def every_window(
    colours: np.ndarray, gamma: float, complement: bool, smallest: int, largest: int
) -> float:
    n, best = colours.size, -np.inf
    for width in range(smallest, largest + 1):
        for start in range(n - width + 1):
            inside = colours[start : start + width]
            green, length = (
                (colours.sum() - inside.sum(), n - width) if complement else (inside.sum(), width)
            )
            best = max(best, (green - gamma * length) / np.sqrt(length * gamma * (1 - gamma)))
    return best


@pytest.mark.parametrize("kind", ["winmax", "winmax-c"])
@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9])
def test_skipping_loses_nothing(kind: str, gamma: float) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 30, 61):
        for _ in range(15):
            colours = rng.random(n) < rng.uniform(0.05, 0.95)
            test = WindowTest(kind, n, gamma)  # type: ignore[arg-type]
            assert test.smallest is not None
            assert test.largest is not None
            want = every_window(colours, gamma, kind == "winmax-c", test.smallest, test.largest)
            found = test.statistic(colours)
            assert found.statistic == pytest.approx(want, abs=1e-12)
            assert test.statistics(colours[None, :])[0] == found.statistic
            inside = colours[found.start : found.stop]
            left = np.delete(colours, slice(found.start, found.stop))
            shown = left if kind == "winmax-c" else inside
            z = (shown.sum() - gamma * shown.size) / np.sqrt(shown.size * gamma * (1 - gamma))
            assert z == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("kind", ["winmax", "winmax-c"])
@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("part", ["all", "middle", "none", "every other", "unmarked"])
def test_long_texts_are_searched_as_short_ones_are(kind: str, gamma: float, part: str) -> None:
    """The same statistic and the same window as width by width, to the last bit."""
    from powermark.statistics import text_kernels as kernels

    rng = np.random.default_rng(0)
    for n in (1_001, 1_024, 2_500):
        colours = rng.random(n) < gamma
        if part == "middle":
            colours[n // 3 : n // 2] = True
        elif part != "unmarked":
            colours = {"all": np.ones, "none": np.zeros}.get(part, _every_other)(n).astype(bool)
        test = WindowTest(kind, n, gamma)  # type: ignore[arg-type]
        sums = np.concatenate([[0], np.cumsum(colours)]).astype(np.int32)
        slow = kernels.winmax_c if kind == "winmax-c" else kernels.winmax
        spread = kernels.deviations(n, gamma)
        z, width = slow(sums, gamma, test.smallest, test.largest, spread)
        found = test.statistic(colours)
        assert (found.statistic, found.stop - found.start) == (z, width)
        assert test.statistics(colours[None, :]).tolist() == [z]


def _every_other(n: int) -> np.ndarray:
    return np.arange(n) % 2


@pytest.mark.parametrize("kind", ["winmax", "winmax-c"])
@pytest.mark.parametrize("lift", [0.0, 0.1])
def test_texts_of_a_million_tokens_take_a_moment(kind: str, lift: float) -> None:
    """Width by width winmax takes two minutes where the text is marked, winmax-c some seconds."""
    n = 1_000_000
    test = WindowTest(kind, n, 0.25)  # type: ignore[arg-type]
    test.statistic(np.zeros(n, bool))  # compiled
    colours = np.random.default_rng(0).random(n) < 0.25 + lift
    start = time.process_time()
    found = test.statistic(colours)
    p = test.p_bound(found.statistic)
    assert time.process_time() - start < 2.5
    assert p == (1.0 if lift == 0.0 else pytest.approx(1e-200))


@pytest.mark.parametrize(
    ("gamma", "quantile"), [(0.1, 3.87), (0.25, 3.30), (0.5, 2.89), (0.75, 2.56), (0.9, 2.21)]
)
def test_null_quantiles_of_winmax_c(gamma: float, quantile: float) -> None:
    """95 % at n = 50, blocks of 1 to n-1: simulated elsewhere with 40,000 draws, to two digits."""
    test = WindowTest("winmax-c", 50, gamma, 1, 49, draws=39_999)
    assert np.quantile(test.null, 0.95) == pytest.approx(quantile, abs=0.05)


def test_where_no_test_exists_none_is_invented() -> None:
    """gamma = .946, n = 64: with a block to be removed, all green and one red give the same.

    Sizes are simulated; 4.5 standard errors.
    """
    test = WindowTest("winmax-c", 64, 0.946, 1, 63)
    narrow, draws = test.threshold(0.05), test.null.size
    assert narrow.value is None
    assert narrow.size == pytest.approx(0.133, abs=4.5 * np.sqrt(0.133 / draws))
    assert WindowTest("winmax-c", 64, 0.946, 1, 63).power(0.999, 0.05) == 0.0
    # with nothing removed as a possibility, all green stands out: its probability is .0286
    wide = WindowTest("winmax-c", 64, 0.946).threshold(0.05)
    assert wide.value is not None
    assert wide.size == pytest.approx(0.946**64, abs=4.5 * np.sqrt(0.946**64 / draws))


@pytest.mark.parametrize("kind", ["winmax", "winmax-c"])
@pytest.mark.parametrize("gamma", [0.25, 0.9])
def test_sizes_are_at_most_alpha(kind: str, gamma: float) -> None:
    """200,000 texts, fresh draws; a true size of alpha would exceed the limit with chance 1e-6."""
    n, texts = 60, 200_000
    test = WindowTest(kind, n, gamma)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    values = np.concatenate(
        [test.statistics(rng.random((20_000, n)) < gamma) for _ in range(texts // 20_000)]
    )
    for alpha in (0.05, 0.01, 0.001):
        limit = alpha + 4.75 * np.sqrt(alpha / texts)
        assert (test.p_safe(values) <= alpha).mean() <= limit
        value = test.threshold(alpha).value
        if value is None:  # gamma^n is above alpha: nothing is ever called
            assert gamma**n > alpha
            value = np.inf
        np.testing.assert_array_equal(values > value, test.p_safe(values) <= alpha)
        # the plain p-value is valid over tables; this one's error is added
        error = np.sqrt(alpha / texts + alpha / test.null.size)
        assert (test.p_value(values) <= alpha).mean() <= alpha + 4.75 * error


def test_a_lenient_table_is_made_good_for() -> None:
    """One table serves many texts, so its own error counts: all-green texts at many lengths."""
    for n in range(40, 60):
        gamma = 2.6e-4 ** (1 / n)  # all green comes with probability 2.6e-4
        test = WindowTest("winmax-c", n, gamma)
        top = float(test.statistic(np.ones(n, bool)).statistic)
        assert float(test.p_safe(top)) >= 2.6e-4
        assert float(test.p_safe(top)) > float(test.p_value(top))
    assert float(test.p_safe(-100.0)) == 1.0


def test_long_texts_are_bounded_at_once() -> None:
    test = WindowTest("winmax", 50_000, 0.5)
    assert not test.supports(0.5)
    assert 0.0 < test.threshold(0.05).size <= 0.05


def test_the_bound_is_one_and_serves_small_levels() -> None:
    test = WindowTest("winmax", 60, 0.5)
    rng = np.random.default_rng(2)
    values = test.statistics(rng.random((500, 60)) < 0.5)
    assert all(test.p_bound(z) >= 0.5 * float(test.p_value(z)) for z in values)
    for kind in ("winmax", "winmax-c"):
        strict = WindowTest(kind, 200, 0.5)
        assert not strict.supports(1e-9)
        found = strict.threshold(1e-9)
        assert found.value is not None
        assert found.size <= 1e-9
        assert strict.p_bound(found.value - 0.01) > 1e-9
        assert strict.power(0.95, 1e-9, draws=200) > 0.99
    hopeless = WindowTest("winmax", 20, 0.9).threshold(1e-9)
    assert hopeless.value is None


def test_power_after_removal() -> None:
    """WinMax-C looks past the removed block; the count cannot."""
    test = WindowTest("winmax-c", 100, 0.5)
    clean, cut = (test.power(0.75, 0.01, removal=f, draws=4_000) for f in (0.0, 0.3))
    assert clean > 0.99
    assert 0.6 < cut < clean
    assert test.power(0.5, 0.01, draws=4_000) < 0.02


def test_the_null_is_kept_and_mended(cache: Path) -> None:
    from powermark.statistics import windows

    test = WindowTest("winmax", 30, 0.5, draws=999)
    first = test.null
    file = next(cache.iterdir())
    windows._null.cache_clear()
    np.testing.assert_array_equal(WindowTest("winmax", 30, 0.5, draws=999).null, first)
    other = WindowTest("winmax", 31, 0.5, draws=999).null
    another = next(path for path in cache.iterdir() if path != file)
    assert other.size == first.size
    whole = file.read_bytes()
    zeroed = whole[:16] + bytes(len(whole) - 16)  # would make every text look marked
    turned = whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]
    for broken in (b"", b"garbage", whole[:-8], zeroed, turned, another.read_bytes()):
        file.write_bytes(broken)
        windows._null.cache_clear()
        np.testing.assert_array_equal(WindowTest("winmax", 30, 0.5, draws=999).null, first)


def test_tables_of_0_1_are_read_and_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from powermark.statistics import windows

    golden = (Path(__file__).parents[1] / "golden" / "null-table-0.1").read_bytes()
    simulated = WindowTest("winmax-c", 40, 0.25, draws=99).null
    [file] = cache.iterdir()
    assert file.name == "winmax-c-40-0x1.0000000000000p-2-0-20-99-0-2"
    assert file.read_bytes() == golden
    windows._null.cache_clear()
    monkeypatch.setattr(windows, "_simulated", None)  # so that it can only be read
    np.testing.assert_array_equal(WindowTest("winmax-c", 40, 0.25, draws=99).null, simulated)


def test_a_cache_that_cannot_be_written_is_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POWERMARK_CACHE", str(tmp_path / "file"))
    assert WindowTest("winmax", 30, 0.5, draws=99).null.size == 99


def test_what_is_refused() -> None:
    with pytest.raises(InvalidInput, match="kind must be one of"):
        WindowTest("max", 50, 0.5)  # type: ignore[arg-type]
    for smallest, largest in ((0, 10), (5, 51), (10, 5)):
        with pytest.raises(InvalidInput, match="in order between 1 and 50"):
            WindowTest("winmax", 50, 0.5, smallest, largest)
    with pytest.raises(InvalidInput, match="colours must be 50; got shape"):
        WindowTest("winmax", 50, 0.5).statistic([True])


def test_strong_marks_are_told_in_numbers() -> None:
    """Where the union bound is used, a p-value is never said to be 0, nor its bits infinite."""
    test = WindowTest("winmax-c", 900, 0.25)
    green = np.random.default_rng(0).random(900) < 0.98
    assert test.p_bound(test.statistic(green).statistic) == 1e-200
    spec = WatermarkSpec(gamma=0.25, delta=8.0, context_width=2, vocab_size=5_000)
    key, rng = SecretKey(bytes(32)), np.random.default_rng(1)
    ids = marked_ids(spec, key, 1_000, rng, rate=0.98)
    found = Detector(spec, key, alpha=1e-6, detector="winmax-c").detect(ids)
    assert found.verdict == "watermarked"
    json.dumps(found.to_dict(), allow_nan=False)


def test_tables_that_are_not_to_be_kept_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERMARK_CACHE", str(tmp_path))
    assert WindowTest("winmax", 33, 0.5, draws=999, keep=False).null.size == 999
    assert not [*tmp_path.rglob("*")]
