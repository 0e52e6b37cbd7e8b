"""Recursions over the law of a count, as machine code (Numba)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit
def _add(law, chance):
    """Add a Bernoulli variable to a count, in place; what passes the last entry is dropped."""
    for count in range(law.size - 1, 0, -1):
        law[count] += chance * (law[count - 1] - law[count])
    law[0] -= chance * law[0]


@njit(cache=True)
def at_most(chances, lost, edit_rate, h, most):
    """Return P(count <= most) of each text; :func:`powermark.calibration.counts.edited_tail`.

    ``chances`` (texts, n) are those of the colour that is counted where the mark is whole, ``lost``
    where it is not. The law is kept by untouched tokens in a row, at most h, and count.
    """
    keep, out = 1.0 - edit_rate, np.empty(chances.shape[0])
    for text in range(out.size):
        law = np.zeros((h + 1, most + 1))
        for run in range(h + 1):
            law[run, 0] = keep**run * (edit_rate if run < h else 1.0)
        for chance in chances[text]:
            marked, touched = law[h].copy(), np.zeros(most + 1)
            _add(marked, chance)
            for run in range(h + 1):
                _add(law[run], lost)
                touched += law[run]
            for run in range(h, 0, -1):
                law[run] = keep * law[run - 1]
            law[0] = edit_rate * touched
            law[h] += keep * marked
        out[text] = law.sum()
    return out
