"""Scheme ``pm1`` on tensors: the bits of :mod:`powermark.watermark.hashing` on any device.

Nothing leaves the device and nothing loops over the vocabulary or the batch: a handful of
elementwise kernels. PyTorch has no full set of unsigned operations, so words are signed here:
sums and products wrap to the same bits, shifts to the right are masked, and unsigned ``<`` is
signed ``<`` after flipping the top bit.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from powermark.watermark.hashing import FIRST, INITIAL, SECOND, THIRD, sip_rounds
from powermark.watermark.scheme import Pm1, Scheme

_HOST = "cpu"  # where the compiled core can reach tensors


def on_device(scheme: Scheme, logits: Tensor) -> bool:
    """Whether the bias is computed where the logits are; otherwise on the host.

    The compiled core reads tensors of the host; other tools' lists are drawn there.
    """
    return isinstance(scheme, Pm1) and logits.device.type != _HOST


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
    if on_device(scheme, logits):
        biases = _biases(cast(Pm1, scheme), contexts, deltas)
        logits[:, : scheme.vocab_size].index_add_(0, rows, biases)
    elif logits.device.type == _HOST:
        # rows without a bias are skipped by the compiled core, so none is copied
        all_contexts = np.zeros((logits.shape[0], scheme.context_width), np.int64)
        all_deltas = np.zeros(logits.shape[0], np.float32)
        places = rows.numpy()
        all_contexts[places], all_deltas[places] = contexts.numpy(), deltas.numpy()
        scheme.add_bias(logits.detach().numpy(), all_contexts, all_deltas)
    else:
        logits[rows] = with_bias(scheme, logits[rows], contexts, deltas)


def with_bias(
    scheme: Scheme, logits: Tensor, contexts: Tensor, deltas: Tensor | ArrayLike
) -> Tensor:
    """Return the logits with each row's bias on its green tokens; the input is left alone.

    Types other than float32 are widened and rounded once; nothing waits for the device.

    Parameters
    ----------
    logits, contexts
        (rows, width) and (rows, context_width).
    deltas
        One bias per row, or one for all.
    """
    if on_device(scheme, logits):
        marked = logits.to(torch.float32, copy=True)
        biases = torch.as_tensor(deltas, dtype=torch.float32).to(logits.device)
        marked[:, : scheme.vocab_size] += _biases(cast(Pm1, scheme), contexts, biases)
    else:
        plain = logits.detach().to("cpu", torch.float32)
        marked = torch.empty_like(plain, memory_format=torch.contiguous_format)
        if isinstance(deltas, Tensor):
            deltas = deltas.cpu().numpy()
        ids = contexts.cpu().numpy()
        scheme.add_bias(plain.contiguous().numpy(), ids, deltas, out=marked.numpy())
    return marked.to(logits.device, logits.dtype)


def _biases(scheme: Pm1, contexts: Tensor, deltas: Tensor) -> Tensor:
    """Return what is added to each token id; (rows, h), (rows,) or () -> (rows, vocab_size)."""
    return torch.where(green_masks(scheme, contexts), deltas.unsqueeze(-1), 0.0)


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
