"""The loops of detection, as machine code (Numba): which tokens count, and the best window."""

from __future__ import annotations

import numpy as np
from numba import njit

SCORED, NO_CONTEXT, REPEATED, SPECIAL, PADDING, PROMPT = range(6)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@njit(cache=True, nogil=True)
def states(ids, present, offsets, prompts, h, special):
    """Say of each token whether it can be scored; repeats are found later.

    The first ``prompts[i]`` ids of text i are its prompt's. A context must lie within the text and
    its prompt, without padding.
    """
    found = np.empty(ids.shape[0], np.uint8)
    for text in range(offsets.shape[0] - 1):
        known = 0  # real tokens in a row before this one
        for i in range(offsets[text], offsets[text + 1]):
            if not present[i]:
                found[i], known = PADDING, 0
                continue
            if i < offsets[text] + prompts[text]:
                found[i] = PROMPT
            elif known < h:
                found[i] = NO_CONTEXT
            elif special[ids[i]]:
                found[i] = SPECIAL
            else:
                found[i] = SCORED
            known += 1
    return found


@njit(cache=True, nogil=True)
def sums(marks, offsets):
    """How many marks are set in each text."""
    found = np.zeros(offsets.shape[0] - 1, np.int64)
    for text in range(found.shape[0]):
        for i in range(offsets[text], offsets[text + 1]):
            found[text] += marks[i]
    return found


@njit
def _is_new(stamps, kept_seeds, kept_tokens, stamp, seed, token):
    """Add a pair to an open-addressing set, of which the slots with this stamp are in use."""
    last = np.uint64(stamps.shape[0] - 1)
    key = (seed ^ np.uint64(token)) * _MIX
    slot = (key ^ (key >> _SHIFT)) & last
    while stamps[slot] == stamp:
        if kept_seeds[slot] == seed and kept_tokens[slot] == token:
            return False
        slot = (slot + np.uint64(1)) & last
    stamps[slot], kept_seeds[slot], kept_tokens[slot] = stamp, seed, token
    return True


@njit(cache=True, nogil=True)
def mark_repeats(found, positions, offsets, seeds, tokens):
    """Turn SCORED into REPEATED where a text has drawn the same (seed, token) before.

    One set serves all texts: a slot counts only if its stamp is this text's.
    """
    size = 2
    for text in range(offsets.shape[0] - 1):
        while size < 2 * (offsets[text + 1] - offsets[text]):
            size *= 2
    stamps = np.full(size, -1, np.int64)
    kept_seeds, kept_tokens = np.empty(size, np.uint64), np.empty(size, np.uint32)
    text = 0
    for i in range(positions.shape[0]):
        while positions[i] >= offsets[text + 1]:
            text += 1
        if not _is_new(stamps, kept_seeds, kept_tokens, text, seeds[i], tokens[i]):
            found[positions[i]] = REPEATED


@njit(cache=True, nogil=True)
def evidence(found, green, offsets, up, down):
    """Walk each text's log evidence, ``up`` at a green token that counts and ``down`` at a red one.

    Returns, per text: the end of the walk, its maximum, its lowest point in the first half of the
    counted tokens with the number of tokens until then, and the stretch that gains the most (first
    position and the one after the last; equal where nothing is gained).
    """
    texts = offsets.shape[0] - 1
    ends, highest, lowest = np.zeros(texts), np.zeros(texts), np.zeros(texts)
    lowest_at, starts, stops = (
        np.zeros(texts, np.int64),
        np.zeros(texts, np.int64),
        np.zeros(texts, np.int64),
    )
    for text in range(texts):
        counted = 0
        for i in range(offsets[text], offsets[text + 1]):
            counted += found[i] == SCORED
        walk = gained = best = 0.0
        number, begin = 0, 0
        for i in range(offsets[text], offsets[text + 1]):
            if found[i] != SCORED:
                continue
            step = up if green[i] else down
            walk += step
            number += 1
            highest[text] = max(highest[text], walk)
            if walk < lowest[text] and 2 * number <= counted:
                lowest[text], lowest_at[text] = walk, number
            if gained <= 0.0:
                gained, begin = 0.0, i - offsets[text]
            gained += step
            if gained > best:
                best, starts[text], stops[text] = gained, begin, i - offsets[text] + 1
        ends[text] = walk
    return ends, highest, lowest, lowest_at, starts, stops


