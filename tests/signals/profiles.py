"""Profiles of made-up distributions."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from powermark.signals.profile import Profile
from powermark.signals.profile_file import profile_digest
from powermark.signals.round_trip import RoundTrip

VOCAB, TEXTS, STEPS = 1500, 10, 30


def sample(seed: int = 0, kept: int = 64) -> tuple[np.ndarray, Profile]:
    """Spiky and flat distributions in texts of their own, and their profile."""
    rng = np.random.default_rng(seed)
    rows = [rng.dirichlet(np.full(VOCAB, a), STEPS) for a in np.geomspace(0.005, 0.5, TEXTS)]
    full = np.sort(np.concatenate(rows), axis=1)[:, ::-1]
    tail = full[:, kept:]
    profile = Profile(
        full[:, :kept].astype(np.float32),
        tail.sum(axis=1).astype(np.float32),
        (tail**2).sum(axis=1).astype(np.float32),
        np.repeat(np.arange(TEXTS), STEPS).astype(np.int32),
        rng.integers(0, 50, TEXTS * STEPS).astype(np.int32),
        np.zeros(TEXTS * STEPS, np.float32),
        {"model": "none", "tokenizer_digest": "ab", "vocab_size": VOCAB},
    )
    return full, dataclasses.replace(
        profile, about={**profile.about, "digest": profile_digest(profile)}
    )


def copied(lost: float, seed: int = 0) -> Profile:
    """Return the sample with different ids, of which each is lost with a probability."""
    _, profile = sample(seed)
    rng = np.random.default_rng(seed)
    ids = np.arange(profile.text.size, dtype=np.int32)
    step = np.where(rng.random(ids.size) < lost, -1, ids).astype(np.int32)
    again = np.where(step < 0, ids + 10_000, ids).astype(np.int32)
    round_trip = RoundTrip(profile.text, again, step, np.full(ids.size, 3, np.uint8))
    return dataclasses.replace(profile, ids=ids, round_trip=round_trip, source="text")


def profile_of(flat: NDArray[np.bool_]) -> Profile:
    """Return a profile whose steps are flat where told, (texts, steps); no token repeats."""
    size = flat.size
    certain = np.zeros(64)
    certain[0] = 1.0
    head = np.where(flat.ravel()[:, None], np.full(64, 1 / 64), certain).astype(np.float32)
    nothing = np.zeros(size, np.float32)
    text = np.repeat(np.arange(len(flat), dtype=np.int32), flat.shape[1])
    return Profile(head, nothing, nothing, text, np.arange(size, dtype=np.int32), nothing)
