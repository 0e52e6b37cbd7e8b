"""Green lists of scheme ``pm1``: a pure function of key, context and gamma.

A token is green after a context iff its 32 mixed bits are below ``gamma * 2^32``. Membership is
O(1), independent for each (context, token), the same on every machine, and draws no list.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark.checks import count, open_unit
from powermark.errors import InvalidInput
from powermark.watermark import kernels
from powermark.watermark.hashing import Seeds, token_ids
from powermark.watermark.keys import SecretKey

Mask = NDArray[np.bool_]


def threshold(gamma: float) -> np.uint32:
    """Return ``floor(gamma * 2^32)``: the realised green share is this over 2^32, at most gamma."""
    return np.uint32(float(open_unit("gamma", gamma)) * 2.0**32)


def context_seeds(key: SecretKey, contexts: ArrayLike) -> Seeds:
    """Return the 64-bit seed of each context, a row of h token ids; (rows, h) -> (rows,)."""
    ids = token_ids("contexts", contexts)
    if ids.ndim != 2:
        raise InvalidInput(f"contexts must be rows of token ids, (rows, h); got shape {ids.shape}.")
    k0, k1 = key.siphash_key
    return np.asarray(kernels.siphash(np.uint64(k0), np.uint64(k1), np.ascontiguousarray(ids)))


def is_green(key: SecretKey, contexts: ArrayLike, tokens: ArrayLike, *, gamma: float) -> Mask:
    """Whether each token is green after its context; (rows, h), (rows,) -> (rows,)."""
    seeds, ids = context_seeds(key, contexts), token_ids("tokens", tokens)
    if ids.shape != seeds.shape:
        raise InvalidInput(
            f"tokens must be one per context, shape {seeds.shape}; got shape {ids.shape}."
        )
    return np.asarray(kernels.are_green(seeds, ids, threshold(gamma)))


def green_mask(key: SecretKey, contexts: ArrayLike, *, gamma: float, vocab_size: int) -> Mask:
    """Return the green list of each context as a mask; (rows, h) -> (rows, vocab_size)."""
    size = int(count("vocab_size", vocab_size))
    return np.asarray(kernels.green_masks(context_seeds(key, contexts), size, threshold(gamma)))


def add_bias(
    logits: NDArray[np.float32], seeds: Seeds, deltas: ArrayLike, *, gamma: float, vocab_size: int
) -> None:
    """Add a bias per row to the green logits, in place and in one pass over the vocabulary.

    Parameters
    ----------
    logits
        (rows, width), contiguous float32; width may exceed ``vocab_size`` (padded embeddings).
    seeds
        One per row, from :func:`context_seeds`.
    deltas
        One bias per row, or one for all.
    """
    if logits.ndim != 2 or logits.dtype != np.float32 or not logits.flags.c_contiguous:
        raise InvalidInput(
            f"logits must be contiguous float32 rows; got {logits.dtype}, shape {logits.shape}."
        )
    if logits.shape[0] != seeds.size or not 0 < vocab_size <= logits.shape[1]:
        raise InvalidInput(
            f"logits must have a row per seed ({seeds.size}) and at least vocab_size = "
            f"{vocab_size} columns; got shape {logits.shape}."
        )
    rows = np.ascontiguousarray(np.broadcast_to(np.asarray(deltas, np.float32), seeds.shape))
    kernels.add_bias(logits, seeds, rows, vocab_size, threshold(gamma))
