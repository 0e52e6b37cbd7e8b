"""One rule of which tokens count: for whole texts, for texts as they grow, and without a key."""

import numpy as np
import pytest

from powermark import PlugIn
from powermark.checks import Ids
from powermark.counting import SCORED
from powermark.detection.scoring import score
from powermark.signals.round_trip import RoundTrip
from powermark.steering.goal import Goal
from powermark.steering.recursion import steer
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Pm1
from powermark.watermark.tracker import Counting, Counts

VOCAB, SPECIAL = 12, (3, 11, 99)
KEY = SecretKey(bytes(range(32)))


def pm1(h: int) -> Pm1:
    return Pm1(KEY, gamma=0.4, vocab_size=VOCAB, context_width=h)


@pytest.mark.parametrize("h", [0, 1, 3])
@pytest.mark.parametrize("skipped", [0, 2])
def test_growing_texts_count_as_whole_ones(h: int, skipped: int) -> None:
    texts = np.random.default_rng(h).integers(0, VOCAB, (5, 60))
    whole = score(pm1(h), texts, skip=skipped, special_ids=SPECIAL)
    rows, growing = np.arange(5), Counting(pm1(h), SPECIAL, skipped=skipped, rows=5)
    state, green = np.zeros((2, 5, 60), bool)
    for end in range(growing.first, 60):
        counted, colours = growing.count(rows, texts[:, end - h : end + 1])
        state[counted, end], green[counted, end] = True, colours
    assert 0 < state.sum() < state[:, growing.first :].size
    assert np.array_equal(state.ravel(), whole.state == SCORED)
    assert np.array_equal(green.ravel(), whole.green & (whole.state == SCORED))


@pytest.mark.parametrize("h", [0, 1, 3])
def test_without_a_key_contexts_stand_for_seeds(h: int) -> None:
    lengths = [1, 2, 30, 50]
    text = np.repeat(np.arange(4), lengths).astype(np.int32)
    ids = np.random.default_rng(h).integers(0, VOCAB, text.size).astype(np.int32)
    copies = RoundTrip(text, ids, np.arange(text.size, dtype=np.int32), np.zeros(0, np.uint8))
    found, steps = copies.positions(h)
    rows = np.split(ids, np.cumsum(lengths)[:-1])
    states = score(pm1(h), rows, skip=1).state
    assert np.array_equal(steps, np.flatnonzero(states == SCORED))
    assert np.array_equal(found, text[steps])


def test_texts_catch_up_from_wherever_they_were_and_begin_anew_when_shorter() -> None:
    scheme, plan = pm1(1), steer(Goal.of(0.4, 0.05, [20]), PlugIn(), 0.9)[0]
    texts = np.random.default_rng(0).integers(0, VOCAB, (3, 40))

    def windows(which: Ids, tokens: Ids) -> Ids:
        return np.asarray(texts[which[:, None], tokens[:, None] + np.array([-1, 0])])

    def caught_up(lengths: list[int], counts: Counts | None = None) -> Counts:
        counts = counts or Counts(scheme, plan, rows=3)
        counts.catch_up(np.arange(3), np.array(lengths), windows)
        return counts

    counts = caught_up([4, 1, 17])
    assert counts.read.tolist() == [4, 0, 17]  # one token has no context
    caught_up([9, 2, 17], counts)
    for lengths in ([6, 9, 18], [6, 40, 3]):
        caught_up(lengths, counts)
        wanted = caught_up(lengths)
        for name in ("read", "scored", "greens"):
            assert np.array_equal(getattr(counts, name), getattr(wanted, name)), name
