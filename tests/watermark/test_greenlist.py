import numpy as np
import pytest

from powermark import plan
from powermark.errors import InvalidInput
from powermark.watermark.greenlist import add_bias, context_seeds, green_mask, is_green, threshold
from powermark.watermark.keys import SecretKey

KEY = SecretKey(bytes(range(32)))
CONTEXTS = np.arange(12).reshape(6, 2)


def test_a_planned_gamma_is_realised_exactly() -> None:
    gamma = plan(n_tokens=50, alpha=0.05, power=0.95).gamma
    assert float(threshold(gamma)) / 2**32 == gamma
    assert int(threshold(1 - 2**-53)) == 2**32 - 1


def test_bias_is_added_to_green_logits_and_nowhere_else() -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((6, 1010)).astype(np.float32)
    before = logits.copy()
    deltas = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0], dtype=np.float32)
    add_bias(logits, context_seeds(KEY, CONTEXTS), deltas, gamma=0.4, vocab_size=1000)
    mask = green_mask(KEY, CONTEXTS, gamma=0.4, vocab_size=1000)
    want = before.copy()
    want[:, :1000] += np.where(mask, deltas[:, None], np.float32(0.0))
    np.testing.assert_array_equal(logits, want)
    np.testing.assert_array_equal(logits[:, 1000:], before[:, 1000:])  # padded columns
    np.testing.assert_array_equal(logits[0], before[0])  # an unmarked row is not touched


def test_one_bias_for_all_rows_and_masked_tokens_stay_masked() -> None:
    logits = np.full((6, 50), -np.inf, dtype=np.float32)
    add_bias(logits, context_seeds(KEY, CONTEXTS), 2.0, gamma=0.5, vocab_size=50)
    assert np.all(np.isneginf(logits))


def test_membership_is_a_column_of_the_mask() -> None:
    mask = green_mask(KEY, CONTEXTS, gamma=0.3, vocab_size=100)
    for token in (0, 17, 99):
        got = is_green(KEY, CONTEXTS, np.full(6, token), gamma=0.3)
        np.testing.assert_array_equal(got, mask[:, token])


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9])
def test_a_larger_gamma_only_adds_greens(gamma: float) -> None:
    small = green_mask(KEY, CONTEXTS, gamma=gamma, vocab_size=5000)
    large = green_mask(KEY, CONTEXTS, gamma=gamma + 0.05, vocab_size=5000)
    assert np.all(large[small])
    assert large.sum() > small.sum()


def test_shapes_are_checked() -> None:
    seeds = context_seeds(KEY, CONTEXTS)
    good = np.zeros((6, 10), dtype=np.float32)
    with pytest.raises(InvalidInput, match=r"rows of token ids, \(rows, h\)"):
        context_seeds(KEY, [1, 2, 3])
    with pytest.raises(InvalidInput, match=r"one per context, shape \(6,\)"):
        is_green(KEY, CONTEXTS, [1, 2], gamma=0.5)
    for logits in (good.astype(np.float64), good[0], np.asfortranarray(good)):
        with pytest.raises(InvalidInput, match="contiguous float32 rows"):
            add_bias(logits, seeds, 1.0, gamma=0.5, vocab_size=10)  # type: ignore[arg-type]
    for logits, size in ((good[:5], 10), (good, 11), (good, 0)):
        with pytest.raises(InvalidInput, match="a row per seed"):
            add_bias(logits, seeds, 1.0, gamma=0.5, vocab_size=size)
