"""A detector of a steered mark is the detector of a constant one; only what it foresees differs."""

import dataclasses

import numpy as np
import pytest

from powermark import plan
from powermark.detection.detector import Detector, Kind
from powermark.detection.stream import StreamDetector
from powermark.theory import gamma_prime
from powermark.theory.power import binomial_tail, critical_count
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

KEY = SecretKey(bytes(range(32)))
PLAN = plan(n_tokens=50, alpha=0.05, power=0.95, gamma=0.5, steer=True)
STEERED = WatermarkSpec.from_plan(PLAN, vocab_size=200)
CONSTANT = dataclasses.replace(STEERED, steering=None)  # the same gamma, level and planned rate
SPECIAL = (0, 7, 31)


def texts(count: int = 12) -> list[np.ndarray]:
    """Random ids of few kinds, so that pairs repeat, special ones among them; two lengths."""
    rng = np.random.default_rng(6)
    found = [rng.integers(0, 40, 60 + 90 * (i % 2)) for i in range(count)]
    for ids in found:
        ids[30:45] = ids[:15]
    return found


@pytest.mark.parametrize("kind", ["count", "evalue", "winmax", "winmax-c"])
def test_nothing_is_tested_otherwise_than_with_a_constant_bias(kind: Kind) -> None:
    """The size cannot change: p-values, counts and sizes are the same numbers."""
    ids = texts(3 if "winmax" in kind else 12)  # a window's law is simulated for every length
    offsets = np.cumsum([0, *map(len, ids)])
    steered, constant = (
        Detector(spec, KEY, detector=kind, special_ids=SPECIAL) for spec in (STEERED, CONSTANT)
    )
    found = [d.find(np.concatenate(ids), offsets, copied=True) for d in (steered, constant)]
    for name in ("log_p", "log_e", "green", "scored", "repeated", "size", "p_mid", "z"):
        np.testing.assert_array_equal(*(getattr(each, name) for each in found))
    assert found[0].repeated.min() > 0
    whole = found[0].tokens - STEERED.context_width - 1
    assert (found[0].scored + found[0].repeated < whole).any()  # there were special tokens
    np.testing.assert_array_equal(*((each.verdict == 0) for each in found))
    many = [detector.detect_many(ids, copied=True) for detector in (steered, constant)]
    for one, other, log_p in zip(*many, found[0].log_p, strict=True):
        assert (one.p, one.green, one.scored) == (other.p, other.green, other.scored)
        assert one.p == pytest.approx(np.exp(log_p), rel=1e-12)
    powers = [[each.power for each in reports] for reports in many]
    assert powers[0] != powers[1]  # the schedule is known to the one alone


def test_streams_are_fed_alike() -> None:
    streams = [
        StreamDetector(
            Watermark(spec, KEY), alpha=0.05, special_ids=SPECIAL, copied=spec is CONSTANT
        )
        for spec in (STEERED, CONSTANT)
    ]
    for ids in texts():
        for stream in streams:
            stream.feed(ids)
        one, other = streams
        assert (one.scored, one.green, one.log_e) == (other.scored, other.green, other.log_e)
        assert (one.max_log_e, one.detected_at) == (other.max_log_e, other.detected_at)
    assert streams[0].scored < streams[0].tokens


def test_a_prompt_changes_nothing() -> None:
    """The first tokens after a prompt are not marked, so they are not counted either."""
    ids, rng = texts(4), np.random.default_rng(8)
    prompts = [rng.integers(0, 200, 9) for _ in ids]
    steered, constant = (Detector(spec, KEY) for spec in (STEERED, CONSTANT))
    plain, told = steered.detect_many(ids), steered.detect_many(ids, prompts=prompts)
    assert told == plain
    assert steered.detect(ids[0], prompt=prompts[0]) == plain[0]
    more = constant.detect_many(ids, prompts=prompts)
    assert [one.scored for one in more] == [one.scored + 2 for one in plain]


def test_the_rate_of_a_schedule_without_a_plan() -> None:
    """What its texts have on average, and not what its largest bias would give."""
    bare = dataclasses.replace(STEERED, design=None)
    assert bare.gamma_prime == pytest.approx(PLAN.gamma_prime, abs=1e-4)
    drawn = bare.schedule.draw(4_000, 50, np.random.default_rng(1))  # type: ignore[union-attr]
    assert bare.gamma_prime == pytest.approx(drawn.mean(), abs=4.5 * 0.5 / np.sqrt(200_000))
    largest = float(gamma_prime(bare.gamma, bare.delta))
    assert dataclasses.replace(bare, steering=None).gamma_prime == largest > 0.98


def test_foreign_words_cost_a_steered_text_its_power() -> None:
    """Drawn texts with unmarked tokens among theirs: 20,000, 4.5 standard errors."""
    schedule, rng, n = STEERED.schedule, np.random.default_rng(2), 75
    assert schedule is not None
    k = int(critical_count(n, 0.5, 0.05))
    greens = schedule.draw(20_000, 50, rng).sum(axis=1) + rng.binomial(25, 0.5, 20_000)
    told = schedule.diluted_power(n, k, 1 / 3)
    assert told == pytest.approx((greens >= k).mean(), abs=4.5 * 0.5 / np.sqrt(20_000))
    assert schedule.diluted_power(n, k, 0.0) == pytest.approx(schedule.power(n, k), abs=1e-12)
    assert schedule.diluted_power(n, k, 1.0) == pytest.approx(float(binomial_tail(n, k, 0.5)))


def test_finding_nothing_is_told_with_care() -> None:
    """The caution is the steered mark's alone, and for what was not found."""
    ids = np.random.default_rng(5).permutation(200)[:153]
    caution = "the power is that of an untouched text; if a third of the text is foreign, it is "
    steered, constant = (Detector(spec, KEY, alpha=0.04) for spec in (STEERED, CONSTANT))
    nothing = steered.detect(ids)
    assert nothing.verdict == constant.detect(ids).verdict == "no watermark found"
    k = int(critical_count(150, 0.5, 0.04))
    power = STEERED.schedule.diluted_power(150, k, 1 / 3)  # type: ignore[union-attr]
    assert nothing.warnings == (f"{caution}about {power:.2f}.",)
    assert nothing.warnings[0] in str(nothing)
    assert nothing.to_dict()["warnings"] == nothing.warnings
    assert constant.detect(ids).warnings == ()
    assert steered.detect(ids[:30]).verdict == "inconclusive"
    assert caution not in steered.detect(ids[:30]).warnings[0]
    other = Detector(STEERED, KEY, detector="evalue").detect(np.arange(199, -1, -1))
    assert other.verdict == "no watermark found"
    assert other.warnings[1:] == (f"{caution}lower.",)
