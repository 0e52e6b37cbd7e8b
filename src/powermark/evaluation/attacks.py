"""What readers do to texts before they are tested, on token ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def substitute(
    texts: Sequence[Sequence[int]], edit_rate: float, *, seed: int
) -> list[NDArray[np.int64]]:
    """Replace each token, with probability ``edit_rate``, by one that stands elsewhere.

    The new tokens are drawn from all texts given, so common ones come up as often as they do in
    such text; a token is never replaced by itself.
    """
    rng = np.random.default_rng(seed)
    pool = np.concatenate([np.zeros(0, np.int64), *(np.asarray(t, np.int64) for t in texts)])
    edited = []
    for text in texts:
        ids = np.array(text, np.int64)
        chosen = np.flatnonzero(rng.random(ids.size) < edit_rate)
        for place in chosen:
            others = pool[pool != ids[place]]
            if others.size:
                ids[place] = rng.choice(others)
        edited.append(ids)
    return edited


def replace_block(
    texts: Sequence[Sequence[int]], size: int, within: int, *, seed: int
) -> list[NDArray[np.int64]]:
    """Replace ``size`` tokens in a row, among the first ``within``, by those of another text.

    They are put in backwards, so that no marked pair of the other text comes along.
    """
    rng = np.random.default_rng(seed)
    edited = []
    for number, text in enumerate(texts):
        ids, other = np.array(text, np.int64), np.array(texts[number - 1], np.int64)
        room = min(within, ids.size)
        taken = min(size, room, other.size)
        first = int(rng.integers(0, room - taken + 1))
        ids[first : first + taken] = other[::-1][:taken]
        edited.append(ids)
    return edited
