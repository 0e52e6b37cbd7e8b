"""How other tools turn a context into the seed of a permutation.

``last`` is the newest id of the n-gram ``grams`` (rows, ids), K the hash key, and H(a) the entry
``a mod 1,000,003`` of a table plus one. Products wrap in signed 64 bits, as PyTorch's do.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from powermark.watermark.compat.permutation import first_entries
from powermark.watermark.hashing import Words

TABLE_SIZE = 1_000_003
KGW_TABLE_SEED = 2_971_215_073  # the same for every key
Integers = NDArray[np.int64]


def lefthash(grams: Integers, key: int) -> Words:
    """``K * last``: KGW's simple_1, and HF's lefthash whatever its context_width says."""
    return _low_bits(key * grams[:, -1])


def minhash(grams: Integers, key: int) -> Words:
    """``min H(K * id)`` over the context: KGW's minhash."""
    return _low_bits(_hash(key * grams, KGW_TABLE_SEED).min(axis=1))


def selfhash(grams: Integers, key: int, table_seed: int) -> Words:
    """``min K * H(id) * H(last)``, where ``last`` is the token to be coloured."""
    anchors = _hash(grams[:, -1:], table_seed)
    return _low_bits((key * _hash(grams, table_seed) * anchors).min(axis=1))


def _hash(ids: Integers, table_seed: int) -> Integers:
    return np.asarray(_table(table_seed)[ids % TABLE_SIZE] + 1)


@lru_cache(maxsize=8)
def _table(seed: int) -> Integers:
    """Return PyTorch's random permutation of 1,000,003 numbers."""
    seeds = np.array([seed & 0xFFFFFFFF], np.uint32)
    return np.asarray(first_entries(seeds, TABLE_SIZE, TABLE_SIZE)[0].astype(np.int64))


def _low_bits(values: Integers) -> Words:
    """Return the low 32 bits, all that PyTorch's CPU generator takes, of ``value mod 2^64 - 1``."""
    shifted = values.astype(np.uint64) - (values < 0).astype(np.uint64)
    return (shifted & np.uint64(0xFFFFFFFF)).astype(np.uint32)
