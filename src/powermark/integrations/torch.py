"""Scheme ``pm1`` on tensors: the bits of :mod:`powermark.watermark.hashing` on any device.

Nothing leaves the device and nothing loops over the vocabulary or the batch: a handful of
elementwise kernels. PyTorch has no full set of unsigned operations, so words are signed here:
sums and products wrap to the same bits, shifts to the right are masked, and unsigned ``<`` is
signed ``<`` after flipping the top bit.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from powermark.watermark.greenlist import Pm1
from powermark.watermark.hashing import FIRST, INITIAL, SECOND, THIRD, sip_rounds
from powermark.watermark.scheme import Scheme

_HOST = "cpu"  # where the compiled core can reach tensors


def add_bias(
    scheme: Scheme, logits: Tensor, rows: Tensor, contexts: Tensor, deltas: Tensor
) -> None:
    """Add each row's bias to its green logits, in place; other rows are left alone.

    Parameters
    ----------
    logits
        (batch, width), float32.
    rows, contexts, deltas
        (n,), (n, context_width) and (n,): the rows to mark.
    """
    size = scheme.vocab_size
    if logits.device.type == _HOST:
        # rows without a bias are skipped by the compiled core, so none is copied
        all_contexts = np.zeros((logits.shape[0], scheme.context_width), np.int64)
        all_deltas = np.zeros(logits.shape[0], np.float32)
        places = rows.numpy()
        all_contexts[places], all_deltas[places] = contexts.numpy(), deltas.numpy()
        scheme.add_bias(logits.detach().numpy(), all_contexts, all_deltas)
    elif isinstance(scheme, Pm1):
        biases = torch.where(green_masks(scheme, contexts), deltas.unsqueeze(-1), 0.0)
        logits[:, :size].index_add_(0, rows, biases)
    else:  # another tool's lists are drawn on the host
        some = logits[rows].cpu().contiguous()
        scheme.add_bias(some.numpy(), contexts.cpu().numpy(), deltas.cpu().numpy())
        logits[rows] = some.to(logits.device)


def green_masks(scheme: Pm1, contexts: Tensor) -> Tensor:
    """Return the green list of each context; (rows, h) -> (rows, vocab_size) bool."""
    tokens = torch.arange(scheme.vocab_size, dtype=torch.int32, device=contexts.device)
    return are_green(scheme, contexts.unsqueeze(-2), tokens)


def are_green(scheme: Pm1, contexts: Tensor, tokens: Tensor) -> Tensor:
    """Whether each token is green after its context; (..., h), (...) broadcast together."""
    bits = mix(siphash(scheme.siphash_key, contexts), tokens)
    return bits.bitwise_xor_(-(2**31)) < int(scheme.threshold) - 2**31


def siphash(key: tuple[int, int], contexts: Tensor) -> Tensor:
    """SipHash-2-4 of each row of token ids; (..., h) -> (...) int64."""
    ids = contexts.to(torch.int64)
    pairs, odd = divmod(ids.shape[-1], 2)
    words = [ids[..., 2 * i] | ids[..., 2 * i + 1] << 32 for i in range(pairs)]
    tail = torch.full(
        ids.shape[:-1], _signed((4 * ids.shape[-1] % 256) << 56, 64), device=ids.device
    )
    words.append(tail | ids[..., -1] if odd else tail)
    v = [torch.full_like(tail, _signed(i ^ k, 64)) for i, k in zip(INITIAL, key * 2, strict=True)]
    for word in words:
        v[3] = v[3] ^ word
        v = sip_rounds(v, 2, _rotate)
        v[0] = v[0] ^ word
    v[2] = v[2] ^ 0xFF
    v = sip_rounds(v, 4, _rotate)
    seeds: Tensor = v[0] ^ v[1] ^ v[2] ^ v[3]
    return seeds


def _rotate(x: Tensor, bits: int) -> Tensor:
    return x << bits | (x >> 64 - bits) & ((1 << bits) - 1)


def mix(seeds: Tensor, tokens: Tensor) -> Tensor:
    """Mix a context's seed with a token into 32 uniform bits, elementwise, as int32."""
    low, high = _word(seeds), _word(seeds >> 32)
    x = (_word(tokens) ^ low).mul_(_signed(FIRST, 32))
    x = x.bitwise_xor_(_shift(x, 15)).add_(high)
    x = x.bitwise_xor_(_shift(x, 16)).mul_(_signed(SECOND, 32))
    x = x.bitwise_xor_(_shift(x, 13)).mul_(_signed(THIRD, 32))
    return x.bitwise_xor_(_shift(x, 16))


def _word(x: Tensor) -> Tensor:
    """Return the low 32 bits as int32."""
    return x if x.dtype == torch.int32 else ((x & 0xFFFFFFFF) ^ 2**31).sub_(2**31).to(torch.int32)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Shift an int32 right with zeros coming in."""
    return (x >> bits).bitwise_and_((1 << 32 - bits) - 1)


def _signed(value: int, bits: int) -> int:
    """Return the signed number with these bits."""
    return value - (1 << bits) if value >> bits - 1 else value
