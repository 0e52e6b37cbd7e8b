"""The tracker counts as detection does, whatever happens to the batch."""

import numpy as np
import pytest

from powermark import PlugIn
from powermark.detection.scoring import score
from powermark.errors import EngineProblem
from powermark.steering.goal import Goal
from powermark.steering.recursion import steer
from powermark.steering.schedule import Schedule
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Pm1
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
        found = score(lists, list(texts[:, :length]), skip=1, special_ids=(1, 3))
        scored, greens = tracker.state
        assert (scored == found.scored % plan.n_tokens).all()
        last = [found.colours(i)[found.scored[i] // 20 * 20 :].sum() for i in range(6)]
        assert greens.tolist() == last
        want = plan.deltas[scored, greens] if length > h else np.zeros(6)
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
        written = score(lists, list(texts[2:, second:length]), skip=1)
        assert (used.state[0] == written.scored % plan.n_tokens).all()
        assert (biases == 0.0).all() or length >= second + 3
    assert written.scored.min() >= 10


def test_ids_beyond_the_vocabulary_do_not_count() -> None:
    tracker = begun(scheme(), schedule())
    tracker.deltas(np.array([[4, 5, 6, VOCAB + 3, 7, 8, 9]]))
    assert tracker.state[0].tolist() == [1]  # only the last has a context of real ids


def test_long_texts_make_room() -> None:
    rng = np.random.default_rng(2)
    texts = rng.integers(0, VOCAB, (2, 400))
    tracker, lists = begun(scheme(), schedule()), scheme()
    tracker.deltas(texts)
    assert (tracker.state[0] == score(lists, list(texts), skip=1).scored % 20).all()


@pytest.mark.parametrize("one_prompt", [False, True])
def test_drafts_that_are_taken_back(one_prompt: bool) -> None:
    """Drafted, verified from the first on, the first wrong one replaced: counts are the text's."""
    rng = np.random.default_rng(3)
    plan, lists, prompt = schedule(), scheme(), 6
    tracker = Tracker(lists, plan, one_prompt=one_prompt)
    text = rng.integers(0, 8, (1, prompt))
    while text.shape[1] < 60:
        drafted = np.concatenate([text, rng.integers(0, 8, (1, 4))], axis=1)
        for _ in range(2):  # drafted, then verified
            for length in range(text.shape[1], drafted.shape[1] + 1):
                biases = tracker.deltas(drafted[:, :length])
                found = score(lists, [drafted[0, prompt:length]], skip=1)
                scored, greens = int(found.scored[0]), int(found.greens[0])
                assert tracker.state[0].tolist() == [scored % plan.n_tokens]
                if scored < plan.n_tokens and length >= prompt + lists.context_width + 1:
                    assert biases.tolist() == [plan.deltas[scored, greens]]
        kept = text.shape[1] + int(rng.integers(0, 5))
        text = np.concatenate([drafted[:, :kept], rng.integers(0, 8, (1, 1))], axis=1)


def test_steps_back_beyond_the_latest_one() -> None:
    text, lists, plan = np.random.default_rng(4).integers(0, 8, (1, 30)), scheme(), schedule()
    tracker = Tracker(lists, plan, one_prompt=True)
    for length in (5, 20, 12, 18, 9):
        tracker.deltas(text[:, :length])
        found = score(lists, [text[0, 5:length]], skip=1)
        assert tracker.state == (found.scored, found.greens)


@pytest.mark.parametrize("one_prompt", [False, True])
@pytest.mark.parametrize("second", [10, 15])
def test_a_second_step_back_may_change_tokens_of_the_first(second: int, one_prompt: bool) -> None:
    """Shorter than the text of the first step back, or as long with another last token."""
    text, plan, lists, prompt = np.arange(20)[None, :], schedule(), scheme(), 4
    tracker = Tracker(lists, plan, one_prompt=one_prompt)
    for length in (prompt, 20, 15, 20):
        tracker.deltas(text[:, :length])
    changed = text[:, :second].copy()
    changed[0, -1] = VOCAB - 1
    biases = tracker.deltas(changed)
    found = score(lists, [changed[0, prompt:]], skip=1)
    scored, greens = tracker.state
    assert (scored.tolist(), greens.tolist()) == (found.scored.tolist(), found.greens.tolist())
    assert biases.tolist() == plan.deltas[scored, greens].tolist()


def test_a_tracker_of_one_prompt_refuses_another() -> None:
    texts = np.random.default_rng(1).integers(0, VOCAB, (2, 20))
    tracker = Tracker(scheme(), schedule(), one_prompt=True)
    tracker.deltas(texts[:1, :5])
    tracker.deltas(texts[:1, :12])
    tracker.deltas(texts[:1, :8])
    for other in (texts[1:, :8], texts[:1, :4], texts[:, :5]):
        with pytest.raises(EngineProblem, match="another text than the one it began with"):
            tracker.deltas(other)


def test_texts_that_take_turns_are_refused() -> None:
    """Each would be taken for a new prompt, and never be marked."""
    texts = np.random.default_rng(1).integers(0, VOCAB, (2, 20))
    tracker = Tracker(scheme(), schedule())
    for row in (0, 1, 0):  # a prompt that comes again is none of these
        tracker.deltas(texts[row : row + 1, :5])
        tracker.deltas(texts[row : row + 1, :6])
    tracker.deltas(texts[1:, :5])
    with pytest.raises(EngineProblem, match="another text than the one it began with"):
        tracker.deltas(texts[:1, :7])
