"""The marks under attack, and what the real detector says of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.stealing.kernels import PROMPT
from benchmarks.stealing.language import Ids, Language
from powermark.detection.detector import Detector
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import threshold
from powermark.watermark.spec import WatermarkSpec

LENGTH, ALPHAS = 200, (0.01, 0.001)  # tokens of a text; levels of the detector
POWER = 0.95  # that a mark is made strong enough for, at the lesser level


class Mark:
    """One mark: its parts for the kernels, and its detector."""

    def __init__(self, spec: WatermarkSpec, key: SecretKey) -> None:
        k0, k1 = (np.uint64(half) for half in key.siphash_key)
        parts = (threshold(spec.gamma), spec.gamma, float(spec.delta))
        self.spec, self.parts = spec, (k0, k1, spec.context_width, *parts)
        self._detector = Detector(spec, key, alpha=min(ALPHAS))

    def found(self, texts: Ids) -> NDArray[np.float64]:
        """Return the share of texts called watermarked at each level."""
        bodies = texts[:, PROMPT - self.spec.context_width :]  # every token of a text has a context
        offsets = np.arange(bodies.shape[0] + 1) * bodies.shape[1]
        log_p = self._detector.find(np.ascontiguousarray(bodies).ravel(), offsets).log_p
        return np.asarray([(log_p <= np.log(alpha)).mean() for alpha in ALPHAS])


def make_mark(language: Language, key: SecretKey, gamma: float, delta: float, h: int) -> Mark:
    """Return a mark over a language's tokens."""
    fields: dict[str, Any] = {"gamma": gamma, "delta": delta, "context_width": h}
    return Mark(WatermarkSpec(vocab_size=language.vocab_size, **fields), key)


def planned_delta(language: Language, gamma: float, rng: np.random.Generator) -> float:
    """Return the least bias, in steps of .1, that makes POWER of the texts found."""
    key = SecretKey(rng.bytes(32))
    for delta in np.arange(0.5, 10.0, 0.1):
        mark = make_mark(language, key, gamma, round(float(delta), 1), 2)
        if mark.found(language.write(500, LENGTH, mark.parts, rng))[1] >= POWER:
            return float(mark.spec.delta)
    raise AssertionError("no bias marks this language")
