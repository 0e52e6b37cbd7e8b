"""Recursions over the law of a count, as machine code (Numba)."""

from __future__ import annotations

import numpy as np
from numba import njit

from powermark.calibration.signal import MAX_DELTA


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


@njit
def _tilted(nodes, gamma, exact, delta):
    """Green rate and KL under a bias; :class:`powermark.calibration.tilt.Tilt`."""
    if exact:
        scale = 1.0 + gamma * np.expm1(delta)
        rate = 1.0 - (1.0 - gamma) / scale
        return rate, max(delta * rate - np.log(scale), 0.0)
    last = nodes.shape[1] - 1
    at = min(int(np.sqrt(delta / MAX_DELTA) * last), last - 1)
    begin, end = MAX_DELTA * (at / last) ** 2, MAX_DELTA * ((at + 1) / last) ** 2
    width = end - begin
    u = (delta - begin) / width
    r0, r1 = nodes[0, at], nodes[0, at + 1]
    m0, m1 = width * nodes[1, at], width * nodes[1, at + 1]
    rise = 3.0 * (r1 - r0) - 2.0 * m0 - m1  # the cubic is r0 + m0 u + rise u^2 + bend u^3
    bend = 2.0 * (r0 - r1) + m0 + m1
    rate = r0 + u * (m0 + u * (rise + u * bend))
    area = nodes[2, at] + width * u * (r0 + u * (m0 / 2 + u * (rise / 3 + u * bend / 4)))
    return min(max(rate, 0.0), 1.0), max(delta * rate - area, 0.0)


@njit(cache=True)
def best_biases(rewards, lengths, nodes, gamma, exact, cap):
    """Return the biases that earn most; :func:`powermark.calibration.steering.backward`."""
    n = lengths[-1]
    deltas, worth = np.zeros((n, n + 1)), np.zeros(n + 1)
    which = lengths.size - 1
    for t in range(n - 1, -1, -1):
        if which >= 0 and lengths[which] == t + 1:
            worth[: t + 2] += rewards[which, : t + 2]
            which -= 1
        for s in range(t + 1):
            gain = worth[s + 1] - worth[s]
            delta = min(max(gain, 0.0), cap)
            rate, cost = _tilted(nodes, gamma, exact, delta)
            worth[s] += rate * gain - cost
            deltas[t, s] = delta
    return deltas


@njit(cache=True)
def follow(deltas, lengths, counts, nodes, gamma, exact):
    """Follow each text's count; :func:`powermark.calibration.steering.forward`.

    Returns the law of the count, the KL spent and its square, the greens, and P(count >= counts) at
    each length.
    """
    texts, steps, n = nodes.shape[0], nodes.shape[1], deltas.shape[0]
    law = np.zeros((texts, n + 1))
    spent, squares, greens = np.zeros(texts), np.zeros(texts), np.zeros(texts)
    powers = np.zeros((texts, lengths.size))
    for text in range(texts):
        here = law[text]
        here[0] = 1.0
        sums, second = np.zeros(n + 1), np.zeros(n + 1)  # E[C; s], E[C^2; s]; C: KL so far
        which = 0
        for t in range(n):
            now = nodes[text, min(t, steps - 1)]
            for s in range(t, -1, -1):
                rate, cost = _tilted(now, gamma, exact, deltas[t, s])
                second[s] += 2.0 * cost * sums[s] + cost * cost * here[s]
                sums[s] += cost * here[s]
                greens[text] += here[s] * rate
                for mass in (here, sums, second):
                    moved = mass[s] * rate
                    mass[s] -= moved
                    mass[s + 1] += moved
            if which < lengths.size and lengths[which] == t + 1:
                powers[text, which] = here[counts[which] :].sum()
                which += 1
        spent[text], squares[text] = sums.sum(), second.sum()
    return law, spent, squares, greens, powers


@njit(cache=True)
def edited_power(rates, k, gamma, edit_rate, h):
    """Power after rewriting; :func:`powermark.calibration.steering.edited_power`.

    A count of k is reached for good, and one that is out of reach is lost for good: neither is
    followed further, nor is what has no weight (2^-60 a state, 1e-11 in all). k is 1 or more.
    """
    n, keep, reached = rates.shape[0], 1.0 - edit_rate, 0.0
    law = np.zeros((n + 1, k + 1, h + 1))  # greens written, greens left, untouched in a row
    here = np.zeros(h + 1)
    for run in range(h + 1):
        law[0, 0, run] = keep**run * (edit_rate if run < h else 1.0)
    for t in range(n):
        for s in range(t, -1, -1):  # downwards: what is moved is not met again
            for left in range(min(t, k - 1), -1, -1):
                total = 0.0
                for run in range(h + 1):
                    here[run] = law[s, left, run]
                    total += here[run]
                    law[s, left, run] = 0.0
                if left + n - t < k or total < 2.0**-60:
                    continue
                for green in range(2):
                    chance = rates[t, s] if green else 1.0 - rates[t, s]
                    law[s + green, left + green, h] += keep * chance * here[h]
                    for lucky in range(2):  # a token without signal is green by chance
                        part = chance * (gamma if lucky else 1.0 - gamma)
                        law[s + green, left + lucky, 0] += edit_rate * part * total
                        for run in range(h):
                            law[s + green, left + lucky, run + 1] += keep * part * here[run]
        for s in range(t + 2):
            for run in range(h + 1):
                reached += law[s, k, run]
                law[s, k, run] = 0.0
    return reached


@njit(cache=True)
def edited_powers(deltas, k, nodes, weights, gamma, exact, edit_rate, h):
    """Power after rewriting of each text that has weight; ``nodes`` as in :func:`follow`."""
    n, rates, powers = deltas.shape[0], np.zeros(deltas.shape), np.zeros(weights.size)
    for text in range(weights.size):
        if weights[text] > 0.0:
            for t in range(n):
                now = nodes[text, min(t, nodes.shape[1] - 1)]
                for s in range(t + 1):
                    rates[t, s], _ = _tilted(now, gamma, exact, deltas[t, s])
            powers[text] = edited_power(rates, k, gamma, edit_rate, h)
    return powers
