"""Texts with a known mark, made of green tokens at a given rate."""

import numpy as np

from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark


def marked_ids(
    spec: WatermarkSpec, key: SecretKey, n: int, rng: np.random.Generator, rate: float = 1.0
) -> list[int]:
    scheme = Watermark(spec, key).scheme
    ids: list[int] = rng.integers(0, spec.vocab_size, spec.context_width).tolist()
    while len(ids) < n:
        mask = scheme.green_masks([ids[len(ids) - spec.context_width :]])[0]
        ids.append(int(rng.choice(np.flatnonzero(mask == (rng.random() < rate)))))
    return ids
