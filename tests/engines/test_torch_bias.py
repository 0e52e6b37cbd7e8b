"""One call marks some rows of a batch, wherever its tensors are."""

import pytest
import torch

from powermark.engines import torch as tensors
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.scheme import Scheme
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

VOCAB, WIDTH = 300, 310


def schemes() -> list[Scheme]:
    ours = WatermarkSpec(gamma=0.5, delta=2.0, context_width=2, vocab_size=VOCAB)
    theirs = WatermarkSpec(
        scheme="kgw-minhash", gamma=0.5, delta=2.0, context_width=2, vocab_size=VOCAB
    )
    return [
        Watermark(ours, SecretKey(bytes(range(32)))).scheme,
        Watermark(theirs, HashKey()).scheme,
    ]


@pytest.mark.parametrize("scheme", schemes(), ids=["pm1", "kgw-minhash"])
def test_the_same_bits_on_the_host_and_elsewhere(
    scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other device is at hand, so the host is called one: the path is that of a GPU."""
    rows, contexts = torch.tensor([3, 0]), torch.tensor([[1, 2], [3, 4]])
    deltas = torch.tensor([2.0, 0.5])
    before = torch.randn((4, WIDTH), generator=torch.Generator().manual_seed(0))
    here = before.clone()
    tensors.add_bias(scheme, here, rows, contexts, deltas)
    assert torch.equal(here[1:3], before[1:3])
    added = here[[3, 0], :VOCAB] - before[[3, 0], :VOCAB]
    green = torch.from_numpy(scheme.green_masks(contexts.numpy()))
    torch.testing.assert_close(added, green * deltas[:, None], atol=1e-6, rtol=0)
    assert torch.equal(here[:, VOCAB:], before[:, VOCAB:])
    monkeypatch.setattr(tensors, "_HOST", "another")
    there = before.clone()
    tensors.add_bias(scheme, there, rows, contexts, deltas)
    assert torch.equal(there, here)
