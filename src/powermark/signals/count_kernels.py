"""The law of the count of edited texts, as machine code (Numba).

A state is a pair (run, count): ``run`` untouched tokens in a row, at most h, and the count so far.
Counts whose probability is below 2^-60 at either end are dropped, so that of n counts about
sqrt(n) are kept; in n tokens less than ``n 2^-59`` is lost.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_TINY = 2.0**-60
_EDGE = 1  # empty entries before count 0, and two after the largest


@njit
def _start(law, edit_rate):
    """Put all mass on count 0, by the tokens before the first."""
    h = law.shape[0] - 1
    law[:] = 0.0
    for run in range(h + 1):
        law[run, _EDGE] = (1.0 - edit_rate) ** run * (edit_rate if run < h else 1.0)


@njit
def _next_token(law, after, low, high, chance, lost, edit_rate):
    """Move the law of the counts low..high past one token, to ``after`` at low..high+1."""
    h, keep = law.shape[0] - 1, 1.0 - edit_rate
    begin, end = low + _EDGE, high + _EDGE + 2
    after[:, begin - 1] = 0.0
    after[:, end] = 0.0
    touched = after[0, begin:end]
    touched[:] = 0.0
    for run in range(h):
        here, below, there = law[run, begin:end], law[run, begin - 1 : end - 1], after[run + 1]
        there = there[begin:end]
        for i in range(end - begin):
            moved = here[i] + lost * (below[i] - here[i])
            touched[i] += edit_rate * moved
            there[i] = keep * moved
    here, below, there = law[h, begin:end], law[h, begin - 1 : end - 1], after[h, begin:end]
    for i in range(end - begin):
        rise = below[i] - here[i]
        touched[i] += edit_rate * (here[i] + lost * rise)
        there[i] += keep * (here[i] + chance * rise)


@njit
def _trim(law, low, high):
    """Empty the outer counts of negligible probability; return the first and the last left."""
    while low < high and law[:, low + _EDGE].sum() < _TINY:
        law[:, low + _EDGE] = 0.0
        low += 1
    while low < high and law[:, high + _EDGE].sum() < _TINY:
        law[:, high + _EDGE] = 0.0
        high -= 1
    return low, high


@njit(cache=True, nogil=True)
def at_most(chances, lost, edit_rate, h, most):
    """Return P(count <= most) of each text; :func:`powermark.signals.counts.edited_tail`.

    ``chances`` (texts, n) are the probabilities of the counted colour where the mark is intact,
    ``lost`` is the probability where it is not.
    """
    out = np.empty(chances.shape[0])
    law, after = np.zeros((h + 1, most + 4)), np.zeros((h + 1, most + 4))
    for text in range(out.size):
        _start(law, edit_rate)
        low = high = 0
        for chance in chances[text]:
            _next_token(law, after, low, high, chance, lost, edit_rate)
            law, after = after, law
            high += 1
            if high > most:
                law[:, high + _EDGE] = 0.0
                high = most
            low, high = _trim(law, low, high)
        out[text] = law[:, low + _EDGE : high + _EDGE + 1].sum()
    return out


@njit(cache=True, nogil=True)
def at_least_by_length(chances, lost, edit_rate, h, needed):
    """Return P(count >= needed[n - 1]) after n = 1, 2, ... tokens of each text; (texts, tokens).

    One pass over a text serves all its lengths.
    """
    tokens = chances.shape[1]
    out = np.zeros(chances.shape)
    law, after = np.zeros((h + 1, tokens + 4)), np.zeros((h + 1, tokens + 4))
    for text in range(chances.shape[0]):
        _start(law, edit_rate)
        low = high = 0
        for place in range(tokens):
            _next_token(law, after, low, high, chances[text, place], lost, edit_rate)
            law, after = after, law
            low, high = _trim(law, low, high + 1)
            first = max(low, needed[place])
            out[text, place] = law[:, first + _EDGE : high + _EDGE + 1].sum()
    return out
