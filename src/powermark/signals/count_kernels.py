"""The law of the count of edited texts, as machine code (Numba)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit
def _add(law, chance):
    """Add a Bernoulli variable to a count, in place; mass beyond the last entry is dropped."""
    for count in range(law.size - 1, 0, -1):
        law[count] += chance * (law[count - 1] - law[count])
    law[0] -= chance * law[0]


@njit
def _next_token(law, chance, lost, edit_rate):
    """Move the law ``law[run, count]`` past one token, in place."""
    h, keep = law.shape[0] - 1, 1.0 - edit_rate
    marked, touched = law[h].copy(), np.zeros(law.shape[1])
    _add(marked, chance)
    for run in range(h + 1):
        _add(law[run], lost)
        touched += law[run]
    for run in range(h, 0, -1):
        law[run] = keep * law[run - 1]
    law[0] = edit_rate * touched
    law[h] += keep * marked


@njit(cache=True, nogil=True)
def at_most(chances, lost, edit_rate, h, most):
    """Return P(count <= most) of each text; :func:`powermark.signals.counts.edited_tail`.

    ``chances`` (texts, n) are the probabilities of the counted colour where the mark is intact,
    ``lost`` is the probability where it is not. A state is a pair (run, count): ``run`` untouched
    tokens in a row, at most h, and the count so far.
    """
    keep, out = 1.0 - edit_rate, np.empty(chances.shape[0])
    for text in range(out.size):
        law = np.zeros((h + 1, most + 1))
        for run in range(h + 1):
            law[run, 0] = keep**run * (edit_rate if run < h else 1.0)
        for chance in chances[text]:
            _next_token(law, chance, lost, edit_rate)
        out[text] = law.sum()
    return out


@njit(cache=True, nogil=True)
def at_least_by_length(chances, lost, edit_rate, h, needed):
    """Return P(count >= needed[n - 1]) after n = 1, 2, ... tokens of each text; (texts, tokens).

    One pass over a text serves all its lengths. States and probabilities are those of at_most.
    """
    keep, tokens = 1.0 - edit_rate, chances.shape[1]
    out = np.zeros(chances.shape)
    for text in range(chances.shape[0]):
        law = np.zeros((h + 1, tokens + 1))
        for run in range(h + 1):
            law[run, 0] = keep**run * (edit_rate if run < h else 1.0)
        for place in range(tokens):
            _next_token(law[:, : place + 2], chances[text, place], lost, edit_rate)
            if needed[place] <= place + 1:
                out[text, place] = law[:, needed[place] : place + 2].sum()
    return out
