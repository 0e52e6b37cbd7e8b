"""A made-up profile as long as a real one: spiky steps of chat and prose, in texts that differ."""

from __future__ import annotations

import numpy as np

from powermark.signals.profile import Profile
from powermark.signals.round_trip import RoundTrip

KEPT = 64  # likeliest tokens of a step that a profile keeps
_NEW = 3  # tokens at the start of a copy that a detector does not count
_CHANGED = 0.01  # share of tokens that the tokenizer replaces in a copy


def chat_profile(texts: int, tokens: int, seed: int = 0) -> Profile:
    """Return a profile of texts of which a detector counts so many tokens.

    A step is nearly certain or open, and its neighbour tends to be alike; the share of certain
    steps differs between texts, from a third to most of them.
    """
    rng, length = np.random.default_rng(seed), tokens + _NEW
    shares = rng.beta(6.0, 4.0, texts)
    certain = rng.random((texts, length)) < shares[:, None]
    alike = rng.random((texts, length)) < 0.3
    for t in range(1, length):
        certain[:, t] = np.where(alike[:, t], certain[:, t - 1], certain[:, t])
    parts = [_steps(rng, row) for row in certain]  # text by text, to save memory
    head, mass, square = (np.concatenate(part) for part in zip(*parts, strict=True))
    text = np.repeat(np.arange(texts, dtype=np.int32), length)
    ids = np.arange(text.size, dtype=np.int32)  # no token repeats
    step = np.where(rng.random(ids.size) < _CHANGED, -1, ids).astype(np.int32)
    copy = np.where(step < 0, ids + ids.size, ids).astype(np.int32)
    returns = np.where(step < 0, 0, 3).astype(np.uint8)
    nothing = np.zeros(ids.size, np.float32)
    about = {"model": "made up", "vocab_size": 2 * ids.size, "digest": f"{seed:064x}"}
    round_trip = RoundTrip(text, copy, step, returns)
    return Profile(head, mass, square, text, ids, nothing, about, round_trip)


def _steps(
    rng: np.random.Generator, certain: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return heads, tail masses and tail squares of the steps of a text."""
    flatness = np.where(certain, 0.002, 10.0 ** rng.uniform(-1.5, 0.0, certain.size))
    weights = rng.gamma(flatness[:, None], size=(certain.size, 2 * KEPT)) + 1e-12
    p = -np.sort(-weights / weights.sum(axis=1, keepdims=True), axis=1)
    tail = p[:, KEPT:]
    parts = (p[:, :KEPT], tail.sum(axis=1), (tail**2).sum(axis=1))
    head, mass, square = (part.astype(np.float32) for part in parts)
    return head, mass, square
