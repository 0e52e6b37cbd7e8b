"""The n-grams of many texts at once, as numbers to count and compare."""

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
    """Return the text and the place in it of each id, for ids that lie end to end."""
    text = np.repeat(np.arange(lengths.size), lengths)
    return text, np.arange(text.size) - (np.cumsum(lengths) - lengths)[text]


def ngrams(texts: Sequence[ArrayLike], width: int) -> tuple[Ids, Ids]:
    """Return a number for each n-gram, equal for equal n-grams, and the text that it is in.

    The ids are folded in one by one and renumbered each time, so that nothing overflows and
    one-dimensional sorts suffice.
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
    """Share of distinct n-grams among each text's n-grams; nan for texts without any."""
    code, text = ngrams(texts, width)
    span = int(code.max(initial=0)) + 1
    different = np.unique(text * span + code) // span
    return _shares(np.bincount(different, minlength=len(texts)), text, len(texts))


def common_share(texts: Sequence[ArrayLike], originals: Sequence[ArrayLike], width: int) -> Array:
    """Share of each text's distinct n-grams that its original also has; nan without any."""
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
