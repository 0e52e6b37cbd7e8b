"""The tracker counts as detection does, whatever happens to the batch."""

import numpy as np
import pytest

from powermark import PlugIn
from powermark.calibration.schedule import Schedule
from powermark.calibration.steering import Goal, steer
from powermark.detection.scoring import score
from powermark.watermark.greenlist import Pm1
from powermark.watermark.keys import SecretKey
from powermark.watermark.tracker import Tracker

VOCAB, GAMMA = 30, 0.5


def scheme(h: int = 2) -> Pm1:
    return Pm1(SecretKey(bytes(range(32))), gamma=GAMMA, vocab_size=VOCAB, context_width=h)


def schedule(n: int = 20) -> Schedule:
    return steer(Goal.of(GAMMA, 0.05, [n]), PlugIn(), 0.9)[0]


def begun(lists: Pm1, plan: Schedule, special_ids: tuple[int, ...] = ()) -> Tracker:
    """A tracker of texts without a prompt."""
    tracker = Tracker(lists, plan, special_ids)
    tracker.deltas(np.zeros((1, 0), np.int64))
    return tracker


@pytest.mark.parametrize("h", [0, 1, 2, 4])
def test_states_are_those_of_the_detector(h: int) -> None:
    """Few words, so that many pairs repeat; special tokens among them; longer than one block."""
    rng = np.random.default_rng(h)
    texts = rng.integers(0, {0: VOCAB, 1: 10, 2: 6, 4: 4}[h], (6, 90))
    plan, lists = schedule(), scheme(h)
    tracker = begun(lists, plan, (1, 3, 99))
    for length in range(1, texts.shape[1] + 1):
        biases = tracker.deltas(texts[:, :length])
        found = score(lists, list(texts[:, :length]), special_ids=(1, 3))
        scored, greens = tracker.state
        assert (scored == found.scored % plan.n_tokens).all()
        last = [found.colours(i)[found.scored[i] // 20 * 20 :].sum() for i in range(6)]
        assert greens.tolist() == last
        want = plan.deltas[scored, greens] if length >= h else np.zeros(6)
        np.testing.assert_array_equal(biases, want)
    assert found.count(2).sum() > 0  # there were repeats


def test_reordered_and_new_rows() -> None:
    rng = np.random.default_rng(1)
    texts, plan, lists = rng.integers(0, VOCAB, (4, 30)), schedule(), scheme()
    tracker = begun(lists, plan)
    tracker.deltas(texts[:, :20])
    order = [2, 2, 0]  # beams: two go on from one, another is dropped
    moved = texts[order, :25]
    moved[1, 20:] = texts[3, 20:25]
    want = begun(lists, plan).deltas(moved)
    np.testing.assert_array_equal(tracker.deltas(moved), want)
    fresh = rng.integers(0, VOCAB, (2, 28))  # beside one that goes on: read from the beginning
    fresh[0, :25] = moved[2]
    np.testing.assert_array_equal(tracker.deltas(fresh), begun(lists, plan).deltas(fresh))


@pytest.mark.parametrize("second", [5, 20, 26])
def test_texts_that_go_on_from_none_begin_with_a_prompt(second: int) -> None:
    """Shorter than the latest, as long, or longer: all that is there is a prompt."""
    rng = np.random.default_rng(7)
    texts, plan, lists = rng.integers(0, VOCAB, (4, 40)), schedule(), scheme()
    used = Tracker(lists, plan)
    used.deltas(texts[:2, :10])
    used.deltas(texts[:2, :20])
    fresh = Tracker(lists, plan)
    for length in range(second, 40):
        biases = used.deltas(texts[2:, :length])
        np.testing.assert_array_equal(biases, fresh.deltas(texts[2:, :length]))
        written = score(lists, list(texts[2:, second:length]))
        assert (used.state[0] == written.scored % plan.n_tokens).all()
        assert (biases == 0.0).all() or length >= second + 2
    assert written.scored.min() > 10


def test_ids_beyond_the_vocabulary_do_not_count() -> None:
    tracker = begun(scheme(), schedule())
    tracker.deltas(np.array([[5, 6, VOCAB + 3, 7, 8, 9]]))
    assert tracker.state[0].tolist() == [1]  # only the last has a context of real ids


def test_long_texts_make_room() -> None:
    rng = np.random.default_rng(2)
    texts = rng.integers(0, VOCAB, (2, 400))
    tracker, lists = begun(scheme(), schedule()), scheme()
    tracker.deltas(texts)
    assert (tracker.state[0] == score(lists, list(texts)).scored % 20).all()
