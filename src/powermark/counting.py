"""The rule of which tokens count, as compiled kernels (Numba).

A token counts once it has a whole context, is no special token, and is the first of its text with
its seed and id (v2 of *Three Bricks to Consolidate Watermarks*, Fernandez et al., 2023, on seeds
in place of contexts: two contexts with one seed share their list, so a second look at it would
bring no evidence of its own). Under H0 the colours that count are then independent, each green
with probability gamma, and the green count is exactly Binomial.

Two callers use these kernels: :mod:`powermark.detection.scoring`, and profiles, which have no key
and let contexts stand for seeds. ``Counting`` in :mod:`powermark.watermark.tracker` has the same
rule for texts that grow token by token; ``tests/watermark/test_counting.py`` holds the two equal.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SCORED, NO_CONTEXT, REPEATED, SPECIAL, PADDING, PROMPT = range(6)  # states of a token
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@njit(cache=True, nogil=True)
def states(special, present, offsets, prompts, skipped, h):
    """Return each token's state; repeats are found later, by :func:`mark_repeats`.

    Text i has the places from offsets[i] to offsets[i + 1]; the first prompts[i] are its prompt's.
    ``special`` and ``present`` (not padding) are masks. A context must lie within the text and its
    prompt, without padding and without the first skipped[i] tokens.
    """
    found = np.empty(special.shape[0], np.uint8)
    for text in range(offsets.shape[0] - 1):
        known = -skipped[text]  # real tokens in a row before this one
        for i in range(offsets[text], offsets[text + 1]):
            if not present[i]:
                found[i], known = PADDING, 0
                continue
            if i < offsets[text] + prompts[text]:
                found[i] = PROMPT
            elif known < h:
                found[i] = NO_CONTEXT
            elif special[i]:
                found[i] = SPECIAL
            else:
                found[i] = SCORED
            known += 1
    return found


@njit
def _is_new(stamps, kept_seeds, kept_tokens, stamp, seed, token):
    """Add a pair to an open-addressing set, whose slots with this stamp are in use."""
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
