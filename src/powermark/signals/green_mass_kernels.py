"""The sums of :class:`powermark.signals.green_mass.GreenMass` over many steps (Numba).

A step has all colourings of its likeliest tokens, times a few nodes for the rest. The kernels make
these on the fly: for 100,000 steps they would fill hundreds of MB. Where the last tokens have next
to no mass, as in most steps of chat answers, only the others are coloured.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_FLAT = {"reassoc", "nsz", "nnan", "contract"}  # lets sums and products run in vector registers
_LITTLE = 2e-6  # mass times e^delta whose spread over lists changes a result by less than 1e-12
_SUMMED = 4  # tokens of which the logarithm of each colouring is taken
_LARGE = 1e60  # scales of which a product of four is no longer a sure thing
_MOST = 35.0  # biases up to which a product of 20 scales is a finite number


@njit(error_model="numpy")
def _eigen(diagonal, off, first):
    """Turn a symmetric tridiagonal matrix into its eigenvalues, in place.

    ``first`` becomes the first components of the eigenvectors; ``off`` is used up. QL steps with
    implicit shifts (Golub and Welsch, 1969).
    """
    size = diagonal.size
    first[:] = 0.0
    first[0] = 1.0
    for low in range(size):
        for _ in range(60):
            high = low
            while high < size - 1:
                scale = abs(diagonal[high]) + abs(diagonal[high + 1])
                if abs(off[high]) <= 1e-16 * scale:
                    break
                high += 1
            if high == low:
                break
            g = (diagonal[low + 1] - diagonal[low]) / (2.0 * off[low])
            g = (
                diagonal[high]
                - diagonal[low]
                + off[low] / (g + np.copysign(np.sqrt(g * g + 1.0), g))
            )
            sine, cosine, p = 1.0, 1.0, 0.0
            for i in range(high - 1, low - 1, -1):
                f, b = sine * off[i], cosine * off[i]
                r = np.sqrt(f * f + g * g)
                off[i + 1] = r
                if r == 0.0:
                    diagonal[i + 1] -= p
                    break
                sine, cosine = f / r, g / r
                g = diagonal[i + 1] - p
                r = (diagonal[i] - g) * sine + 2.0 * cosine * b
                p = sine * r
                diagonal[i + 1] = g + p
                g = cosine * r - b
                f = first[i + 1]
                first[i + 1] = sine * first[i] + cosine * f
                first[i] = cosine * first[i] - sine * f
            else:
                diagonal[low] -= p
                off[low] = g
            off[high] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def rest_law(gamma, left, square, nodes, rare):
    """Nodes and weights of the green share of the rest, (steps, nodes + 2) each.

    As ``powermark.signals.green_mass._rest_law``, except that atoms are left out step by step.
    """
    places, weights = np.zeros((left.size, nodes + 2)), np.zeros((left.size, nodes + 2))
    places[:, nodes + 1] = 1.0
    off, first = np.zeros(nodes), np.zeros(nodes)  # the last of ``off`` is for the recursion
    for step in range(left.size):
        none = (1.0 - gamma) ** left[step]
        every = gamma ** left[step] if left[step] > 0.0 else 0.0
        between = max(1.0 - none - every, 1e-12)
        mean = min(max((gamma - every) / between, 1e-9), 1.0 - 1e-9)
        second = (gamma * (1.0 - gamma) * square[step] + gamma**2 - every) / between
        variance = max(second - mean**2, 1e-12)
        total = min(max(mean * (1.0 - mean) / variance - 1.0, 1e-3), 1e9)
        alpha, beta = (1.0 - mean) * total - 1.0, mean * total - 1.0
        total = alpha + beta
        diagonal = places[step, :nodes]
        diagonal[0] = (beta - alpha) / (total + 2.0)
        for n in range(1, nodes):
            s = 2.0 * n + total
            diagonal[n] = (beta**2 - alpha**2) / (s * (s + 2.0))
            if n == 1:
                square_off = 4.0 * (1.0 + alpha) * (1.0 + beta)
                square_off /= (2.0 + total) ** 2 * (3.0 + total)
            else:
                square_off = 4.0 * n * (n + alpha) * (n + beta) * (n + total)
                square_off /= s**2 * (s + 1.0) * (s - 1.0)
            off[n - 1] = np.sqrt(max(square_off, 0.0))
        _eigen(diagonal, off, first)
        atoms = max(none, every) >= rare
        whole = max(1.0 - none - every, 0.0) if atoms else 1.0
        for n in range(nodes):
            diagonal[n] = min(max((1.0 + diagonal[n]) / 2.0, 0.0), 1.0)
            weights[step, n] = whole * first[n] ** 2
        if atoms:
            weights[step, nodes], weights[step, nodes + 1] = none, every
    return places, weights


@njit
def _colour(head, sums):
    """Fill ``sums`` with the green mass of each colouring of the tokens: bit k is token k."""
    sums[0] = 0.0
    for token in range(head.size):
        size = 1 << token
        plain, more = sums[:size], sums[size:]
        for i in range(size):
            more[i] = plain[i] + head[token]


@njit(fastmath=_FLAT, error_model="numpy")
def _red(sums, chances, shift, scale):
    """Mean of ``(1-y) / (1 + scale y)`` over colourings, ``y = sum + shift``."""
    total = 0.0
    for i in range(sums.size):
        y = sums[i] + shift
        total += chances[i] * (1.0 - y) / (1.0 + scale * y)
    return total


@njit(fastmath=_FLAT, error_model="numpy")
def _red_of_ends(sums, chances, shift, none, every, scale):
    """Mean of the same over colourings, for no shift and for one, with two weights."""
    total = 0.0
    for i in range(sums.size):
        u, v = sums[i], sums[i] + shift
        under_u, under_v = 1.0 + scale * u, 1.0 + scale * v
        both = none * (1.0 - u) * under_v + every * (1.0 - v) * under_u
        total += chances[i] * both / (under_u * under_v)
    return total


@njit(fastmath=_FLAT, error_model="numpy")
def _red_of_four(sums, chances, a, b, c, d, at_a, at_b, at_c, at_d, scale):
    """Mean of the same over colourings and four shifts, of weights ``at_a`` to ``at_d``.

    The four fractions are added before one division, which takes longer than all the rest.
    """
    total = 0.0
    for i in range(sums.size):
        u, v, w, x = sums[i] + a, sums[i] + b, sums[i] + c, sums[i] + d
        under_u, under_v = 1.0 + scale * u, 1.0 + scale * v
        under_w, under_x = 1.0 + scale * w, 1.0 + scale * x
        uv = at_a * (1.0 - u) * under_v + at_b * (1.0 - v) * under_u
        wx = at_c * (1.0 - w) * under_x + at_d * (1.0 - x) * under_w
        under_uv, under_wx = under_u * under_v, under_w * under_x
        total += chances[i] * (uv * under_wx + wx * under_uv) / (under_uv * under_wx)
    return total


@njit(fastmath=_FLAT)
def _products(sums, a, b, c, d, scale):
    """Products of ``1 + scale y`` over colourings, ``y = sum + shift``, for four shifts."""
    p = q = r = s = 1.0
    for i in range(sums.size):
        p *= 1.0 + scale * (sums[i] + a)
        q *= 1.0 + scale * (sums[i] + b)
        r *= 1.0 + scale * (sums[i] + c)
        s *= 1.0 + scale * (sums[i] + d)
    return p, q, r, s


@njit(fastmath=_FLAT)
def _product(sums, shift, scale):
    """Product of ``1 + scale y`` over colourings, ``y = sum + shift``."""
    product = 1.0
    for i in range(sums.size):
        product *= 1.0 + scale * (sums[i] + shift)
    return product


@njit
def _chances(gamma, tokens):
    """Probabilities of the colourings of 0, 1, ... ``tokens`` tokens, a row each."""
    found = np.zeros((tokens + 1, 1 << tokens))
    found[0, 0] = 1.0
    for token in range(tokens):
        size = 1 << token
        found[token + 1, :size] = found[token, :size] * (1.0 - gamma)
        found[token + 1, size : 2 * size] = found[token, :size] * gamma
    return found


@njit
def _few_tokens(head, mass, little):
    """How many of the likeliest tokens matter where the others have little mass, and that mass.

    -1 where the others have more: under any list their green mass is then not as good as its mean.
    """
    tokens, rest = head.size, mass
    if rest > little:
        return -1, rest
    while tokens > 0 and rest + head[tokens - 1] <= little:
        tokens -= 1
        rest += head[tokens]
    return tokens, rest


@njit(cache=True, nogil=True)
def rates(head, mass, places, weights, gamma, delta):
    """Return the green rate of each step.

    ``head`` are the tokens whose colourings are enumerated, ``places`` and ``weights`` those of
    :func:`rest_law`, the first four of which have weight.
    """
    found, scale = np.empty(mass.size), np.expm1(delta)
    every = _chances(gamma, head.shape[1])
    chances, sums = every[-1], np.zeros(every.shape[1])
    for step in range(mass.size):
        tokens, rest = _few_tokens(head[step], mass[step], _LITTLE / (1.0 + scale))
        if tokens >= 0:
            some = sums[: 1 << tokens]
            _colour(head[step, :tokens], some)
            found[step] = 1.0 - _red(some, every[tokens], gamma * rest, scale)
            continue
        _colour(head[step], sums)
        w, x, m, red = weights[step], places[step], mass[step], 0.0
        if scale < _LARGE:
            a, b, c, d = m * x[0], m * x[1], m * x[2], m * x[3]
            red = _red_of_four(sums, chances, a, b, c, d, w[0], w[1], w[2], w[3], scale)
            if w[4] + w[5] > 0.0:
                red += _red_of_ends(sums, chances, m, w[4], w[5], scale)
        else:
            for node in range(w.size):
                red += w[node] * _red(sums, chances, m * x[node], scale)
        found[step] = 1.0 - red
    return found


@njit(cache=True, nogil=True)
def mean_logs(head, order, firsts, mass, places, weights, gamma, delta):
    """Return the mean of ``log(1 + (e^delta - 1) y)`` of each step.

    Colourings ``order[firsts[g]]`` up to the next have g green tokens and one probability: up to a
    bias of 35 their logarithms are that of a product.
    """
    found, scale = np.empty(mass.size), np.expm1(delta)
    every = _chances(gamma, head.shape[1])
    plain, sums, ordered = np.zeros(order.size), np.zeros(order.size), every[-1][order]
    groups = firsts if delta <= _MOST else np.arange(order.size + 1)
    for step in range(mass.size):
        total = 0.0
        tokens, rest = _few_tokens(head[step], mass[step], _LITTLE / (1.0 + scale))
        if 0 <= tokens <= _SUMMED:
            some = plain[: 1 << tokens]
            _colour(head[step, :tokens], some)
            for i in range(some.size):
                total += every[tokens, i] * np.log1p(scale * (some[i] + gamma * rest))
            found[step] = total
            continue
        _colour(head[step], plain)
        for i in range(order.size):
            sums[i] = plain[order[i]]
        w, x, m = weights[step], places[step], mass[step]
        a, b, c, d = m * x[0], m * x[1], m * x[2], m * x[3]
        for g in range(groups.size - 1):
            some = sums[groups[g] : groups[g + 1]]
            p, q, r, s = _products(some, a, b, c, d, scale)
            logs = w[0] * np.log(p) + w[1] * np.log(q) + w[2] * np.log(r) + w[3] * np.log(s)
            for node in range(4, w.size):
                if w[node] > 0.0:
                    logs += w[node] * np.log(_product(some, m * x[node], scale))
            total += ordered[groups[g]] * logs
        found[step] = total
    return found
