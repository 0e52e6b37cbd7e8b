import os

import numpy as np
import pytest

from powermark import plan
from powermark.errors import InvalidInput
from powermark.watermark import threads
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Pm1, threshold

KEY = SecretKey(bytes(range(32)))
CONTEXTS = np.arange(12).reshape(6, 2)


def pm1(gamma: float, vocab_size: int, context_width: int = 2) -> Pm1:
    return Pm1(KEY, gamma=gamma, vocab_size=vocab_size, context_width=context_width)


def test_a_planned_gamma_is_realised_exactly() -> None:
    gamma = plan(n_tokens=50, alpha=0.05, power=0.95).gamma
    assert float(threshold(gamma)) / 2**32 == gamma
    assert int(threshold(1 - 2**-53)) == 2**32 - 1


@pytest.mark.parametrize("in_place", [True, False])
def test_bias_is_added_to_green_logits_and_nowhere_else(in_place: bool) -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((6, 1010)).astype(np.float32)
    before = logits.copy()
    deltas = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0], dtype=np.float32)
    scheme = pm1(0.4, 1000)
    out = None if in_place else np.full_like(logits, np.nan)
    got = scheme.add_bias(logits, CONTEXTS, deltas, out=out)
    want = before.copy()
    want[:, :1000] += np.where(scheme.green_masks(CONTEXTS), deltas[:, None], np.float32(0.0))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got[:, 1000:], before[:, 1000:])  # padded columns
    np.testing.assert_array_equal(got[0], before[0])  # an unmarked row is not touched
    assert got is (logits if in_place else out)
    if not in_place:
        np.testing.assert_array_equal(logits, before)


def test_one_bias_for_all_rows_and_masked_tokens_stay_masked() -> None:
    logits = np.full((6, 50), -np.inf, dtype=np.float32)
    pm1(0.5, 50).add_bias(logits, CONTEXTS, 2.0)
    assert np.all(np.isneginf(logits))


def test_membership_is_a_column_of_the_mask() -> None:
    scheme = pm1(0.3, 100)
    mask = scheme.green_masks(CONTEXTS)
    for token in (0, 17, 99):
        got = scheme.are_green(CONTEXTS, np.full(6, token))
        np.testing.assert_array_equal(got, mask[:, token])


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9])
def test_a_larger_gamma_only_adds_greens(gamma: float) -> None:
    small = pm1(gamma, 5000).green_masks(CONTEXTS)
    large = pm1(gamma + 0.05, 5000).green_masks(CONTEXTS)
    assert np.all(large[small])
    assert large.sum() > small.sum()


def test_shapes_are_checked() -> None:
    scheme = pm1(0.5, 10)
    good = np.zeros((6, 10), dtype=np.float32)
    for contexts in ([1, 2, 3], [[1], [2]]):
        with pytest.raises(InvalidInput, match="rows of 2 token ids; got shape"):
            scheme.green_masks(contexts)
    with pytest.raises(InvalidInput, match=r"one per context, shape \(6,\)"):
        scheme.are_green(CONTEXTS, [1, 2])
    for logits in (good.astype(np.float64), good[0]):
        with pytest.raises(InvalidInput, match="must be float32 rows"):
            scheme.add_bias(logits, CONTEXTS, 1.0)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="must be float32 rows"):
            scheme.add_bias(good, CONTEXTS, 1.0, out=logits)  # type: ignore[arg-type]
    for logits in (good[:5], good[:, :9].copy()):
        with pytest.raises(InvalidInput, match="a row per context"):
            scheme.add_bias(logits, CONTEXTS, 1.0)
    with pytest.raises(InvalidInput, match=r"out must have shape \(6, 10\)"):
        scheme.add_bias(good, CONTEXTS, 1.0, out=np.zeros((6, 11), np.float32))


def test_views_with_strides_are_marked_in_place() -> None:
    """llama.cpp keeps each logit between an id and a probability."""
    records = np.zeros((6, 10), [("id", np.intc), ("logit", np.float32), ("p", np.float32)])
    scheme = pm1(0.5, 10)
    scheme.add_bias(records["logit"], CONTEXTS, 1.0)
    np.testing.assert_array_equal(records["logit"], scheme.green_masks(CONTEXTS))
    assert not records["id"].any()
    assert not records["p"].any()


def test_threads_change_nothing_and_survive_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((33, 1000)).astype(np.float32)
    contexts = rng.integers(0, 1000, (33, 2))
    scheme, deltas = pm1(0.5, 1000), rng.random(33).astype(np.float32)
    alone = scheme.add_bias(logits, contexts, deltas, out=np.empty_like(logits))
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(threads, "THREADS", 4)
    monkeypatch.setattr(threads, "_pool", None)
    for _ in range(2):  # with a new pool, and again with the same
        np.testing.assert_array_equal(
            scheme.add_bias(logits, contexts, deltas, out=np.empty_like(logits)), alone
        )
    assert threads._pool is not None
    child = os.fork()
    if child == 0:  # without its own pool the child would wait for ever
        same = scheme.add_bias(logits, contexts, deltas, out=np.empty_like(logits))
        os._exit(0 if np.array_equal(same, alone) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    threads._forget_pool()
    assert threads._pool is None
