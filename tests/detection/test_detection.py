"""The verdict and what stands beside it."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

from powermark import plan
from powermark.detection.detector import Detector
from powermark.detection.inspection import statement
from powermark.detection.text import tokens_of
from powermark.errors import InvalidInput, SpecMismatch
from powermark.theory.power import binomial_tail, critical_count
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from tests.detection.marked import marked_ids
from tests.engines.known_model import Letters

KEY = SecretKey(bytes(range(32)))
PLAN = plan(n_tokens=100, alpha=0.01, power=0.95, edit_rate=0.1)
SPEC = WatermarkSpec.from_plan(PLAN, vocab_size=2000)


def unmarked(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2000, n)


def test_a_detector_that_lives_for_long_keeps_its_size() -> None:
    detector = Detector(SPEC, KEY)
    for n in range(5_000):
        detector.power_at(n)
        detector.size_at(n)
    for kept in (detector.power_at, detector.size_at):
        assert kept.cache_info().currsize < 5_000


def test_the_three_verdicts() -> None:
    marked = Detector(SPEC, KEY).detect(marked_ids(SPEC, KEY, 150, np.random.default_rng(0)))
    assert marked.verdict == "watermarked"
    assert (marked.green, marked.scored) == (148, 148)
    nothing = Detector(SPEC, KEY).detect(unmarked(300))
    assert nothing.verdict == "no watermark found"
    assert nothing.power > 0.99
    short = Detector(SPEC, KEY).detect(unmarked(20))
    assert short.verdict == "inconclusive"
    assert short.power < 0.8
    assert "only 18 tokens count, too few to tell" in short.warnings[0]
    saw_tooth = dataclasses.replace(short, scored=65)
    assert "Only 65" in statement(saw_tooth)
    for found, words in ((marked, "are green"), (nothing, "would have been"), (short, "Only 18")):
        assert words in statement(found)
        assert "does not say who wrote it" in statement(found)


def test_every_number_is_what_it_says() -> None:
    found = Detector(SPEC, KEY).detect(unmarked(300))
    assert found.p == pytest.approx(stats.binom.sf(found.green - 1, found.scored, SPEC.gamma))
    assert found.bits == pytest.approx(-np.log2(found.p))
    k = critical_count(found.scored, SPEC.gamma, 0.01)
    assert found.power == pytest.approx(float(binomial_tail(found.scored, k, SPEC.gamma_prime)))
    assert found.tokens == 300
    assert found.green_rate == found.green / found.scored
    assert found.green_rate_low < found.green_rate < found.green_rate_high
    assert found.z == pytest.approx(
        (found.green - SPEC.gamma * found.scored)
        / np.sqrt(found.scored * SPEC.gamma * (1 - SPEC.gamma))
    )
    needed = found.tokens_needed
    assert needed is not None
    rate = found.gamma_prime
    powers = [
        float(binomial_tail(n, critical_count(n, SPEC.gamma, 0.01), rate))
        for n in (needed - 1, needed)
    ]
    assert powers[0] < 0.8 <= powers[1]
    assert f"spec:{SPEC.digest[:12]}|key:{KEY.fingerprint}|a:0.01" in found.signature
    assert json.loads(json.dumps(found.to_dict()))["verdict"] == found.verdict
    assert "no watermark found" in str(found)


@pytest.mark.parametrize("detector", ["count", "winmax", "winmax-c", "evalue"])
def test_every_detector_finds_a_mark_and_spares_the_rest(detector: str) -> None:
    look = Detector(SPEC, KEY, detector=detector)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    assert look.detect(marked_ids(SPEC, KEY, 200, rng)).verdict == "watermarked"
    calls = [found.verdict for found in look.detect_many([unmarked(150, s) for s in range(60)])]
    assert calls.count("watermarked") <= 4  # of 60 at alpha .01; chance below .004
    empty = look.detect([])
    assert (empty.verdict, empty.p, empty.power, empty.green_rate) == ("inconclusive", 1, 0, None)
    assert empty.span_start is empty.z is empty.marked_share is None
    assert empty.p_mid == 0.5
    if detector != "count":
        assert empty.tokens_needed is None


def test_windows_find_what_the_count_loses() -> None:
    """200 marked tokens among 800 others: the count is diluted, the window is not."""
    rng = np.random.default_rng(2)
    mark = WatermarkSpec(gamma=0.5, delta=2.0, context_width=2, vocab_size=2000)
    part = marked_ids(mark, KEY, 120, rng, rate=0.85)
    ids = [*unmarked(500, 1).tolist(), *part, *unmarked(300, 2).tolist()]
    count, window = (
        Detector(mark, KEY, alpha=1e-3, detector=kind).detect(ids) for kind in ("count", "winmax")
    )
    assert count.verdict == "no watermark found"
    assert window.verdict == "watermarked"
    assert window.span_start is not None
    assert window.span_stop is not None
    assert 480 < window.span_start < 530
    assert 590 < window.span_stop < 640
    strict = Detector(mark, KEY, alpha=1e-8, detector="winmax").detect(ids)  # by the bound
    assert strict.p > window.p * 1e-8


def test_several_keys_cost_their_number() -> None:
    keys = {name: SecretKey(bytes([i]) * 32) for i, name in enumerate(["a", "b", "c"])}
    ids = marked_ids(SPEC, keys["b"], 150, np.random.default_rng(3))
    alone, ring = Detector(SPEC, keys["b"]).detect(ids), Detector(SPEC, keys).detect(ids)
    assert (ring.key, ring.keys_tried, ring.verdict) == ("b", 3, "watermarked")
    assert ring.p == pytest.approx(3 * alone.p)
    assert ring.green == alone.green
    many = Detector(SPEC, keys).detect_many([ids, unmarked(100)])
    assert many[0] == ring
    assert "keys tried" in Detector(SPEC, keys).inspect(ids).html()


def test_a_prompt_gives_context_and_one_left_in_is_noticed() -> None:
    mark = dataclasses.replace(SPEC, gamma=0.5, delta=4.0, design=None)
    rng = np.random.default_rng(4)
    one_red = marked_ids(SPEC, KEY, 12, rng)  # a single red token early on is no prompt
    scheme = Watermark(SPEC, KEY).scheme
    one_red.append(int(np.flatnonzero(~scheme.green_masks([one_red[-2:]])[0])[0]))
    while len(one_red) < 200:
        one_red.append(int(rng.choice(np.flatnonzero(scheme.green_masks([one_red[-2:]])[0]))))
    assert Detector(SPEC, KEY).detect(one_red).warnings == ()
    prompt = unmarked(40, 5).tolist()
    text = marked_ids(mark, KEY, 100, rng)
    look = Detector(mark, KEY, alpha=0.01)
    assert look.detect(text, prompt=prompt).scored == look.detect(text).scored + 2
    both = look.detect([*prompt, *text])
    assert "look unmarked and the rest marked" in both.warnings[0]
    assert look.detect(text).warnings == ()


def test_repeats_and_selfhash_are_mentioned() -> None:
    looped = Detector(SPEC, KEY).detect(np.tile(unmarked(30), 10))
    assert any("repeat earlier ones" in warning for warning in looped.warnings)
    mark = WatermarkSpec(
        scheme="hf-selfhash", gamma=0.25, delta=2.0, context_width=0, vocab_size=2000
    )
    found = Detector(mark, HashKey(), alpha=0.01).detect(unmarked(100))
    assert any("selfhash" in warning for warning in found.warnings)
    assert "key:" not in found.signature


def test_a_mark_without_strength_has_no_power() -> None:
    found = Detector(dataclasses.replace(SPEC, delta=0.0, design=None), KEY, alpha=0.05).detect(
        unmarked(100)
    )
    assert (found.power, found.tokens_needed, found.marked_share) == (0.0, None, None)
    assert found.verdict in ("inconclusive", "watermarked")
    seen = Detector(dataclasses.replace(SPEC, delta=0.0, design=None), KEY, alpha=0.05).inspect(
        unmarked(100)
    )
    assert seen.detection == found
    assert seen.evidence.size == 0


def test_what_is_refused() -> None:
    by_hand = dataclasses.replace(SPEC, design=None)
    with pytest.raises(InvalidInput, match="so alpha must be given"):
        Detector(by_hand, KEY)
    with pytest.raises(InvalidInput, match="detector must be one of"):
        Detector(SPEC, KEY, detector="max")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="at least one key"):
        Detector(SPEC, {})
    with pytest.raises(InvalidInput, match="text needs a tokenizer"):
        Detector(SPEC, KEY).detect("a text")
    with pytest.raises(SpecMismatch, match="the tokenizer has 10 ids"):
        Detector(SPEC, KEY, tokenizer=Letters(10))


def test_the_page_stands_alone_and_escapes_what_it_shows() -> None:
    ids = [*marked_ids(SPEC, KEY, 60, np.random.default_rng(5)), *[3] * 12]
    look = Detector(SPEC, KEY)
    words = ["<script>alert(1)</script> & "] * len(ids)
    page = dataclasses.replace(look.inspect(ids), words=words).html()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page.replace("http-equiv", "")
    for kind in ("green", "red", "out"):
        assert f'class="{kind}"' in page
    assert "<polyline" in page
    assert look.detect(ids).signature in page
    assert "No token counts." in look.inspect([]).html()
    assert "1 more tokens are not shown" in look.inspect(unmarked(20_001)).html()


def test_words_without_a_tokenizer_are_ids() -> None:
    assert tokens_of(None, [5, 6]).words == ["5 ", "6 "]


def test_the_power_of_windows_takes_no_longer_for_longer_texts() -> None:
    assert Detector(SPEC, KEY, detector="winmax").power_at(1_000_000) > 0.99
