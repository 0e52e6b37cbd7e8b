"""The e-process keeps its promise at every time, and the stream is the whole, piece by piece."""

import json

import numpy as np
import pytest

from powermark import plan
from powermark.detection.detector import Detector
from powermark.detection.stream import StreamDetector
from powermark.errors import InvalidInput, SpecMismatch
from powermark.statistics.p_values import bets, log_e_path
from powermark.theory.distortion import kl_divergence
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

KEY = SecretKey(bytes(range(32)))
SPEC = WatermarkSpec.from_plan(
    plan(n_tokens=200, alpha=0.01, power=0.95, edit_rate=0.1), vocab_size=500
)


@pytest.mark.parametrize("gamma", [0.25, 0.9])
def test_the_chance_of_ever_being_wrong_is_at_most_alpha(gamma: float) -> None:
    """200,000 texts of 200 tokens, looked at after every one; 4.75 standard errors above alpha."""
    up, down = bets(gamma, gamma + 0.6 * (1 - gamma))
    rng, highest = np.random.default_rng(0), []
    for _ in range(20):
        steps = np.where(rng.random((10_000, 200)) < gamma, up, down)
        highest.append(np.cumsum(steps, axis=1).max(axis=1))
    ever = np.concatenate(highest)
    for alpha in (0.05, 0.01, 0.001):
        assert (ever >= -np.log(alpha)).mean() <= alpha + 4.75 * np.sqrt(alpha / 200_000)


def test_evidence_grows_by_the_kl_that_was_spent() -> None:
    rng, rate = np.random.default_rng(1), SPEC.gamma_prime
    path = log_e_path(rng.random(200_000) < rate, SPEC.gamma, rate)
    want = float(kl_divergence(SPEC.gamma, SPEC.delta))
    assert path[-1] / path.size == pytest.approx(want, rel=0.02)


def test_rates_and_bets() -> None:
    by_hand = WatermarkSpec(gamma=0.5, delta=2.0, context_width=1, vocab_size=10)
    assert by_hand.gamma_prime == pytest.approx(np.exp(2) / (1 + np.exp(2)))
    assert SPEC.gamma_prime == (SPEC.design or {})["gamma_prime"]
    up, down = bets(0.9, 1.0)  # certainty is not bet on
    assert up > 0
    assert np.isfinite(down)
    with pytest.raises(InvalidInput, match="gamma_prime must be in"):
        bets(0.5, 0.4)


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_a_stream_is_the_whole_text_in_pieces(chunk: int, copied: bool) -> None:
    rng = np.random.default_rng(2)
    ids = rng.integers(0, 40, 600)  # many repeats
    detector = Detector(SPEC, KEY, detector="evalue", special_ids=[5])
    (whole,) = detector.detect_many([ids], copied=copied)
    stream = StreamDetector(Watermark(SPEC, KEY), alpha=0.01, special_ids=[5], copied=copied)
    for first in range(0, ids.size, chunk):
        stream.feed(ids[first : first + chunk])
    assert (stream.tokens, stream.scored, stream.green) == (600, whole.scored, whole.green)
    assert stream.max_log_e == pytest.approx(-np.log(whole.p), abs=1e-9)
    state = json.loads(json.dumps(stream.to_dict()))
    again = StreamDetector.from_dict(state, Watermark(SPEC, KEY))
    assert again.scored == stream.scored
    assert again.log_e == pytest.approx(stream.log_e)
    again.feed(3)
    again.feed([])
    assert again.tokens == 601


def test_a_marked_stream_is_noticed_where_it_is_enough() -> None:
    green = _marked(300)
    stream = StreamDetector(Watermark(SPEC, KEY), alpha=0.01).feed(green)
    assert stream.detected
    at = stream.detected_at
    assert at is not None
    assert not StreamDetector(Watermark(SPEC, KEY), alpha=0.01).feed(green[: at - 1]).detected
    assert StreamDetector(Watermark(SPEC, KEY), alpha=0.01).feed(green[:at]).detected


def test_what_is_refused() -> None:
    stream = StreamDetector(Watermark(SPEC, KEY), alpha=0.01)
    with pytest.raises(SpecMismatch, match="token ids below 500; got 500"):
        stream.feed([500])
    with pytest.raises(InvalidInput, match="not the state of a stream"):
        StreamDetector.from_dict({}, Watermark(SPEC, KEY))
    other = WatermarkSpec(gamma=0.5, delta=2.0, context_width=1, vocab_size=500)
    with pytest.raises(SpecMismatch, match="was begun with the spec"):
        StreamDetector.from_dict(stream.to_dict(), Watermark(other, KEY))


def _marked(n: int) -> list[int]:
    """A text of green tokens only."""
    from powermark.watermark.watermark import Watermark

    scheme, rng, ids = Watermark(SPEC, KEY).scheme, np.random.default_rng(3), [1, 2]
    while len(ids) < n:
        green = np.flatnonzero(scheme.green_masks([ids[-SPEC.context_width :]])[0])
        ids.append(int(rng.choice(green)))
    return ids
