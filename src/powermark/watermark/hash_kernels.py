"""The same bits as :mod:`powermark.watermark.hashing`, as machine code (Numba).

One pass over the vocabulary hashes, compares and adds. Numba widens products of uint32 to uint64,
so each step is cast back: without it the hash differs and is slow.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from powermark.watermark.hashing import FIRST, INITIAL, SECOND, THIRD

_I0, _I1, _I2, _I3 = (np.uint64(word) for word in INITIAL)
_FIRST, _SECOND, _THIRD = np.uint32(FIRST), np.uint32(SECOND), np.uint32(THIRD)
_S13, _S15, _S16 = np.uint32(13), np.uint32(15), np.uint32(16)


@njit(inline="always")
def _rotate(x, bits):
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@njit
def _rounds(a, b, c, d, times):
    for _ in range(times):
        a += b
        b = _rotate(b, 13) ^ a
        a = _rotate(a, 32)
        c += d
        d = _rotate(d, 16) ^ c
        a += d
        d = _rotate(d, 21) ^ a
        c += b
        b = _rotate(b, 17) ^ c
        c = _rotate(c, 32)
    return a, b, c, d


@njit
def _siphash(k0, k1, ids):
    a, b, c, d = _I0 ^ k0, _I1 ^ k1, _I2 ^ k0, _I3 ^ k1
    h = ids.shape[0]
    for i in range(h // 2 + 1):
        if 2 * i + 1 < h:
            word = np.uint64(ids[2 * i]) | (np.uint64(ids[2 * i + 1]) << np.uint64(32))
        else:
            word = np.uint64(4 * h % 256) << np.uint64(56)
            if 2 * i < h:
                word |= np.uint64(ids[2 * i])
        d ^= word
        a, b, c, d = _rounds(a, b, c, d, 2)
        a ^= word
    a, b, c, d = _rounds(a, b, c ^ np.uint64(0xFF), d, 4)
    return a ^ b ^ c ^ d


@njit(inline="always")
def _mix(low, high, token):
    x = np.uint32(np.uint32(token ^ low) * _FIRST)
    x = np.uint32(np.uint32(x ^ (x >> _S15)) + high)
    x = np.uint32(np.uint32(x ^ (x >> _S16)) * _SECOND)
    x = np.uint32(np.uint32(x ^ (x >> _S13)) * _THIRD)
    return np.uint32(x ^ (x >> _S16))


@njit
def _halves(seed):
    return np.uint32(seed & np.uint64(0xFFFFFFFF)), np.uint32(seed >> np.uint64(32))


# The loops over the vocabulary are functions of their own: with the seed's halves as arguments they
# compile to vector instructions; written inside their callers they ran three times slower.
@njit
def _mask_row(mask, low, high, threshold):
    for token in range(mask.shape[0]):
        mask[token] = _mix(low, high, np.uint32(token)) < threshold


@njit
def _add_row(logits, low, high, delta, threshold):
    for token in range(logits.shape[0]):
        green = _mix(low, high, np.uint32(token)) < threshold
        logits[token] += delta if green else np.float32(0.0)


# Not _add_row on a copy: reading one array and writing another saves a pass over the row.
@njit
def _write_row(logits, out, low, high, delta, threshold):
    for token in range(logits.shape[0]):
        green = _mix(low, high, np.uint32(token)) < threshold
        out[token] = logits[token] + (delta if green else np.float32(0.0))


@njit(cache=True, nogil=True)
def siphash(k0, k1, contexts):
    """SipHash-2-4 of each row of ids; (rows, h) int64 -> (rows,) uint64, empty if one is no id."""
    seeds, ids = np.empty(contexts.shape[0], np.uint64), np.empty(contexts.shape[1], np.uint32)
    for row in range(contexts.shape[0]):
        for i in range(contexts.shape[1]):
            if not 0 <= contexts[row, i] < 1 << 32:
                return seeds[:0]
            ids[i] = contexts[row, i]
        seeds[row] = _siphash(k0, k1, ids)
    return seeds


@njit(cache=True, nogil=True)
def are_green(seeds, tokens, threshold):
    """Whether each token is green after its context; (rows,), (rows,) -> (rows,) bool."""
    green = np.empty(tokens.shape[0], np.bool_)
    for row in range(tokens.shape[0]):
        low, high = _halves(seeds[row])
        green[row] = _mix(low, high, tokens[row]) < threshold
    return green


@njit(cache=True, nogil=True)
def green_masks(seeds, vocab_size, threshold):
    """The whole green list of each context; (rows,) -> (rows, vocab_size) bool."""
    masks = np.empty((seeds.shape[0], vocab_size), np.bool_)
    for row in range(seeds.shape[0]):
        low, high = _halves(seeds[row])
        _mask_row(masks[row], low, high, threshold)
    return masks


@njit(cache=True, nogil=True)
def add_bias(logits, seeds, deltas, vocab_size, threshold, first, last):
    """Add to the green logits of rows ``first`` to ``last``; columns beyond vocab_size are left."""
    for row in range(first, last):
        if deltas[row] != np.float32(0.0):
            low, high = _halves(seeds[row])
            _add_row(logits[row, :vocab_size], low, high, deltas[row], threshold)


@njit(cache=True, nogil=True)
def write_bias(logits, out, seeds, deltas, vocab_size, threshold, first, last):
    """As :func:`add_bias`, but into ``out``; ``logits`` is only read."""
    for row in range(first, last):
        if deltas[row] != np.float32(0.0):
            low, high = _halves(seeds[row])
            _write_row(logits[row, :vocab_size], out[row], low, high, deltas[row], threshold)
            out[row, vocab_size:] = logits[row, vocab_size:]
        else:
            out[row] = logits[row]


@njit
def _measure_row(logits, marked):
    top = -np.inf
    for token in range(logits.shape[0]):
        top = max(top, logits[token])
    before, after, gain, green_before, green_after = 0.0, 0.0, 0.0, 0.0, 0.0
    for token in range(logits.shape[0]):
        mass = np.exp(np.float64(logits[token]) - top)
        if mass > 0.0:
            bias = np.float64(marked[token]) - np.float64(logits[token])
            before += mass
            if bias > 0.0:
                green_before += mass
                mass *= np.exp(bias)
                green_after += mass
                gain += mass * bias
            after += mass
    kl = gain / after - np.log(after / before)
    return kl, green_before / before, green_after / after


@njit(cache=True, nogil=True)
def measure_bias(logits, marked, out, first, last):
    """KL, green mass and green rate of rows ``first`` to ``last``, from logits before and after."""
    for row in range(first, last):
        out[row, 0], out[row, 1], out[row, 2] = _measure_row(logits[row], marked[row])
