"""The loops over tokens of writers and attackers, as machine code (Numba).

``model`` is the tuple of :class:`.language.Language`: sorted keys of single tokens, pairs and
triples of a corpus, the weights of the three orders, and the vocabulary's size. ``mark`` is
(k0, k1, context width, threshold, gamma, delta): what the service holds, of which an attacker who
knows the scheme has the last four. ``notes`` are an attacker's: sorted fingerprints of the n-grams
and contexts of marked text, and how they are read, one of BLIND, COLLECTED and COLOURS.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from powermark.watermark.hash_kernels import are_green, siphash

PROMPT = 4  # tokens before each text, so that every context width has its context
BLIND, COLLECTED, COLOURS = 0, 1, 2
_NO_KEY = np.uint64(0)


@njit
def _span(keys, first, last):
    return np.searchsorted(keys, first), np.searchsorted(keys, last)


@njit
def _draw(keys, prefix, size, rng):
    """Return a token that follows a prefix somewhere in the corpus, or -1."""
    low, high = _span(keys, prefix * size, (prefix + 1) * size)
    if low == high:
        return -1
    return keys[low + int(rng.random() * (high - low))] - prefix * size


@njit
def _next(model, text, place, rng):
    singles, pairs, triples, weights, size = model
    order, token = rng.random(), np.int64(-1)
    if order < weights[2]:
        token = _draw(triples, text[place - 2] * size + text[place - 1], size, rng)
    if token < 0 and order < weights[1] + weights[2]:
        token = _draw(pairs, text[place - 1], size, rng)
    return token if token >= 0 else _draw(singles, 0, size, rng)


@njit
def _share(keys, prefix, token, size, otherwise):
    low, high = _span(keys, prefix * size, (prefix + 1) * size)
    if low == high:
        return otherwise
    first, last = _span(keys, prefix * size + token, prefix * size + token + 1)
    return (last - first) / (high - low)


@njit
def _probability(model, text, place, token, order):
    """Probability of a token under the unmarked model, given one or two tokens before it."""
    singles, pairs, triples, weights, size = model
    zero = _share(singles, 0, token, size, 0.0)
    one = _share(pairs, text[place - 1], token, size, zero)
    two = one
    if order > 1:
        two = _share(triples, text[place - 2] * size + text[place - 1], token, size, one)
    return weights[0] * zero + weights[1] * one + weights[2] * two


@njit
def _is_green(mark, text, place, token):
    k0, k1, h, threshold, _, _ = mark
    seeds = siphash(k0, k1, text[place - h : place].copy().reshape(1, h))
    return are_green(seeds, np.full(1, token, np.uint32), threshold)[0]


@njit
def _count(keys, row):
    print_of = siphash(_NO_KEY, _NO_KEY, row.reshape(1, row.size))[0]
    return np.searchsorted(keys, print_of, side="right") - np.searchsorted(keys, print_of)


@njit
def _odds(model, mark, notes, text, place, token):
    """Logarithm of the odds that a token is green, as far as an attacker knows.

    Of n draws after a context, k were this token. Were it green, it would have come with
    probability ``p e / (1 + (e - 1)(g (1 - p) + p))``, and else ``p / (1 + (e - 1) g (1 - p))``:
    the rest of the distribution is taken to be green to a share gamma.
    """
    _, _, h, _, gamma, delta = mark
    grams, contexts, kind = notes
    prior = np.log(gamma / (1.0 - gamma))
    if kind == 0:
        return prior
    if kind == 2:
        return 20.0 if _is_green(mark, text, place, token) else -20.0
    row = np.empty(h + 1, np.int64)
    row[:h] = text[place - h : place]
    row[h] = token
    n = _count(contexts, row[:h].copy())
    if n == 0:
        return prior
    k = _count(grams, row)
    p = min(max(_probability(model, text, place, token, h), 1e-9), 1.0 - 1e-6)
    gain = np.expm1(delta)
    green = p * (gain + 1.0) / (1.0 + gain * (gamma * (1.0 - p) + p))
    red = p / (1.0 + gain * gamma * (1.0 - p))
    return prior + k * np.log(green / red) + (n - k) * np.log((1.0 - green) / (1.0 - red))


@njit(cache=True)
def write(model, mark, prompts, length, rng):
    """Write texts under a mark: a red token is kept with probability exp(-delta), else redrawn.

    That is exactly the law of the model with delta added to the green logits.
    """
    texts = np.empty((prompts.shape[0], PROMPT + length), np.int64)
    texts[:, :PROMPT] = prompts
    kept = np.exp(-mark[5])
    for text in texts:
        for place in range(PROMPT, text.size):
            token = _next(model, text, place, rng)
            while rng.random() >= kept and not _is_green(mark, text, place, token):
                token = _next(model, text, place, rng)
            text[place] = token
    return texts


@njit(cache=True)
def draw_next(model, text, rng):
    """Return a token of the unmarked model after a text."""
    return _next(model, text, text.size, rng)


@njit(cache=True)
def forge(model, mark, notes, prompts, length, tries, rng):
    """Write texts that look marked: of some draws from the model, the likeliest to be green."""
    texts = np.empty((prompts.shape[0], PROMPT + length), np.int64)
    texts[:, :PROMPT] = prompts
    for text in texts:
        for place in range(PROMPT, text.size):
            best = -np.inf
            for _ in range(tries):
                token = _next(model, text, place, rng)
                odds = _odds(model, mark, notes, text, place, token)
                if odds > best:
                    best, text[place] = odds, token
    return texts


@njit
def _greens(model, mark, notes, text, place):
    """Return how many of the tokens whose colour hangs on a place are green, as expected."""
    total = 0.0
    for other in range(place, min(place + mark[2] + 1, text.size)):
        total += 1.0 / (1.0 + np.exp(-_odds(model, mark, notes, text, other, text[other])))
    return total


@njit(cache=True)
def wash(model, mark, notes, texts, edits, tries, rng):
    """Replace tokens where that loses most greens; return the texts after each number of edits.

    Substitutes are draws from the model. Edits are kept apart by the context width as long as
    there is room, because neighbours would spoil the same tokens twice.
    """
    h = mark[2]
    states = np.empty((edits.size, *texts.shape), np.int64)
    for number, original in enumerate(texts):
        text = original.copy()
        gains, substitutes = np.full(text.size, -np.inf), text.copy()
        for place in range(PROMPT, text.size):
            before, token = _greens(model, mark, notes, text, place), text[place]
            for _ in range(tries):
                text[place] = _next(model, text, place, rng)
                gain = before - _greens(model, mark, notes, text, place) + 1e-6 * rng.random()
                if text[place] != token and gain > gains[place]:
                    gains[place], substitutes[place] = gain, text[place]
            text[place] = token
        free, done = np.ones(text.size, np.bool_), 0
        for which, wanted in enumerate(edits):
            while done < wanted:
                open_gains = np.where(free, gains, -np.inf)
                if open_gains.max() == -np.inf:
                    open_gains = gains
                place = int(np.argmax(open_gains))
                text[place], gains[place] = substitutes[place], -np.inf
                free[max(place - h, 0) : place + h + 1] = False
                done += 1
            states[which, number] = text
    return states
