"""The e-process under any mark, token by token, as machine code (Numba)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def crossing(rates, needed, gamma, edit_rate, h):
    """Return P(greens >= needed[t] after some t tokens) of each text.

    ``rates`` (texts, n) are the green rates where the mark is whole; elsewhere it is ``gamma``.
    ``needed`` (n+1,) rises by 0 or 1 a token. The law is kept by untouched tokens in a row, at most
    h, and greens; a text that has crossed leaves it, and so does one that cannot cross any more.
    """
    n, last = rates.shape[1], needed[-1]
    keep, found, here = 1.0 - edit_rate, np.zeros(rates.shape[0]), np.zeros(h + 1)
    for text in range(found.size):
        law = np.zeros((h + 1, last + 1))
        for run in range(h + 1):
            law[run, 0] = keep**run * (edit_rate if run < h else 1.0)
        for t in range(n):
            chance = rates[text, t]
            # downwards: greens that were added are not met again
            for s in range(min(t, needed[t] - 1), max(0, last - n + t) - 1, -1):
                total = 0.0
                for run in range(h + 1):
                    here[run] = law[run, s]
                    total += here[run]
                    law[run, s] = 0.0
                whole, touched = keep * here[h], edit_rate * total
                law[h, s + 1] += chance * whole
                law[h, s] += (1.0 - chance) * whole
                law[0, s + 1] += gamma * touched
                law[0, s] += (1.0 - gamma) * touched
                for run in range(h):
                    law[run + 1, s + 1] += gamma * keep * here[run]
                    law[run + 1, s] += (1.0 - gamma) * keep * here[run]
            if needed[t + 1] <= t + 1:
                for run in range(h + 1):
                    found[text] += law[run, needed[t + 1]]
                    law[run, needed[t + 1]] = 0.0
    return found


@njit
def _advance(law, t, n, chance, needed):
    """Add a token to texts that are whole, in place; returns the share that crosses with it."""
    for s in range(min(t, needed[t] - 1), max(0, needed[-1] - n + t) - 1, -1):
        moved = chance * law[s]
        law[s] -= moved
        law[s + 1] += moved
    if needed[t + 1] > t + 1:
        return 0.0
    crossed = law[needed[t + 1]]
    law[needed[t + 1]] = 0.0
    return crossed


@njit(cache=True, nogil=True)
def crossing_with_block(rates, needed, gamma, block, lost):
    """Return the same where a block at a uniform place is foreign: the mean over its places.

    ``lost`` tokens from the block's first on have lost the mark. The law is followed up to each
    place and through the block; ``hope`` is the probability of crossing after it.
    """
    texts, n = rates.shape
    found, places, last = np.zeros(texts), n - block + 1, needed[-1]
    for text in range(texts):
        hope = np.zeros((n + 1, last + 1))
        for t in range(n - 1, -1, -1):
            chance = rates[text, t]
            for s in range(max(0, last - n + t), min(t, needed[t] - 1) + 1):
                green = 1.0 if s + 1 >= needed[t + 1] else hope[t + 1, s + 1]
                hope[t, s] = chance * green + (1.0 - chance) * hope[t + 1, s]
        before, crossed = np.zeros(last + 1), 0.0
        before[0] = 1.0
        for start in range(places):
            law, end = before.copy(), min(start + lost, n)
            found[text] += crossed
            for t in range(start, end):
                found[text] += _advance(law, t, n, gamma, needed)
            found[text] += (law * hope[end]).sum()
            if start < n:
                crossed += _advance(before, start, n, rates[text, start], needed)
    return found / places