@njit
def _largest_sum(sums, width):
    best = sums[width] - sums[0]
    for i in range(1, sums.shape[0] - width):
        best = max(best, sums[i + width] - sums[i])
    return best


@njit
def _smallest_sum(sums, width):
    best = sums[width] - sums[0]
    for i in range(1, sums.shape[0] - width):
        best = min(best, sums[i + width] - sums[i])
    return best


@njit
def _z(green, length, gamma):
    return (green - gamma * length) / np.sqrt(length * gamma * (1.0 - gamma))


@njit(cache=True)
def winmax(sums, gamma, shortest, longest):
    """The largest z of all windows with ``shortest`` to ``longest`` tokens, and its width.

    ``sums`` are cumulative green counts from 0. From the best count M of one width, a wider window
    by j holds at most M + j; widths that cannot win even so are skipped. Nothing is approximated.
    """
    best, chosen, width = -np.inf, shortest, shortest
    while width <= longest:
        most = _largest_sum(sums, width)
        z = _z(most, width, gamma)
        if z > best:
            best, chosen = z, width
        start = width
        width += 1
        while width <= longest and _z(most + width - start, width, gamma) <= best:
            width += 1
    return best, chosen


@njit(cache=True)
def winmax_c(sums, gamma, smallest, largest):
    """The largest z left after removing one block of ``smallest`` to ``largest`` tokens.

    Returns it with the block's width. A wider block holds at least the greens of a narrower one,
    so what is left has at most as many; widths that cannot win even so are skipped.
    """
    n = sums.shape[0] - 1
    best, chosen, width = -np.inf, smallest, smallest
    while width <= largest:
        left = sums[n] - _smallest_sum(sums, width)
        z = _z(left, n - width, gamma)
        if z > best:
            best, chosen = z, width
        width += 1
        while width <= largest and _z(left, n - width, gamma) <= best:
            width += 1
    return best, chosen


@njit(cache=True, nogil=True)
def statistics(draws, gamma, complement, smallest, largest):
    """The statistic of each row of colours; (rows, n) bool -> (rows,)."""
    found = np.empty(draws.shape[0])
    sums = np.zeros(draws.shape[1] + 1, np.int32)
    for row in range(draws.shape[0]):
        for i in range(draws.shape[1]):
            sums[i + 1] = sums[i] + draws[row, i]
        if complement:
            found[row] = winmax_c(sums, gamma, smallest, largest)[0]
        else:
            found[row] = winmax(sums, gamma, smallest, largest)[0]
    return found


@njit(cache=True)
def where_largest(sums, width):
    """The first start of a window of this width with the most greens."""
    best, start = -1, 0
    for i in range(sums.shape[0] - width):
        if sums[i + width] - sums[i] > best:
            best, start = sums[i + width] - sums[i], i
    return start


@njit(cache=True)
def where_smallest(sums, width):
    """The first start of a block of this width with the fewest greens."""
    best, start = sums[-1] + 1, 0
    for i in range(sums.shape[0] - width):
        if sums[i + width] - sums[i] < best:
            best, start = sums[i + width] - sums[i], i
    return start


def new_pairs(size):
    """An empty set of (seed, token) pairs: slots in use, seeds, tokens; ``size`` a power of 2."""
    return np.zeros(size, np.bool_), np.empty(size, np.uint64), np.empty(size, np.uint32)


def grown_pairs(pairs, at_least):
    """The same set with room for more."""
    used, seeds, tokens = pairs
    size = used.size
    while size < at_least:
        size *= 2
    grown = new_pairs(size)
    add_pairs(*grown, seeds[used], tokens[used])
    return grown


@njit(cache=True)
def add_pairs(used, kept_seeds, kept_tokens, seeds, tokens):
    """Add pairs to the set; says of each whether it was new."""
    fresh = np.empty(seeds.shape[0], np.bool_)
    for i in range(seeds.shape[0]):
        fresh[i] = _is_new(used, kept_seeds, kept_tokens, True, seeds[i], tokens[i])
    return fresh
