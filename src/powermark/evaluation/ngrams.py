"""The n-grams of many texts at once, as numbers that can be counted and compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark.checks import Array, count

Ids = NDArray[np.int64]


def flattened(texts: Sequence[ArrayLike]) -> tuple[Ids, Ids]:
    """Return all ids end to end, as a copy, and the length of each text."""
    rows = [np.asarray(text, np.int64) for text in texts]
    return np.concatenate([np.zeros(0, np.int64), *rows]), np.array([r.size for r in rows], int)


def places(lengths: Ids) -> tuple[Ids, Ids]:
    """Return, for ids that lie end to end, the text that each is in and its place there."""
    text = np.repeat(np.arange(lengths.size), lengths)
    return text, np.arange(text.size) - (np.cumsum(lengths) - lengths)[text]


def ngrams(texts: Sequence[ArrayLike], width: int) -> tuple[Ids, Ids]:
    """Return a number for each n-gram, equal where all ids are, and the text that it is in.

    The ids are folded in one after the other and numbered anew each time, so that nothing can
    overflow and one-dimensional sorts do.
    """
    ids, lengths = flattened(texts)
    text, place = places(lengths)
    first = np.flatnonzero(place <= lengths[text] - int(count("width", width)))
    values, ranks = np.unique(ids, return_inverse=True)
    code = np.zeros(first.size, np.int64)
    for k in range(width):
        code = np.unique(code * values.size + ranks[first + k], return_inverse=True)[1]
    return code, text[first]


def distinct_share(texts: Sequence[ArrayLike], width: int) -> Array:
    """Share of each text's n-grams that are different ones; nan where it has none."""
    code, text = ngrams(texts, width)
    span = int(code.max(initial=0)) + 1
    different = np.unique(text * span + code) // span
    return _shares(np.bincount(different, minlength=len(texts)), text, len(texts))


def common_share(texts: Sequence[ArrayLike], originals: Sequence[ArrayLike], width: int) -> Array:
    """Share of each text's different n-grams that its original has too; nan where it has none."""
    m = len(texts)
    code, text = ngrams([*texts, *originals], width)
    span = int(code.max(initial=0)) + 1
    mine = text < m
    own = np.unique(text[mine] * span + code[mine])
    kept = np.isin(own, (text[~mine] - m) * span + code[~mine])
    return _shares(np.bincount(own[kept] // span, minlength=m), own // span, m)


def _shares(some: Ids, text: Ids, m: int) -> Array:
    every = np.bincount(text, minlength=m)
    return np.where(every > 0, some / np.maximum(every, 1), np.nan)
