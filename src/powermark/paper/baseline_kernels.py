"""Sums over rows of logits, as machine code: no array of a batch's size is made on the way."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def surprises(logits, green, out, first, last):
    """Green mass, and the sums of -p log p over green and over red tokens, of rows."""
    for row in range(first, last):
        most = -np.inf
        for token in range(logits.shape[1]):
            most = max(most, np.float64(logits[row, token]))
        total = 0.0
        mass = np.zeros(2)  # red, green; of exp(logit - most)
        moment = np.zeros(2)
        for token in range(logits.shape[1]):
            x = np.float64(logits[row, token]) - most
            weight = np.exp(x)
            total += weight
            if weight > 0.0:
                colour = 1 if green[row, token] else 0
                mass[colour] += weight
                moment[colour] += weight * x
        out[row, 0] = mass[1] / total
        out[row, 1] = (mass[1] * np.log(total) - moment[1]) / total
        out[row, 2] = (mass[0] * np.log(total) - moment[0]) / total
