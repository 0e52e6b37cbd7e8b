"""The loops of detection as compiled kernels (Numba): sums, evidence, and the best window."""

from __future__ import annotations

import numpy as np
from numba import njit

from powermark.counting import SCORED

_SHORT = 1_000  # tokens of texts that are searched width by width
_LEAF = 32  # positions in the smallest blocks
_ROUNDING = 1e-6  # more than sums of shares can be wrong by


@njit(cache=True, nogil=True)
def sums(marks, offsets):
    """How many marks are set in each text."""
    found = np.zeros(offsets.shape[0] - 1, np.int64)
    for text in range(found.shape[0]):
        for i in range(offsets[text], offsets[text + 1]):
            found[text] += marks[i]
    return found


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
    """The most greens of any window; slices and 32 bits let it run in vector registers."""
    starts, ends, best = sums[: sums.shape[0] - width], sums[width:], np.int32(-1)
    for i in range(starts.shape[0]):
        best = max(best, np.int32(ends[i] - starts[i]))
    return np.int64(best)


@njit
def _smallest_sum(sums, width):
    """The fewest greens of any window, in the same way."""
    starts, ends, best = sums[: sums.shape[0] - width], sums[width:], np.int32(2**31 - 1)
    for i in range(starts.shape[0]):
        best = min(best, np.int32(ends[i] - starts[i]))
    return np.int64(best)


@njit
def _z(green, length, gamma):
    return (green - gamma * length) / np.sqrt(length * gamma * (1.0 - gamma))


@njit(cache=True, nogil=True)
def deviations(n, gamma):
    """Standard deviation of the green count of 0, 1, ... n unmarked tokens."""
    return np.sqrt(np.arange(n + 1) * gamma * (1.0 - gamma))


@njit(cache=True, nogil=True)
def winmax(sums, gamma, shortest, longest, spread):
    """The largest z of all windows with ``shortest`` to ``longest`` tokens, and its width.

    ``sums`` are cumulative green counts from 0, ``spread`` the :func:`deviations`. From the best
    count M of one width, a wider window by j holds at most M + j; widths that cannot win even so
    are skipped. Nothing is approximated.
    """
    best, chosen, width = -np.inf, shortest, shortest
    while width <= longest:
        most = _largest_sum(sums, width)
        z = (most - gamma * width) / spread[width]
        if z > best:
            best, chosen = z, width
        width, most = width + 1, most + 1
        while width <= longest and most - gamma * width < best * spread[width] - _ROUNDING:
            width, most = width + 1, most + 1
    return best, chosen


@njit(cache=True, nogil=True)
def winmax_c(sums, gamma, smallest, largest, spread):
    """The largest z left after removing one block of ``smallest`` to ``largest`` tokens.

    Returns it with the block's width. A wider block holds at least the greens of a narrower one,
    so what is left has at most as many; widths that cannot win even so are skipped.
    """
    n = sums.shape[0] - 1
    best, chosen, width = -np.inf, smallest, smallest
    while width <= largest:
        left = sums[n] - _smallest_sum(sums, width)
        z = (left - gamma * (n - width)) / spread[n - width]
        if z > best:
            best, chosen = z, width
        width += 1
        while (
            width <= largest and left - gamma * (n - width) < best * spread[n - width] - _ROUNDING
        ):
            width += 1
    return best, chosen


@njit
def _extremes_of_blocks(sums, gamma):
    """A binary tree of the smallest and largest ``sums[i] - gamma * i`` in blocks of positions.

    Node 1 is the root, 2k and 2k + 1 are the halves of node k; the last level has blocks of _LEAF.
    """
    leaves = 1
    while leaves * _LEAF < sums.shape[0]:
        leaves *= 2
    low, high = np.full(2 * leaves, np.inf), np.full(2 * leaves, -np.inf)
    for i in range(sums.shape[0]):
        value, block = sums[i] - gamma * i, leaves + i // _LEAF
        low[block], high[block] = min(low[block], value), max(high[block], value)
    for node in range(leaves - 1, 0, -1):
        low[node] = min(low[2 * node], low[2 * node + 1])
        high[node] = max(high[2 * node], high[2 * node + 1])
    return low, high


