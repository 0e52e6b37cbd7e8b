"""Other tools' green lists, against their own numbers."""

import numpy as np
import pytest
import torch

from powermark.errors import InvalidInput
from powermark.watermark.compat import COMPAT_SCHEMES, Compat, seeds
from powermark.watermark.compat.permutation import are_among_first, first_entries
from powermark.watermark.keys import HashKey
from tests import golden

VOCAB, GAMMA, SIZE = 50_257, 0.25, 12_564
KEY = HashKey()


def compat(name: str, context_width: int | None = None, vocab_size: int = VOCAB) -> Compat:
    return Compat(name, KEY, gamma=GAMMA, vocab_size=vocab_size, context_width=context_width)


@pytest.mark.parametrize(("name", "ids", "first", "total"), golden.pairs("compat_lists.csv"))
def test_lists_of_other_tools(name: str, ids: str, first: str, total: str) -> None:
    gram = np.array([[int(token) for token in ids.split()]])
    seed = COMPAT_SCHEMES[name].seeds(gram, KEY.value)
    drawn = first_entries(seed, VOCAB, SIZE)[0]
    assert drawn[:8].tolist() == [int(token) for token in first.split()]
    if total:
        assert int(drawn.astype(np.int64).sum()) == int(total)


def test_tables_and_overflow_of_other_tools() -> None:
    """Tables, hashes and the seed of a context whose product passes 2^63, from lm-watermarking."""
    kgw, hf = seeds._table(seeds.KGW_TABLE_SEED), seeds._table(KEY.value)
    assert kgw[:5].tolist() == [250534, 296009, 268311, 356494, 845733]
    assert hf[:5].tolist() == [138280, 994103, 467886, 915329, 149437]
    ids = np.array([[50256, 11, 262, 1000]])
    assert seeds._hash(ids, seeds.KGW_TABLE_SEED).tolist() == [[437725, 252656, 383053, 989059]]
    want = 15148855088513115102 & 0xFFFFFFFF
    assert seeds.selfhash(ids, KEY.value, seeds.KGW_TABLE_SEED).tolist() == [want]


@pytest.mark.parametrize("seed", [0, 1, 15_485_863, 2**32 - 1])
@pytest.mark.parametrize("n", [1, 2, 10, 623, 625, 32_001])
def test_permutations_are_pytorchs(seed: int, n: int) -> None:
    want = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).numpy()
    given = np.array([seed], np.uint32)
    np.testing.assert_array_equal(first_entries(given, n, n)[0], want)
    some = max(1, n // 3)
    tokens = np.arange(n, dtype=np.uint32)
    np.testing.assert_array_equal(
        are_among_first(np.repeat(given, n), n, some, tokens), np.isin(tokens, want[:some])
    )


@pytest.mark.parametrize("name", sorted(COMPAT_SCHEMES))
def test_mask_membership_and_bias_agree(name: str) -> None:
    rng, size = np.random.default_rng(0), 300
    scheme = compat(name, vocab_size=size)
    contexts = rng.integers(0, size, (7, scheme.context_width))
    contexts[3] = contexts[0]  # a context that comes back
    masks = scheme.green_masks(contexts)
    for row, context in enumerate(contexts):
        repeated = np.broadcast_to(context, (size, context.size))
        np.testing.assert_array_equal(scheme.are_green(repeated, np.arange(size)), masks[row])
    logits = rng.standard_normal((7, size + 5)).astype(np.float32)
    deltas = np.arange(7, dtype=np.float32)
    out = scheme.add_bias(logits, contexts, deltas, out=np.empty_like(logits))
    candidates = COMPAT_SCHEMES[name].candidates
    if candidates:  # only the likeliest are biased
        order = np.argsort(-logits[:, :size], axis=1)[:, candidates:]
        np.put_along_axis(masks, order, False, axis=1)
    want = logits.copy()
    want[:, :size] += np.where(masks, deltas[:, None], np.float32(0))
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(scheme.add_bias(logits, contexts, deltas), want)  # in place


def test_lists_have_exactly_their_size() -> None:
    masks = compat("kgw-minhash").green_masks(np.arange(12).reshape(3, 4))
    assert masks.sum(axis=1).tolist() == [SIZE] * 3


@pytest.mark.parametrize(
    ("name", "width"), [("kgw-lefthash", 2), ("hf-lefthash", 0), ("kgw-minhash", 0)]
)
def test_widths_that_a_scheme_does_not_have(name: str, width: int) -> None:
    with pytest.raises(InvalidInput, match=f"context_width of {name} must be 1"):
        compat(name, width)


def test_tokens_outside_the_list_have_no_colour() -> None:
    with pytest.raises(InvalidInput, match="below vocab_size = 50257; got 50257"):
        compat("hf-lefthash").are_green([[1]], [VOCAB])
    assert compat("hf-lefthash").are_green(np.zeros((0, 1), int), []).shape == (0,)
