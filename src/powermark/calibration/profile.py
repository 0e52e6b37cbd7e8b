"""``Profile``: the signal of a real model, from a sample of its own next-token distributions.

What a mark does at a step follows from the step's distribution (:mod:`.green_mass`). Given their
distributions, the steps of a text are independent: the green count is Poisson-binomial within a
text, and a mixture of these over texts. Powers are computed from that law.

Steps that repeat an earlier token after an earlier context are left out: a detector does not count
them, and in marked text they are not like others, as loops live on where their tokens are green.

A strong mark changes what comes next, too: the model goes on from tokens that it would not have
chosen, and its distributions are others than in unmarked text. So a profile may hold texts that
were written under marks of several strengths, the strength being the share of tokens that a mark
changes, ``E[y' - y] = gamma_prime - gamma``. What a design gives is interpolated between them, at
the strength that it has itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark.calibration.counts import poisson_binomial_tail
from powermark.calibration.edits import CONTEXT_WIDTH, Edits
from powermark.calibration.green_mass import GreenMass
from powermark.calibration.signal import SignalModel
from powermark.checks import Array, logit_bias, open_unit
from powermark.errors import InvalidInput
from powermark.theory.roots import fixed_point

_ENOUGH = 8  # texts of a level, roughly, to compare designs with


@dataclass(frozen=True, eq=False)
class Profile(SignalModel):
    """A sample of next-token distributions, in texts.

    Parameters
    ----------
    head
        (steps, K) the K largest probabilities of each step, descending.
    tail_mass, tail_square
        (steps,) sum and sum of squares of the others.
    text
        (steps,) which text a step belongs to; the steps of a text are in order.
    ids
        (steps,) the token that was sampled.
    strength
        (steps,) share of tokens that the mark changed under which the text was written; 0 for
        unmarked text, of which there must be some.
    about
        Model, tokenizer digest, sampling settings and the like; ``about["digest"]`` names it.
    """

    head: NDArray[np.float32]
    tail_mass: NDArray[np.float32]
    tail_square: NDArray[np.float32]
    text: NDArray[np.int32]
    ids: NDArray[np.int32]
    strength: NDArray[np.float32]
    about: dict[str, Any] = field(default_factory=dict)

    _mass: GreenMass = field(init=False, repr=False)
    _level: NDArray[np.int64] = field(init=False, repr=False)
    _first: NDArray[np.int64] = field(init=False, repr=False)
    _strengths: Array = field(init=False, repr=False)
    _shares: Callable[[float, float], Array] = field(init=False, repr=False)
    _places: Callable[[int], NDArray[np.int64]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        each = (self.tail_mass, self.tail_square, self.text, self.ids, self.strength)
        fits = {array.shape for array in each} == {self.head.shape[:1]}
        numbers = all(array.dtype.kind in "fiu" for array in (self.head, *each))
        if self.head.ndim != 2 or self.head.size == 0 or not fits or not numbers:
            raise InvalidInput(
                "a profile needs a head, tail, text number, id and strength for each step."
            )
        counted = _counted(self.ids, self.text, CONTEXT_WIDTH)
        strengths, level = np.unique(self.strength[counted], return_inverse=True)
        if strengths[0] != 0.0:
            raise InvalidInput("a profile needs unmarked text.")
        text = self.text[counted]
        mass = (self.head[counted], self.tail_mass[counted], self.tail_square[counted])
        for name, value in (
            ("_mass", GreenMass(*mass)),
            ("_level", level),
            ("_first", np.flatnonzero(np.diff(text, prepend=text[0] - 1))),
            ("_strengths", strengths.astype(np.float64)),
            ("_shares", lru_cache(maxsize=8)(self._make_shares)),
            ("_places", lru_cache(maxsize=8)(self._make_places)),
        ):
            object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """Short name, as it stands in signatures."""
        return f"profile({str(self.about.get('digest', 'unnamed'))[:12]})"

    @property
    def origin(self) -> dict[str, Any]:
        """Model, settings and sample, with the number of texts and steps."""
        return {**self.about, "texts": np.unique(self.text).size, "steps": self.text.size}

    def green_rate(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        """Mean green rate of a step."""
        return self._each(lambda g, d: self._mean(self._mass.rates(g, d), g, d), gamma, delta)

    def kl(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        """Mean KL of a step, in nats."""
        return self._each(lambda g, d: self._mean(self._mass.costs(g, d), g, d), gamma, delta)

    def power(self, n_tokens: int, critical_count: float, gamma: float, delta: float) -> float:
        """P(S >= critical_count) over texts like these: a mixture of Poisson-binomial laws."""
        return self._average(self._powers(n_tokens, critical_count, gamma, delta), gamma, delta)

    def attacked_power(
        self, edits: Edits, n_tokens: int, critical_count: float, gamma: float, delta: float
    ) -> float:
        """P(S >= critical_count) after edits: the same mixture, edited text by text."""
        powers = edits.tail(self._rows(n_tokens, gamma, delta), int(critical_count), gamma)
        return self._average(powers, gamma, delta)

    def variance_inflation(self, n_tokens: int, gamma: float, delta: float) -> float:
        """Var(S) / (n g' (1-g')) over texts like these, g' being the mean green rate."""
        rows, weights = self._rows(n_tokens, gamma, delta), self._text_weights(gamma, delta)
        sums, rate = rows.sum(axis=1), float(weights @ rows.mean(axis=1))
        within = weights @ (rows * (1.0 - rows)).sum(axis=1)
        between = weights @ (sums - weights @ sums) ** 2
        binomial = n_tokens * rate * (1.0 - rate)
        return float((within + between) / binomial) if binomial > 0.0 else 1.0

    def standard_errors(
        self,
        n_tokens: int,
        critical_count: float,
        gamma: float,
        delta: float,
        edits: Edits | None = None,
    ) -> dict[str, float] | None:
        """Standard errors of green rate, KL, power and attacked power, from texts' differences.

        Texts of a level that has only one are taken to differ as those of all levels do. None
        where there is but one text.
        """
        samples = {
            "gamma_prime": self._text_means(self._mass.rates(gamma, delta)),
            "kl": self._text_means(self._mass.costs(gamma, delta)),
            "power": self._powers(n_tokens, critical_count, gamma, delta),
        }
        if edits:
            rows = self._rows(n_tokens, gamma, delta)
            samples["attacked_power"] = edits.tail(rows, int(critical_count), gamma)
        if self._first.size < 2:
            return None
        level, shares = self._level[self._first], self._shares(gamma, delta)
        variances = dict.fromkeys(samples, 0.0)
        for which in np.flatnonzero(shares):
            mine = level == which
            for name, sample in samples.items():
                alike = sample[mine] if mine.sum() > 1 else sample
                variances[name] += shares[which] ** 2 * alike.var(ddof=1) / mine.sum()
        return {name: float(np.sqrt(variance)) for name, variance in variances.items()}

    def text_rates(self, gamma: float, deltas: Array, n_tokens: int) -> tuple[Array, Array]:
        """Green rates at n steps of each text, (texts, n, biases), and the texts' weights.

        The weights are those of the middle bias; :meth:`at_strength` fixes them.
        """
        places = self._places(n_tokens)
        rates = [self._mass.rates(gamma, float(delta))[places] for delta in deltas]
        weights = self._text_weights(gamma, float(deltas[deltas.size // 2]))
        return np.stack(rates, axis=-1), weights

    def thinned(self) -> Profile:
        """Return a profile of some of the texts, level by level, to compare designs with."""
        first = np.flatnonzero(np.diff(self.text, prepend=self.text[0] - 1))
        level = self.strength[first]
        kept = np.zeros(level.size, bool)
        for which in self._strengths:
            mine = np.flatnonzero(level == np.float32(which))
            kept[mine[:: max(1, -(-mine.size // _ENOUGH))]] = True
        steps = np.repeat(kept, np.diff(np.append(first, self.text.size)))
        names = ("head", "tail_mass", "tail_square", "text", "ids", "strength")
        return Profile(**{name: getattr(self, name)[steps] for name in names}, about=self.about)

    def at_strength(self, strength: float) -> Profile:
        """Return the same profile for marks that change this share of the tokens."""
        if self._strengths.size == 1:
            return self
        other = object.__new__(Profile)  # what is computed is shared
        other.__dict__.update(self.__dict__)
        object.__setattr__(other, "_shares", lambda *_: self._hats(strength))
        return other

    def green_masses(self, gamma: float, draws: int, rng: np.random.Generator) -> Array:
        """Draw green masses of the steps of unmarked text, under lists drawn at random."""
        plain, of = self._level == 0, self._mass
        head, mass, square = (
            x[plain].astype(np.float64) for x in (of.head, of.tail_mass, of.tail_square)
        )
        a = np.clip(mass**2 / np.maximum(square, 1e-300) - 1.0, 1e-3, 1e9)
        masses = [
            np.einsum("ij,ij->i", head, rng.random(head.shape) < gamma)
            + mass * rng.beta(gamma * a, (1.0 - gamma) * a)
            for _ in range(draws)
        ]
        return np.asarray(np.minimum(np.concatenate(masses), 1.0))

    def scored_share(self, context_width: int = CONTEXT_WIDTH) -> float:
        """Share of generated tokens that a detector would count, repeats being left out."""
        return float(_counted(self.ids, self.text, context_width).mean())

    def _make_shares(self, gamma: float, delta: float) -> Array:
        """How much each level counts for a design, at the strength that it has itself."""
        levels = self._strengths
        if levels.size == 1:
            return np.ones(1)
        changed = np.bincount(self._level, self._mass.rates(gamma, delta)) / np.bincount(
            self._level
        )
        return self._hats(fixed_point(levels, np.maximum(changed - gamma, 0.0)))

    def _hats(self, strength: float) -> Array:
        """How much each level counts at a strength: piecewise linear interpolation."""
        levels = self._strengths
        return np.array([np.interp(strength, levels, row) for row in np.eye(levels.size)])

    def _mean(self, values: Array, gamma: float, delta: float) -> float:
        """Mean over steps, level by level."""
        means = np.bincount(self._level, values) / np.bincount(self._level)
        return float(self._shares(gamma, delta) @ means)

    def _average(self, powers: Array, gamma: float, delta: float) -> float:
        """Mean over texts of a probability, which rounding must not lift above 1."""
        return min(1.0, float(self._text_weights(gamma, delta) @ powers))

    def _text_weights(self, gamma: float, delta: float) -> Array:
        """How much each text counts; sums to 1."""
        level = self._level[self._first]
        return np.asarray((self._shares(gamma, delta) / np.bincount(level))[level])

    def _text_means(self, values: Array) -> Array:
        lengths = np.diff(np.append(self._first, self._level.size))
        return np.asarray(np.add.reduceat(values, self._first) / lengths)

    def _powers(self, n_tokens: int, critical_count: float, gamma: float, delta: float) -> Array:
        """Power for each text."""
        return poisson_binomial_tail(self._rows(n_tokens, gamma, delta), int(critical_count))

    def _rows(self, n: int, gamma: float, delta: float) -> Array:
        """Green rates of n tokens of each text; one that is shorter begins again; (texts, n)."""
        return np.asarray(self._mass.rates(gamma, delta)[self._places(n)])

    def _make_places(self, n: int) -> NDArray[np.int64]:
        texts = np.split(np.arange(self._level.size), self._first[1:])
        return np.stack([np.resize(steps, n) for steps in texts])

    def __reduce__(self) -> tuple[Any, ...]:  # what is computed is computed anew
        names = ("head", "tail_mass", "tail_square", "text", "ids", "strength", "about")
        return Profile, tuple(getattr(self, name) for name in names)

    @staticmethod
    def _each(
        function: Callable[[float, float], float], gamma: ArrayLike, delta: ArrayLike
    ) -> Array:
        g, d = np.broadcast_arrays(open_unit("gamma", gamma), logit_bias(delta))
        return np.asarray(np.vectorize(function, otypes=[np.float64])(g, d))


def _counted(
    ids: NDArray[np.int32], text: NDArray[np.int32], context_width: int
) -> NDArray[np.bool_]:
    """Say which tokens are the first of their text after their context.

    The first ones of a text have their context in the prompt, and count.
    """
    kept = np.zeros(ids.size, bool)
    starts = np.flatnonzero(np.diff(text, prepend=text[0] - 1))
    for start, stop in zip(starts, [*starts[1:], ids.size], strict=True):
        if stop - start <= context_width:
            kept[start:stop] = True
            continue
        windows = np.lib.stride_tricks.sliding_window_view(ids[start:stop], context_width + 1)
        kept[start : start + context_width] = True
        kept[start + context_width + np.unique(windows, axis=0, return_index=True)[1]] = True
    return kept
