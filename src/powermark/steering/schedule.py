"""``Schedule``: the biases of a steered mark and their effect, as a spec stores them.

Texts longer than the horizon start a new block; each block has its own state.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Array
from powermark.errors import InvalidInput
from powermark.signals.edits import Edits
from powermark.signals.signal import MAX_DELTA
from powermark.steering.goal import BIASES, Tilt, matched_reward, read_reward
from powermark.theory.power import critical_count, unchecked_tail

STEP = 1.0 / 1024  # biases are multiples of it, so that they fit in a few kB
LONGEST = 2_000  # tokens of a horizon; a longer horizon would need megabytes
_GROUPS = ("rates", "weights", "lost")
_FIELDS = {"n_tokens", "deltas", *_GROUPS, "skipped"}
_MOST_GROUPS = 16
_ROUNDING = 1e-4


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
        (groups, biases) mean green rate under each of BIASES over the steps of some groups of the
        planned model's texts; gives the power of a text of any length.
    weights, lost
        (groups,) share of the texts, and share of their tokens whose signal is lost when a copy of
        the text is tokenised again. Schedules of version 0.1 have one group that loses nothing.
    skipped
        Tokens at the start of a text that neither count nor serve as context: a reader's copy may
        have lost the blank before the first word, and a steered text must reach its count. 0 in
        schedules of version 0.1.
    """

    gamma: float
    deltas: Array
    rates: Array
    weights: Array = field(default_factory=lambda: np.ones(1))
    lost: Array = field(default_factory=lambda: np.zeros(1))
    skipped: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", np.atleast_2d(self.rates))
        n = self.deltas.shape[0]
        if self.deltas.shape != (n, n + 1) or not 1 <= n <= LONGEST:
            raise InvalidInput(
                f"a schedule has n rows of n+1 biases, n up to {LONGEST:,}; "
                f"got shape {self.deltas.shape}."
            )
        if not ((self.deltas >= 0.0) & (self.deltas <= MAX_DELTA)).all():
            raise InvalidInput(f"a schedule's biases are from 0 to {MAX_DELTA:g}.")
        groups = self.weights.size
        if self.rates.shape != (groups, BIASES.size) or self.lost.shape != (groups,):
            raise InvalidInput(
                f"a schedule has {BIASES.size} rates and a share lost for each of its {groups} "
                f"groups; got {self.rates.shape} and {self.lost.shape}."
            )
        for shares in (self.rates, self.weights, self.lost):
            if not ((shares >= 0.0) & (shares <= 1.0)).all():
                raise InvalidInput("a schedule's rates, weights and shares are from 0 to 1.")
        if not abs(float(self.weights.sum()) - 1.0) < _ROUNDING:
            raise InvalidInput("the weights of a schedule's groups add up to 1.")

    @property
    def n_tokens(self) -> int:
        """The horizon, after which a new block starts."""
        return int(self.deltas.shape[0])

    @property
    def largest(self) -> float:
        """The largest bias."""
        return float(self.deltas.max())

    def __call__(self, scored: NDArray[np.int64], greens: NDArray[np.int64]) -> Array:
        """Return the bias after ``scored`` tokens of a block, ``greens`` of them green."""
        return np.asarray(self.deltas[scored, greens])

    def law(self, n_tokens: int) -> Array:
        """Return the law of the green count, as written, of a marked text with n scored tokens.

        The steps of a group are taken to be alike, at the stored rates; blocks are independent.
        """
        return np.asarray(self.weights @ self._group_laws(n_tokens))

    def _group_laws(self, n_tokens: int) -> Array:
        """Return the law of each group; (groups, n_tokens + 1)."""
        from scipy.signal import fftconvolve  # slow to load, and rarely needed

        blocks, rest = divmod(n_tokens, self.n_tokens)
        whole, power = np.ones((self.weights.size, 1)), self._laws[:, self.n_tokens]
        while blocks:  # by squaring
            if blocks & 1:
                whole = fftconvolve(whole, power, axes=1)
            blocks >>= 1
            power = fftconvolve(power, power, axes=1) if blocks else power
        return np.maximum(fftconvolve(whole, self._laws[:, rest, : rest + 1], axes=1), 0.0)

    def power(self, n_tokens: int, critical_count: int) -> float:
        """P(S >= critical_count) for a copy of a marked text with n scored tokens."""
        laws = self._group_laws(n_tokens)
        found = [
            self._found(n_tokens, critical_count, *each)
            for each in zip(laws, self.lost, strict=True)
        ]
        return float(np.clip(self.weights @ found, 0.0, 1.0))

    def _found(self, n_tokens: int, k: int, law: Array, lost: float) -> float:
        """P(S >= k) for texts that lose a share of their tokens, given the law as written."""
        fewer, part = divmod(lost * n_tokens, 1.0)
        found = law @ read_reward(n_tokens, k, self.gamma, int(fewer))
        if part > 0.0:
            more = law @ read_reward(n_tokens, k, self.gamma, int(fewer) + 1)
            found += part * (more - found)
        return float(found)

    def attacked_power(self, n_tokens: int, critical_count: int, edits: Edits) -> float:
        """As :meth:`power`, after edits; by two moments of the count that they leave."""
        n, k = n_tokens, critical_count
        found = [
            law @ matched_reward(n, k, self.gamma, edits.thinned(1.0 - lost, n))
            for law, lost in zip(self._group_laws(n), self.lost, strict=True)
        ]
        return float(np.clip(self.weights @ found, 0.0, 1.0))

    def diluted_power(self, n_tokens: int, critical_count: int, foreign: float) -> float:
        """As :meth:`power`, if a share of the tokens is foreign, and green only by chance."""
        others = round(foreign * n_tokens)
        law = self.law(n_tokens - others)
        chances = unchecked_tail(others, critical_count - np.arange(float(law.size)), self.gamma)
        return float(np.clip(law @ chances, 0.0, 1.0))

    def powers(self, alpha: float) -> Array:
        """Power of the exact test after each number of tokens of one block; (n+1,)."""
        counts = [int(critical_count(m, self.gamma, alpha)) for m in range(1, self.n_tokens + 1)]
        return np.array([0.0, *(self.power(m, k) for m, k in enumerate(counts, 1))])

    def tokens_needed(self, alpha: float, power: float) -> int | None:
        """Return the length of a block from which on the power holds; None if it never does."""
        lasting = np.minimum.accumulate(self.powers(alpha)[::-1])[::-1]
        return int(np.argmax(lasting >= power)) or None

    def draw(self, texts: int, n_tokens: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draw the colours of marked texts with n scored tokens; (texts, n_tokens)."""
        colours = np.zeros((texts, n_tokens), bool)
        greens = np.zeros(texts, np.int64)
        group = rng.choice(self.weights.size, texts, p=self.weights / self.weights.sum())
        for place in range(n_tokens):
            t = place % self.n_tokens
            greens = greens if t else np.zeros(texts, np.int64)
            colours[:, place] = rng.random(texts) < self.state_rates[group, t, greens]
            greens = greens + colours[:, place]
        if self.lost.any():
            lost = rng.random(colours.shape) < self.lost[group, None]
            colours = np.where(lost, rng.random(colours.shape) < self.gamma, colours)
        return colours

    @cached_property
    def state_rates(self) -> Array:
        """Green rate of each group in each state; (groups, n, n+1)."""
        kept = np.ones((1, self.n_tokens), bool)
        tilts = (Tilt(self.gamma, rates, kept=kept) for rates in self.rates)
        return np.stack([tilt.of_states(self.deltas) for tilt in tilts])

    @cached_property
    def _laws(self) -> Array:
        """Law of each group's count after 0, 1, ... tokens of a block; (groups, n+1, n+1)."""
        n = self.n_tokens
        laws = np.zeros((self.weights.size, n + 1, n + 1))
        laws[:, 0, 0] = 1.0
        for t in range(n):
            rates = self.state_rates[:, t]
            laws[:, t + 1] = laws[:, t] * (1.0 - rates)
            laws[:, t + 1, 1:] += (laws[:, t] * rates)[:, :-1]
        return laws

    def to_dict(self) -> dict[str, Any]:
        """Return the object stored in a spec: a few kB for a hundred tokens."""
        n = self.n_tokens
        steps = np.round(self.deltas[np.tril_indices(n, 0, n + 1)] / STEP)
        packed = zlib.compress(steps.astype("<u2").tobytes(), 9)  # two bytes hold MAX_DELTA
        return {
            "n_tokens": n,
            "deltas": base64.b64encode(packed).decode(),
            "rates": [[float(f"{rate:.5g}") for rate in rates] for rates in self.rates],
            "weights": [float(f"{weight:.7g}") for weight in self.weights],
            "lost": [float(f"{share:.4g}") for share in self.lost],
            "skipped": self.skipped,
        }

    @classmethod
    def from_dict(cls, found: Any, gamma: float) -> Self:
        """Read what :meth:`to_dict` wrote."""
        try:
            if "skipped" not in found:  # a schedule of 0.1
                found = {**found, "rates": [found["rates"]], "weights": [1.0], "lost": [0.0]}
                found["skipped"] = 0
            n, skipped = found["n_tokens"], found["skipped"]
            rates, weights, lost = (np.array(found[name], np.float64) for name in _GROUPS)
            whole = {type(n), type(skipped)} == {int} and skipped in (0, 1)
            if found.keys() != _FIELDS or not whole or not 1 <= n <= LONGEST:
                raise ValueError
            if (rates.ndim, weights.ndim, lost.ndim) != (2, 1, 1) or weights.size > _MOST_GROUPS:
                raise ValueError
            size = n * (n + 1) // 2
            reader = zlib.decompressobj()
            content = reader.decompress(base64.b64decode(found["deltas"], validate=True), 2 * size)
            if len(content) != 2 * size or reader.unconsumed_tail or reader.unused_data:
                raise ValueError
            deltas = np.zeros((n, n + 1))
            deltas[np.tril_indices(n, 0, n + 1)] = np.frombuffer(content, "<u2") * STEP
        except (
            AttributeError, ArithmeticError, KeyError, TypeError, ValueError, zlib.error
        ):  # fmt: skip
            raise InvalidInput("steering must be a schedule of biases.") from None
        return cls(gamma, deltas, rates, weights, lost, skipped)
