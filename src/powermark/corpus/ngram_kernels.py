"""The loops over n-grams, as machine code (Numba): their hashes, and MinHash of documents."""

from __future__ import annotations

import numpy as np
from numba import njit

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_STIR = np.uint32(0x85EBCA6B)


@njit
def _gram(ids, last, width):
    """32 bits of the ``width`` ids that end at ``last``; public, and nothing to do with a key."""
    mixed = np.uint64(width)
    for i in range(last - width + 1, last + 1):
        mixed = (mixed ^ np.uint64(ids[i])) * _SPREAD
        mixed ^= mixed >> _HALF
    return np.uint32(mixed)


@njit(cache=True, nogil=True)
def grams(ids, width):
    """The hash of each n-gram of one document, in order."""
    found = np.empty(max(ids.shape[0] - width + 1, 0), np.uint32)
    for i in range(found.shape[0]):
        found[i] = _gram(ids, i + width - 1, width)
    return found


@njit(cache=True, nogil=True)
def minima(ids, offsets, width, salts, factors):
    """MinHash: a byte of the least hash of a document's n-grams under each of some hashes."""
    lanes = salts.shape[0]
    found = np.empty((offsets.shape[0] - 1, lanes), np.uint8)
    least = np.empty(lanes, np.uint32)
    for text in range(found.shape[0]):
        least[:] = np.uint32(0xFFFFFFFF)
        for last in range(offsets[text] + width - 1, offsets[text + 1]):
            gram = _gram(ids, last, width)
            for lane in range(lanes):
                value = np.uint32((gram ^ salts[lane]) * factors[lane])
                least[lane] = min(least[lane], value)
        for lane in range(lanes):
            value = np.uint32(least[lane] * _STIR)
            found[text, lane] = np.uint8(
                np.uint32(value ^ (value >> np.uint32(15))) >> np.uint32(7)
            )
    return found
