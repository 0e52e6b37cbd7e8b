"""A steered schedule as it travels: a bias for each state, and what the biases do.

Texts longer than the horizon start a new block; each block has its own state.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from powermark.calibration.signal import MAX_DELTA
from powermark.calibration.tilt import BIASES, Tilt
from powermark.checks import Array
from powermark.errors import InvalidInput
from powermark.theory.power import critical_count, unchecked_tail

STEP = 1.0 / 1024  # biases are multiples of it, so that a few kB hold them
LONGEST = 2_000  # tokens of a horizon; a longer one would make a spec of megabytes


@dataclass(frozen=True, eq=False)
class Schedule:
    """Biases by tokens scored and greens so far.

    Parameters
    ----------
    gamma
        Green share.
    deltas
        (n, n+1) multiples of STEP; ``deltas[t, s]`` for the next token after t with s greens.
    rates
        Green rate under each of tilt's BIASES, on average over the planned model's steps; says
        what power a text of any length has.
    """

    gamma: float
    deltas: Array
    rates: Array

    def __post_init__(self) -> None:
        n = self.deltas.shape[0]
        if self.deltas.shape != (n, n + 1) or not 1 <= n <= LONGEST:
            raise InvalidInput(
                f"a schedule has n rows of n+1 biases, n up to {LONGEST:,}; "
                f"got shape {self.deltas.shape}."
            )
        if not ((self.deltas >= 0.0) & (self.deltas <= MAX_DELTA)).all():
            raise InvalidInput(f"a schedule's biases are from 0 to {MAX_DELTA:g}.")
        if self.rates.shape != BIASES.shape:
            raise InvalidInput(f"a schedule has {BIASES.size} rates; got {self.rates.size}.")
        if not ((self.rates >= 0.0) & (self.rates <= 1.0)).all():
            raise InvalidInput("a schedule's rates are from 0 to 1.")

    @property
    def n_tokens(self) -> int:
        """The horizon, after which a new block starts."""
        return int(self.deltas.shape[0])

    @property
    def largest(self) -> float:
        """The largest bias."""
        return float(self.deltas.max())

    def __call__(self, scored: NDArray[np.int64], greens: NDArray[np.int64]) -> Array:
        """Return the bias after so many tokens of a block, so many of them green."""
        return np.asarray(self.deltas[scored, greens])

    def law(self, n_tokens: int) -> Array:
        """Return the law of the green count of a marked text with so many scored tokens.

        Steps are taken to be alike, at the stored rates; blocks are independent.
        """
        from scipy.signal import fftconvolve  # slow to load, and seldom needed

        blocks, rest = divmod(n_tokens, self.n_tokens)
        whole, power = np.ones(1), self._laws[self.n_tokens]
        while blocks:  # by squaring
            if blocks & 1:
                whole = fftconvolve(whole, power)
            blocks >>= 1
            power = fftconvolve(power, power) if blocks else power
        return np.maximum(fftconvolve(whole, self._laws[rest][: rest + 1]), 0.0)

    def power(self, n_tokens: int, critical_count: int) -> float:
        """P(S >= critical_count) for a marked text with so many scored tokens."""
        return float(np.clip(self.law(n_tokens)[critical_count:].sum(), 0.0, 1.0))

    def diluted_power(self, n_tokens: int, critical_count: int, foreign: float) -> float:
        """As :meth:`power`, if a share of the tokens is another's and green by chance alone."""
        others = round(foreign * n_tokens)
        law = self.law(n_tokens - others)
        chances = unchecked_tail(others, critical_count - np.arange(float(law.size)), self.gamma)
        return float(np.clip(law @ chances, 0.0, 1.0))

    def powers(self, alpha: float) -> Array:
        """Power of the exact test after each number of tokens of one block; (n+1,)."""
        laws = self._laws
        counts = [int(critical_count(m, self.gamma, alpha)) for m in range(1, self.n_tokens + 1)]
        found = [laws[m, k:].sum() for m, k in enumerate(counts, 1)]
        return np.asarray(np.clip([0.0, *found], 0.0, 1.0))

    def tokens_needed(self, alpha: float, power: float) -> int | None:
        """First length of a block from which on the power holds; None if there is none."""
        lasting = np.minimum.accumulate(self.powers(alpha)[::-1])[::-1]
        return int(np.argmax(lasting >= power)) or None

    def draw(self, texts: int, n_tokens: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draw the colours of marked texts with so many scored tokens; (texts, n_tokens)."""
        colours = np.zeros((texts, n_tokens), bool)
        greens = np.zeros(texts, np.int64)
        for place in range(n_tokens):
            t = place % self.n_tokens
            greens = greens if t else np.zeros(texts, np.int64)
            colours[:, place] = rng.random(texts) < self.state_rates[t, greens]
            greens = greens + colours[:, place]
        return colours

    @cached_property
    def state_rates(self) -> Array:
        """Green rate in each state, steps being alike; (n, n+1)."""
        return Tilt(self.gamma, self.rates).of_states(self.deltas)

    @cached_property
    def _laws(self) -> Array:
        """Law of the count after each number of tokens of one block; (n+1, n+1)."""
        n = self.n_tokens
        laws = np.zeros((n + 1, n + 1))
        laws[0, 0] = 1.0
        for t in range(n):
            rates = self.state_rates[t]
            laws[t + 1] = laws[t] * (1.0 - rates)
            laws[t + 1, 1:] += (laws[t] * rates)[:-1]
        return laws

    def to_dict(self) -> dict[str, Any]:
        """Return what a spec holds: some kB for a hundred tokens."""
        n = self.n_tokens
        steps = np.round(self.deltas[np.tril_indices(n, 0, n + 1)] / STEP)
        packed = zlib.compress(steps.astype("<u2").tobytes(), 9)  # two bytes hold MAX_DELTA
        return {
            "n_tokens": n,
            "deltas": base64.b64encode(packed).decode(),
            "rates": [float(f"{rate:.7g}") for rate in self.rates],
        }

    @classmethod
    def from_dict(cls, found: Any, gamma: float) -> Self:
        """Read what :meth:`to_dict` wrote."""
        try:
            n, rates = found["n_tokens"], found["rates"]
            sound = found.keys() == {"n_tokens", "deltas", "rates"} and type(n) is int
            if not sound or not 1 <= n <= LONGEST or {type(rate) for rate in rates} != {float}:
                raise ValueError
            size = n * (n + 1) // 2
            reader = zlib.decompressobj()
            content = reader.decompress(base64.b64decode(found["deltas"], validate=True), 2 * size)
            if len(content) != 2 * size or reader.unconsumed_tail or reader.unused_data:
                raise ValueError
            deltas = np.zeros((n, n + 1))
            deltas[np.tril_indices(n, 0, n + 1)] = np.frombuffer(content, "<u2") * STEP
        except (AttributeError, KeyError, TypeError, ValueError, binascii.Error, zlib.error):
            raise InvalidInput("steering must be a schedule of biases.") from None
        return cls(gamma, deltas, np.array(rates))
