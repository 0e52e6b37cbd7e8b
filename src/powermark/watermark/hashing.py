"""The only pseudo-random function of scheme ``pm1``: a keyed hash of context and token.

    seed64 = SipHash-2-4(key128, the last h token ids as little-endian uint32)
    u32    = mix(seed64, token)

SipHash (Aumasson and Bernstein, 2012) is a pseudo-random function: without the key a context says
nothing about its seed. It runs once per context; the cheap 32-bit mixer runs once per candidate
token. This file is the readable NumPy reference; :mod:`powermark.watermark.hash_kernels` computes
the same bits fast. The definition is frozen: what ``pm1`` means never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark.checks import token_ids

Seeds = NDArray[np.uint64]
Words = NDArray[np.uint32]

# "somepseudorandomlygeneratedbytes", SipHash's initial state
INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
# mixer multipliers: the golden ratio (first round) and MurmurHash3's finaliser (second and third)
FIRST, SECOND, THIRD = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35


@np.errstate(over="ignore")  # arithmetic modulo 2^64 is meant
def siphash(key: tuple[int, int], contexts: ArrayLike) -> Seeds:
    """SipHash-2-4 of each row of token ids; (..., h) -> (...).

    Two ids fill one 64-bit word, the first in its low half; the last word carries an odd id left
    over and, in its top byte, the message length in bytes.
    """
    ids = token_ids("contexts", contexts).astype(np.uint64)
    pairs, odd = divmod(ids.shape[-1], 2)
    words = [ids[..., 2 * i] | ids[..., 2 * i + 1] << np.uint64(32) for i in range(pairs)]
    tail = np.full(ids.shape[:-1], (4 * ids.shape[-1] % 256) << 56, dtype=np.uint64)
    words.append(tail | ids[..., -1] if odd else tail)
    k0, k1 = key
    v = [
        np.full(ids.shape[:-1], i ^ k, np.uint64)
        for i, k in zip(INITIAL, (k0, k1) * 2, strict=True)
    ]
    for word in words:
        v[3] = v[3] ^ word
        v = sip_rounds(v, 2, _rotate)
        v[0] = v[0] ^ word
    v[2] = v[2] ^ np.uint64(0xFF)
    v = sip_rounds(v, 4, _rotate)
    return np.asarray(v[0] ^ v[1] ^ v[2] ^ v[3])


def sip_rounds(v: list[Any], times: int, rotate: Callable[[Any, int], Any]) -> list[Any]:
    """SipRounds: additions, rotations and exclusive ors on four 64-bit lanes, arrays or tensors."""
    a, b, c, d = v
    for _ in range(times):
        a = a + b
        b = rotate(b, 13) ^ a
        a = rotate(a, 32)
        c = c + d
        d = rotate(d, 16) ^ c
        a = a + d
        d = rotate(d, 21) ^ a
        c = c + b
        b = rotate(b, 17) ^ c
        c = rotate(c, 32)
    return [a, b, c, d]


def _rotate(x: Seeds, bits: int) -> Seeds:
    return np.asarray(x << np.uint64(bits) | x >> np.uint64(64 - bits))


@np.errstate(over="ignore")  # arithmetic modulo 2^32 is meant
def mix(seeds: Seeds, tokens: ArrayLike) -> Words:
    """Mix a context's seed with a token into 32 uniform bits, elementwise.

    Three multiplications; the low half of the seed enters before the first, the high half before
    the second, so that all 64 bits choose the list.
    """
    low = (seeds & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (seeds >> np.uint64(32)).astype(np.uint32)
    x = (token_ids("tokens", tokens) ^ low) * np.uint32(FIRST)
    x = (x ^ (x >> np.uint32(15))) + high
    x = (x ^ (x >> np.uint32(16))) * np.uint32(SECOND)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(THIRD)
    return np.asarray(x ^ (x >> np.uint32(16)))
