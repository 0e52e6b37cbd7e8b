"""``torch.randperm(n)`` on a CPU after ``manual_seed(seed)``, its first entries only (Numba).

PyTorch shuffles forwards: step i swaps entries i and ``i + u_i mod (n - i)``, where u_i is the next
output of the Mersenne Twister (Matsumoto and Nishimura, 1998) seeded with the low 32 bits. The
first k entries are settled after k steps, so a green list needs k draws, and the colour of one
token only asks where k swaps carry it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_N, _M = 624, 397  # the twister's words, and the distance it mixes over
_UPPER, _LOWER, _MATRIX = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)
_SEEDING = np.uint32(1812433253)
_B, _C = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
_ONE = np.uint32(1)


@njit
def _seed(state, seed):
    state[0] = seed
    for i in range(1, _N):
        x = state[i - 1] ^ (state[i - 1] >> np.uint32(30))
        state[i] = np.uint32(np.uint32(x * _SEEDING) + np.uint32(i))


@njit
def _twist(state):
    for i in range(_N):
        x = (state[i] & _UPPER) | (state[(i + 1) % _N] & _LOWER)
        odd = _MATRIX if x & _ONE else np.uint32(0)
        state[i] = state[(i + _M) % _N] ^ (x >> _ONE) ^ odd


@njit
def _temper(x):
    x ^= x >> np.uint32(11)
    x ^= np.uint32(x << np.uint32(7)) & _B
    x ^= np.uint32(x << np.uint32(15)) & _C
    return x ^ (x >> np.uint32(18))


@njit
def _targets(state, seed, n, targets):
    """Write the entry that each step swaps with its own."""
    _seed(state, seed)
    for i in range(targets.shape[0]):
        if i % _N == 0:
            _twist(state)
        targets[i] = i + _temper(state[i % _N]) % np.uint32(n - i)


@njit
def _swap(entries, targets):
    for i in range(targets.shape[0]):
        entries[i], entries[targets[i]] = entries[targets[i]], entries[i]


@njit(cache=True, nogil=True)
def first_entries(seeds, n, size):
    """The first ``size`` entries of each permutation of n; (rows,) -> (rows, size) uint32."""
    state, targets = np.empty(_N, np.uint32), np.empty(size, np.uint32)
    found = np.empty((seeds.shape[0], size), np.uint32)
    for row in range(seeds.shape[0]):
        entries = np.arange(n).astype(np.uint32)
        _targets(state, seeds[row], n, targets)
        _swap(entries, targets)
        found[row] = entries[:size]
    return found


@njit(cache=True, nogil=True)
def add_to_first(logits, seeds, n, size, deltas):
    """Add each row's delta to the logits of its permutation's first entries, in place."""
    state, targets = np.empty(_N, np.uint32), np.empty(size, np.uint32)
    for row in range(seeds.shape[0]):
        entries = np.arange(n).astype(np.uint32)
        _targets(state, seeds[row], n, targets)
        _swap(entries, targets)
        for token in entries[:size]:
            logits[row, token] += deltas[row]


@njit(cache=True, nogil=True)
def are_among_first(seeds, n, size, tokens):
    """Whether each token is among the first ``size`` entries of its permutation of n.

    Rows with the seed of the row before them share its draws, so sorted rows are cheapest.
    """
    state, targets = np.empty(_N, np.uint32), np.empty(size, np.uint32)
    found = np.empty(tokens.shape[0], np.bool_)
    for row in range(tokens.shape[0]):
        if row == 0 or seeds[row] != seeds[row - 1]:
            _targets(state, seeds[row], n, targets)
        found[row] = _arrives(tokens[row], targets)
    return found


@njit
def _arrives(token, targets):
    place = token
    for i in range(targets.shape[0]):
        if targets[i] == place:
            return True  # swapped into entry i, which no later step touches
        if np.uint32(i) == place:
            place = targets[i]
    return False
