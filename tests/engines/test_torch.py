"""Tensors get the bits of the NumPy reference and of the compiled core."""

import numpy as np
import pytest
import torch

from powermark.engines import torch as tensors
from powermark.watermark import hashing
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Pm1, threshold


@pytest.mark.parametrize("h", [0, 1, 2, 3, 4, 9])
def test_three_implementations_agree_on_every_bit(h: int) -> None:
    """One million (key, context, token, gamma) over all context widths."""
    rng = np.random.default_rng(100 + h)
    keys, rows = 42, 1_000_000 // 6 // 42 + 1
    for _ in range(keys):
        key, gamma = SecretKey(rng.bytes(32)), float(rng.uniform(0.001, 0.999))
        contexts, tokens = rng.integers(0, 2**32, (rows, h)), rng.integers(0, 2**32, rows)
        scheme = Pm1(key, gamma=gamma, vocab_size=100, context_width=h)
        seeds = hashing.siphash(key.siphash_key, contexts)
        bits = hashing.mix(seeds, tokens)
        ids = torch.from_numpy(contexts), torch.from_numpy(tokens)
        got = tensors.siphash(key.siphash_key, ids[0])
        np.testing.assert_array_equal(got.numpy().view(np.uint64), seeds)
        np.testing.assert_array_equal(tensors.mix(got, ids[1]).numpy().view(np.uint32), bits)
        want = bits < threshold(gamma)
        np.testing.assert_array_equal(tensors.are_green(scheme, *ids).numpy(), want)
        np.testing.assert_array_equal(scheme.are_green(contexts, tokens), want)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_whole_lists_agree(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    for gamma in (0.01, 0.25, 0.942, 1 - 2**-32):
        scheme = Pm1(SecretKey(rng.bytes(32)), gamma=gamma, vocab_size=50_257, context_width=2)
        contexts = rng.integers(0, 50_257, (3, 2))
        got = tensors.green_masks(scheme, torch.tensor(contexts, dtype=dtype))
        np.testing.assert_array_equal(got.numpy(), scheme.green_masks(contexts))


def test_a_device_that_only_traces_is_never_asked_for_values() -> None:
    """On the meta device any copy to the host or loop over values would fail."""
    scheme = Pm1(SecretKey(bytes(32)), gamma=0.5, vocab_size=1000, context_width=4)
    contexts = torch.zeros((5, 4), dtype=torch.int64, device="meta")
    mask = tensors.green_masks(scheme, contexts)
    assert (mask.device.type, mask.shape, mask.dtype) == ("meta", (5, 1000), torch.bool)
