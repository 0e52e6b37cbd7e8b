import dataclasses

import numpy as np
import pytest

from powermark.errors import InvalidInput
from powermark.measuring.audit import audit
from powermark.measuring.templates import KINDS, templated
from powermark.statistics.calls import DETECTORS
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

KEY = SecretKey(bytes(range(32)))
SPEC = WatermarkSpec(gamma=0.5, delta=2.0, context_width=1, vocab_size=3000)
MARK = Watermark(SPEC, KEY)


def test_independent_texts_have_the_exact_size_under_every_key() -> None:
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 3000, n) for n in rng.integers(40, 120, 400)]
    found = audit(MARK, texts, rng=rng, lengths=[30, 80], alphas=[0.05], fresh_keys=15)
    short, long = found.rows
    assert (short.texts, short.keys, long.length) == (400, 16, 80)
    assert 0 < long.texts < 400
    assert short.size <= 0.05
    spread = np.sqrt(short.size / (400 * 16))
    assert abs(short.mean_rate - short.size) < 4 * spread
    assert short.low <= short.rate <= short.high
    assert short.least_rate <= short.median_rate <= short.worst_rate
    assert short.worst_rate < 2 * short.chance_worst_rate
    assert short.rejections + long.rejections >= len(found.rejected)
    assert found.to_dict()["context_width"] == 1


def test_texts_that_share_their_words_depend_on_the_key() -> None:
    """One text in 100 copies: a key calls all of them marked, or none."""
    text = np.random.default_rng(1).integers(0, 3000, 60)
    found = audit(
        MARK, [text] * 100, rng=np.random.default_rng(2), lengths=[50], alphas=[0.3],
        fresh_keys=40,
    )  # fmt: skip
    row = found.rows[0]
    assert (row.least_rate, row.worst_rate) == (0.0, 1.0)
    assert row.worst_rate > 2 * row.chance_worst_rate
    assert found.shared[0][1] == 100
    assert found.shared[0][0] == tuple(
        sorted(map(tuple, np.column_stack([text[:-1], text[1:]])))[0]
    )


def test_short_texts_and_refusals() -> None:
    rng = np.random.default_rng(3)
    found = audit(MARK, [[5]], rng=rng, lengths=[50], alphas=[0.05], fresh_keys=0)
    assert (found.rows[0].texts, found.rows[0].rate, found.shared) == (0, 0.0, ())
    with pytest.raises(InvalidInput, match="at least one text"):
        audit(MARK, [], rng=rng)
    legacy = WatermarkSpec(
        scheme="hf-lefthash", gamma=0.5, delta=2.0, context_width=1, vocab_size=3000
    )
    with pytest.raises(InvalidInput, match="fresh keys are for scheme pm1"):
        audit(Watermark(legacy, HashKey()), [[1, 2]], rng=rng)
    kept = audit(Watermark(legacy, HashKey()), [[1, 2, 3]], rng=rng, lengths=[1], fresh_keys=0)
    assert kept.rows[0].keys == 1


def test_kinds_of_text_have_rows_of_their_own() -> None:
    """A template under 40 keys is called marked as a whole; independent texts never are."""
    rng = np.random.default_rng(4)
    template = rng.integers(0, 3000, 60)
    texts = [np.append(template, rng.integers(0, 3000, 5)) for _ in range(50)]
    texts += [rng.integers(0, 3000, 65) for _ in range(50)]
    found = audit(
        MARK, texts, rng=rng, lengths=[50], alphas=[0.2], fresh_keys=39,
        kinds=["template"] * 50 + ["random"] * 50, detectors=["count", "winmax-c"],
    )  # fmt: skip
    cells = [(row.kind, row.detector) for row in found.rows]
    both = ("count", "winmax-c")
    assert cells == [(kind, d) for kind in ("all", "template", "random") for d in both]
    rows = dict(zip(cells, found.rows, strict=True))
    for detector in both:
        assert rows["template", detector].worst_rate == 1.0
        assert rows["random", detector].worst_rate < 0.5
        halves = rows["template", detector].rejections + rows["random", detector].rejections
        assert rows["all", detector].rejections == halves
        assert rows["all", detector].texts == 100


@pytest.mark.parametrize("detector", DETECTORS)
def test_calls_are_those_of_the_detector(detector: str) -> None:
    """On texts with exactly as many counted tokens as are audited."""
    rng = np.random.default_rng(5)
    mark = Watermark(dataclasses.replace(SPEC, vocab_size=10**6), KEY)  # no n-gram twice
    texts = [rng.integers(0, 10**6, 41) for _ in range(300)]
    found = audit(
        mark, texts, rng=rng, lengths=[40], alphas=[0.2], fresh_keys=0, detectors=[detector]
    )
    judged = mark.detector(alpha=0.2, detector=detector).detect_many(texts)
    wanted = [i for i, one in enumerate(judged) if one.verdict == "watermarked"]
    assert list(found.rejected) == wanted
    assert 0 < len(wanted) < 100
    assert found.rows[0].size <= 0.2


def test_too_short_for_windows_or_without_a_bet() -> None:
    rng = np.random.default_rng(6)
    texts = [rng.integers(0, 3000, 9) for _ in range(20)]
    weak = dataclasses.replace(SPEC, delta=0.0)
    found = audit(
        Watermark(weak, KEY), texts, rng=rng, lengths=[3], alphas=[0.01], fresh_keys=0,
        detectors=["winmax", "evalue"],
    )  # fmt: skip
    windows, evalue = found.rows
    assert (windows.size, windows.rejections) == (0.0, 0)
    assert (evalue.size, evalue.rejections) == (0.01, 0)


def test_unknown_detectors_and_kinds_of_another_number_are_refused() -> None:
    rng = np.random.default_rng(7)
    with pytest.raises(InvalidInput, match=r"detectors must be among .* got sum"):
        audit(MARK, [[1]], rng=rng, detectors=["sum"])
    with pytest.raises(InvalidInput, match="kinds must be one per text, 1; got 2"):
        audit(MARK, [[1]], rng=rng, kinds=["a", "b"])


@pytest.mark.parametrize("kind", KINDS)
def test_templates_differ_and_share_their_frame(kind: str) -> None:
    texts = templated(kind, 20, np.random.default_rng(8))
    assert len(set(texts)) == 20
    assert texts == templated(kind, 20, np.random.default_rng(8))
    shared = set.intersection(*(set(text.split()) for text in texts))
    assert len(shared) >= (4 if kind == "base64" else 20)
    assert all(len(text) > 250 for text in texts)


def test_unknown_templates_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"kind must be one of json, logs, .* got 'poems'"):
        templated("poems", 1, np.random.default_rng(0))