@njit(cache=True, nogil=True)
def best_window(sums, gamma, complement, smallest, largest, spread):
    """What ``winmax`` or ``winmax_c`` (``complement``) return, in about n log n steps.

    Branch and bound over pairs of blocks of positions, one for a window's start and one for its
    end: the extremes of both bound z for all their windows, and pairs that cannot win are dropped.
    Nothing is approximated.
    """
    n = sums.shape[0] - 1
    if n <= _SHORT:
        if complement:
            return winmax_c(sums, gamma, smallest, largest, spread)
        return winmax(sums, gamma, smallest, largest, spread)
    best, chosen, width = -np.inf, smallest, smallest
    while width <= largest:  # some widths, so that much can be dropped from the start
        if complement:
            z = _z(sums[n] - _smallest_sum(sums, width), n - width, gamma)
        else:
            z = _z(_largest_sum(sums, width), width, gamma)
        if z > best:
            best, chosen = z, width
        width += 1 + width // 2
    low, high = _extremes_of_blocks(sums, gamma)
    leaves = low.shape[0] // 2
    stack = [(1, 1, leaves * _LEAF)]
    while stack:
        first, second, size = stack.pop()
        gap = (second - first) * size
        shortest, longest = max(gap - size + 1, smallest), min(gap + size - 1, largest)
        if shortest > longest or low[second] > high[second]:
            continue
        if complement:
            most = sums[n] - gamma * n - low[second] + high[first]
            length = n - longest if most > 0.0 else n - shortest
        else:
            most = high[second] - low[first]
            length = shortest if most > 0.0 else longest
        if most + _ROUNDING < best * spread[length]:
            continue
        if size > _LEAF:
            half = size // 2
            for one in range(2 * first, 2 * first + 2):
                for other in range(max(one, 2 * second), 2 * second + 2):
                    stack.append((one, other, half))
            continue
        start, stop = (first - leaves) * _LEAF, (second - leaves) * _LEAF
        for i in range(start, min(start + _LEAF, n + 1)):
            for j in range(max(stop, i + smallest), min(stop + _LEAF, i + largest + 1, n + 1)):
                green = sums[j] - sums[i]
                if complement:
                    z = _z(sums[n] - green, n - (j - i), gamma)
                else:
                    z = _z(green, j - i, gamma)
                if z > best or (z == best and j - i < chosen):
                    best, chosen = z, j - i
    return best, chosen


@njit(cache=True, nogil=True)
def statistics(draws, gamma, complement, smallest, largest):
    """The statistic of each row of colours; (rows, n) bool -> (rows,)."""
    found = np.empty(draws.shape[0])
    sums, spread = np.zeros(draws.shape[1] + 1, np.int32), deviations(draws.shape[1], gamma)
    for row in range(draws.shape[0]):
        for i in range(draws.shape[1]):
            sums[i + 1] = sums[i] + draws[row, i]
        found[row] = best_window(sums, gamma, complement, smallest, largest, spread)[0]
    return found


@njit
def _greens_needed(n, gamma, complement, smallest, largest, bound):
    """The fewest greens of each width, in a window or left beside a block, with z above a bound."""
    needed = np.zeros(largest + 1, np.int64)
    for width in range(smallest, largest + 1):
        length = n - width if complement else width
        green = int(np.floor(gamma * length + bound * np.sqrt(length * gamma * (1.0 - gamma))))
        while _z(green, length, gamma) > bound:
            green -= 1
        while _z(green, length, gamma) <= bound:
            green += 1
        needed[width] = green
    return needed


@njit
def _is_above(sums, needed, complement, smallest, largest):
    """Whether any window has the greens it needs; skips widths as winmax and winmax_c do."""
    n, width, more = sums.shape[0] - 1, smallest, 0 if complement else 1
    while width <= largest:
        most = sums[n] - _smallest_sum(sums, width) if complement else _largest_sum(sums, width)
        if most >= needed[width]:
            return True
        while width <= largest and most < needed[width]:
            width, most = width + 1, most + more
    return False


@njit(cache=True, nogil=True)
def share_above(
    draws, foreign, rates, text, starts, stops, gamma, complement, smallest, largest, bound
):
    """The share of marked texts whose statistic is above a bound.

    A token is green if its number in ``draws``, (rows, n), is below the rate of its row's ``text``
    at that step; ``rates`` with one column are the same at all steps. From the row's start to its
    stop a token is green if its number in ``foreign`` is below gamma.
    """
    n, found, uneven = draws.shape[1], 0, rates.shape[1] > 1
    sums = np.zeros(n + 1, np.int32)
    needed = _greens_needed(n, gamma, complement, smallest, largest, bound)
    for row in range(draws.shape[0]):
        mine = rates[text[row]]
        for i in range(n):
            if starts[row] <= i < stops[row]:
                green = foreign[row, i] < gamma
            else:
                green = draws[row, i] < mine[i if uneven else 0]
            sums[i + 1] = sums[i] + green
        found += _is_above(sums, needed, complement, smallest, largest)
    return found / draws.shape[0]


@njit(cache=True, nogil=True)
def where_largest(sums, width):
    """The first start of a window of this width with the most greens."""
    best, start = -1, 0
    for i in range(sums.shape[0] - width):
        if sums[i + width] - sums[i] > best:
            best, start = sums[i + width] - sums[i], i
    return start


@njit(cache=True, nogil=True)
def where_smallest(sums, width):
    """The first start of a block of this width with the fewest greens."""
    best, start = sums[-1] + 1, 0
    for i in range(sums.shape[0] - width):
        if sums[i + width] - sums[i] < best:
            best, start = sums[i + width] - sums[i], i
    return start
