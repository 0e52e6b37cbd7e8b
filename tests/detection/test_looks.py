"""Several looks at one text: each alone keeps alpha, the best of them does not, its p does."""

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from powermark import Detector, SecretKey, WatermarkSpec, plan
from powermark.detection.detection import Detection
from powermark.detection.detector import Kind
from powermark.errors import InvalidInput
from tests.detection.marked import marked_ids

KINDS: tuple[Kind, ...] = ("count", "winmax", "winmax-c", "evalue")
KEYS = {str(i): SecretKey(bytes([i]) * 32) for i in range(4)}
KEY = KEYS["0"]
ALPHA, TEXTS = 0.05, 2_000
WITHIN = ALPHA + 3.0 * np.sqrt(ALPHA * (1.0 - ALPHA) / TEXTS)


def mark(gamma: float) -> WatermarkSpec:
    return WatermarkSpec(gamma=gamma, delta=2.0, context_width=2, vocab_size=50_000)


def unmarked(length: int) -> list[NDArray[np.int64]]:
    return list(np.random.default_rng(length).integers(0, 50_000, (TEXTS, length)))


def called(found: list[Detection]) -> NDArray[np.bool_]:
    return np.array([each.verdict == "watermarked" for each in found])


@pytest.mark.parametrize(("gamma", "length"), [(0.5, 102), (0.25, 202), (0.9, 102)])
def test_the_best_of_four_detectors_keeps_alpha(gamma: float, length: int) -> None:
    spec, texts = mark(gamma), unmarked(length)
    alone = [Detector(spec, KEY, alpha=ALPHA, detector=kind).detect_many(texts) for kind in KINDS]
    assert all(called(found).mean() < WITHIN for found in alone)
    assert np.any([called(found) for found in alone], axis=0).mean() > 1.6 * ALPHA
    best = Detector(spec, KEY, alpha=ALPHA, detector=KINDS).detect_many(texts)
    assert 0.0 < called(best).mean() < WITHIN
    for found, *each in zip(best, *alone, strict=True):
        least = min(each, key=lambda one: one.p)
        assert found.p == pytest.approx(min(1.0, 4 * least.p))
        assert min(each[KINDS.index(found.detector)].p, 1.0) == least.p


def test_keys_detectors_and_other_looks_multiply() -> None:
    spec, texts = mark(0.5), unmarked(102)
    found = Detector(spec, KEYS, alpha=ALPHA, detector=("count", "winmax"), looks=3)
    answers = found.detect_many(texts)
    assert called(answers).mean() < WITHIN
    one = answers[0]
    assert (one.looks, one.keys_tried, one.z) == (24, 4, None)
    assert "multiplied by 24 looks" in str(one)
    assert "|detector:binom+winmax|" in one.signature
    assert "|looks:24|" in one.signature
    single = Detector(spec, KEYS[one.key or ""], alpha=ALPHA, detector=one.detector)
    assert one.p == pytest.approx(min(1.0, 24 * single.detect(texts[0]).p))
    with pytest.raises(InvalidInput, match="looks must be"):
        Detector(spec, KEY, alpha=ALPHA, looks=0)
    with pytest.raises(InvalidInput, match="detector must be one of"):
        Detector(spec, KEY, alpha=ALPHA, detector=("count", "best"))  # type: ignore[arg-type]


def test_the_best_prefix_keeps_alpha_only_where_it_is_counted() -> None:
    spec, texts = mark(0.5), unmarked(202)
    cuts = range(22, 203, 20)

    def best(looks: int = 1, detector: Kind = "count") -> float:
        look = Detector(spec, KEY, alpha=ALPHA, detector=detector, looks=looks)
        return float(
            np.any(
                [called(look.detect_many([text[:n] for text in texts])) for n in cuts], axis=0
            ).mean()
        )

    assert best() > 2.0 * ALPHA
    assert best(looks=len(cuts)) < WITHIN
    assert best(detector="evalue") < WITHIN  # any number of prefixes, at no cost


def test_the_power_of_several_detectors_is_a_lower_bound() -> None:
    spec, rng = mark(0.5), np.random.default_rng(0)
    spec = dataclasses.replace(spec, vocab_size=200)
    texts = [marked_ids(spec, KEY, 42, rng, rate=0.75) for _ in range(300)]
    look = Detector(spec, KEY, alpha=ALPHA, detector=("count", "evalue"), gamma_prime=0.75)
    found = look.detect_many(texts)
    told = np.mean([each.power for each in found])
    assert 0.5 < told < called(found).mean() + 3.0 * np.sqrt(0.25 / 300)
    fewer = Detector(spec, KEY, alpha=ALPHA, looks=10, gamma_prime=0.75)
    assert fewer.power_at(40) < Detector(spec, KEY, alpha=ALPHA, gamma_prime=0.75).power_at(40)
    assert fewer.size_at(40) <= ALPHA / 10


def test_another_test_than_the_planned_one_says_so() -> None:
    planned = plan(n_tokens=80, alpha=ALPHA, power=0.95, edit_rate=0.05)
    spec = WatermarkSpec.from_plan(planned, vocab_size=50_000)
    texts = unmarked(102)[:1]

    def notes(kinds: tuple[Kind, ...]) -> str:
        return " ".join(Detector(spec, KEY, detector=kinds).detect_many(texts)[0].warnings)

    assert "planned test" not in notes(("count",))
    assert "the detector is winmax, and the plan is for count. The plan's power" in notes(
        ("winmax",)
    )
    assert "corrected for 2 detectors (count, evalue)" in notes(("count", "evalue"))
    bare = Detector(mark(0.5), KEY, alpha=ALPHA, detector="winmax").detect_many(texts)[0]
    assert bare.warnings == ()  # without a plan no test is planned
