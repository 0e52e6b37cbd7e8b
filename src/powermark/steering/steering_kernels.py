"""The recursions of steering, as machine code (Numba).

A state is t tokens scored so far, s of them green. ``nodes`` (3, biases) are the values, slopes and
integrals of the green rate at BIASES; see :class:`powermark.steering.goal.Tilt`. Two helpers are
inlined, which saves a tenth of the time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from powermark.signals.signal import MAX_DELTA


@njit
def _tilted(nodes, gamma, exact, delta):
    """Return green rate and KL under a bias."""
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


@njit(cache=True, nogil=True)
def best_biases(rewards, lengths, going, nodes, gamma, exact, cap):
    """Return the best biases; :func:`powermark.steering.recursion.backward`.

    ``going[t]`` is the share of texts that have a token after t. ``worth[s]`` is U_{t+1}(s) until
    the loop over s has reached s, and U_t(s) after it.
    """
    n = lengths[-1]
    deltas, worth = np.zeros((n, n + 1)), np.zeros(n + 1)
    which = lengths.size - 1
    for t in range(n - 1, -1, -1):
        if which >= 0 and lengths[which] == t + 1:
            worth[: t + 2] += rewards[which, : t + 2]
            which -= 1
        for s in range(t + 1):
            gain = worth[s + 1] - worth[s]
            delta = min(max(gain / going[t], 0.0), cap)
            rate, cost = _tilted(nodes, gamma, exact, delta)
            worth[s] += rate * gain - going[t] * cost
            deltas[t, s] = delta
    return deltas


@njit(inline="always")
def _write_token(law, spent, squares, greens, t, deltas, nodes, gamma, exact):
    """Move law, E[C; s] and E[C^2; s] past token t, in place; C is the KL spent so far.

    Return the expected greens, given those before the token.
    """
    for s in range(t, -1, -1):  # downwards, so that moved mass is not moved again
        rate, cost = _tilted(nodes, gamma, exact, deltas[s])
        squares[s] += 2.0 * cost * spent[s] + cost * cost * law[s]
        spent[s] += cost * law[s]
        greens += law[s] * rate
        for mass in (law, spent, squares):
            moved = mass[s] * rate
            mass[s] -= moved
            mass[s + 1] += moved
    return greens


@njit(cache=True, nogil=True)
def follow(deltas, lengths, reach, lost, nodes, gamma, exact):
    """Follow each text's count; :func:`powermark.steering.recursion.forward`.

    ``nodes`` is (texts, steps, 3, biases). ``reach[i, m, s]`` is the probability that a text of
    ``lengths[i]`` tokens, s of them green, is detected after losing the signal of m tokens;
    ``lost`` (texts, lengths) is how many each text loses.

    Returns, for each text, the law of the count, the mean KL and squared KL spent, the expected
    greens, and the probability of detection at each length.
    """
    texts, steps, n = nodes.shape[0], nodes.shape[1], deltas.shape[0]
    law = np.zeros((texts, n + 1))
    kl, kl_square, greens = np.zeros(texts), np.zeros(texts), np.zeros(texts)
    powers = np.zeros((texts, lengths.size))
    for text in range(texts):
        here, spent, squares = law[text], np.zeros(n + 1), np.zeros(n + 1)
        here[0] = 1.0
        which = 0
        for t in range(n):
            now = nodes[text, min(t, steps - 1)]
            greens[text] = _write_token(
                here, spent, squares, greens[text], t, deltas[t], now, gamma, exact
            )
            if which < lengths.size and lengths[which] == t + 1:
                powers[text, which] = (here * reach[which, lost[text, which]]).sum()
                which += 1
        kl[text], kl_square[text] = spent.sum(), squares.sum()
    return law, kl, kl_square, greens, powers


@njit(cache=True, nogil=True)
def follow_answers(deltas, ends, rewards, nodes, gamma, exact):
    """Follow each text to its ends; :meth:`powermark.steering.answers.Answers.forward`.

    ``ends`` is (texts, lengths), ``rewards`` (texts, lengths, kinds, n+1), ``nodes`` as in
    :func:`follow`. Returns, for each text and end, the probability of each kind of reward, the
    mean KL spent and the expected greens.
    """
    texts, lengths, kinds = rewards.shape[:3]
    found = np.zeros((texts, lengths, kinds))
    kl, greens = np.zeros((texts, lengths)), np.zeros((texts, lengths))
    for text in range(texts):
        steps, source = nodes.shape[1], min(text, nodes.shape[0] - 1)
        size = ends[text, lengths - 1] + 1
        law, spent, squares = np.zeros(size), np.zeros(size), np.zeros(size)
        law[0], sofar, which = 1.0, 0.0, 0
        for t in range(size - 1):
            now = nodes[source, min(t, steps - 1)]
            sofar = _write_token(law, spent, squares, sofar, t, deltas[t], now, gamma, exact)
            while which < lengths and ends[text, which] == t + 1:
                for kind in range(kinds):
                    found[text, which, kind] = (law * rewards[text, which, kind, :size]).sum()
                kl[text, which], greens[text, which] = spent.sum(), sofar
                which += 1
    return found, kl, greens


@njit(inline="always")
def _edit_token(law, s, left, here, total, rate, kept, gamma, edit_rate):
    """Write one token after ``here``, the mass of a state by run, edit it, and add to ``law``.

    An untouched token after h untouched ones keeps its colour if its signal is ``kept``; any other
    token is green by chance.
    """
    h, keep = here.size - 1, 1.0 - edit_rate
    for green in range(2):
        chance = rate if green else 1.0 - rate
        if kept:
            law[s + green, left + green, h] += keep * chance * here[h]
        for lucky in range(2):
            part = chance * (gamma if lucky else 1.0 - gamma)
            law[s + green, left + lucky, 0] += edit_rate * part * total
            for run in range(h):
                law[s + green, left + lucky, run + 1] += keep * part * here[run]
            if not kept:
                law[s + green, left + lucky, h] += keep * part * here[h]


@njit(cache=True, nogil=True)
def edited_power(rates, kept, k, gamma, edit_rate, h):
    """Power after rewriting; :func:`powermark.steering.recursion.edited_power`.

    ``kept`` (n,) says which tokens have a signal in the text that a detector sees, before edits.
    A state is a triple (s, left, run): s greens written, ``left`` greens after edits, and ``run``
    untouched tokens in a row, at most h. A text that reaches k stays detected and one out of reach
    stays undetected, so neither is followed further; states below 2^-60 are dropped (1e-11 in all).
    k is 1 or more.
    """
    n, keep, reached = rates.shape[0], 1.0 - edit_rate, 0.0
    law, here = np.zeros((n + 1, k + 1, h + 1)), np.zeros(h + 1)
    for run in range(h + 1):
        law[0, 0, run] = keep**run * (edit_rate if run < h else 1.0)
    for t in range(n):
        for s in range(t, -1, -1):  # downwards, so that moved mass is not moved again
            for left in range(min(t, k - 1), -1, -1):
                total = 0.0
                for run in range(h + 1):
                    here[run] = law[s, left, run]
                    total += here[run]
                    law[s, left, run] = 0.0
                if left + n - t >= k and total >= 2.0**-60:
                    _edit_token(law, s, left, here, total, rates[t, s], kept[t], gamma, edit_rate)
        for s in range(t + 2):
            for run in range(h + 1):
                reached += law[s, k, run]
                law[s, k, run] = 0.0
    return reached


@njit(cache=True, nogil=True)
def edited_powers(deltas, k, nodes, kept, weights, gamma, exact, edit_rate, h):
    """Power after rewriting of each text that has weight; ``nodes`` as in :func:`follow`.

    ``kept`` is (texts, n).
    """
    n, rates, powers = deltas.shape[0], np.zeros(deltas.shape), np.zeros(weights.size)
    for text in range(weights.size):
        if weights[text] > 0.0:
            for t in range(n):
                now = nodes[text, min(t, nodes.shape[1] - 1)]
                for s in range(t + 1):
                    rates[t, s], _ = _tilted(now, gamma, exact, deltas[t, s])
            powers[text] = edited_power(rates, kept[text], k, gamma, edit_rate, h)
    return powers
