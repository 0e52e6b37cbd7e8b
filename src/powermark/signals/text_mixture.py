"""The law of the green count over recorded texts that differ.

Given their distributions, the steps of a text are independent: the green count is Poisson-binomial
within a text, and a mixture of these laws over texts. Powers are computed from that mixture.

A strong mark also changes the distributions that follow, because the model continues from tokens
that it would not have chosen. So texts may have been written under marks of several strengths, the
strength being the share of tokens that a mark changes, ``E[y' - y] = gamma_prime - gamma``. The
texts of each strength form a level; :class:`Strengths` interpolates between the levels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark.checks import Array, logit_bias, open_unit
from powermark.signals.counts import poisson_binomial_tail
from powermark.signals.edits import Edits
from powermark.signals.green_mass import GreenMass
from powermark.signals.signal import SignalModel
from powermark.theory.roots import fixed_point

Places = list[NDArray[np.int64]]  # steps of each text, as indices into the green masses


class Strengths:
    """Weights of the levels, piecewise linear in the strength.

    Parameters
    ----------
    strength
        (steps,) strength of the mark under which each step was written.
    mass
        Green masses of the steps.
    """

    def __init__(self, strength: Array, mass: GreenMass) -> None:
        self.values, self.level = np.unique(strength, return_inverse=True)
        self._mass = mass
        self.of_design = lru_cache(maxsize=8)(self._of_design)

    def weights(self, strength: float) -> Array:
        """Return the weight of each level at a strength."""
        return np.array([np.interp(strength, self.values, row) for row in np.eye(self.values.size)])

    def _of_design(self, gamma: float, delta: float) -> Array:
        """Return the weight of each level for a design, at the strength of the design itself."""
        if self.values.size == 1:
            return np.ones(1)
        rates = self._mass.rates(gamma, delta)
        changed = np.bincount(self.level, rates) / np.bincount(self.level)
        return self.weights(fixed_point(self.values, np.maximum(changed - gamma, 0.0)))


@dataclass(frozen=True, eq=False)
class Texts:
    """Recorded texts as a detector sees them.

    Parameters
    ----------
    number
        (texts,) the number of each text in the profile.
    steps
        Each text's steps that count in the sampled ids.
    seen
        Each text's positions that a detector counts; -1 where a position has no signal.
    unread
        Steps at the start of each text that a detector has no context for.
    mass, strengths
        Of the steps in use.
    answered
        Share of the prompts after which the model wrote a text with a position that counts.
    """

    number: NDArray[np.int32]
    steps: Places
    seen: Places
    unread: int
    mass: GreenMass
    strengths: Strengths
    answered: float = 1.0

    @property
    def level(self) -> NDArray[np.int64]:
        """Level of each text."""
        return self.strengths.level[[steps[0] for steps in self.steps]]

    def rates(self, gamma: float, delta: float) -> Array:
        """Green rate of each step, and last that of a position without signal."""
        return np.append(self.mass.rates(gamma, delta), gamma)

    def rows(self, n: int, gamma: float, delta: float) -> Array:
        """Green rates of n positions of each text; a shorter text is repeated; (texts, n)."""
        return np.asarray(self.rates(gamma, delta)[self.seen_places(n)])

    @cached_property
    def seen_places(self) -> Callable[[int], NDArray[np.int64]]:
        """The steps of n positions of each text that a detector counts; (texts, n)."""
        return lru_cache(maxsize=4)(partial(_repeated, self.seen))

    @cached_property
    def read_places(self) -> Callable[[int], NDArray[np.int64]]:
        """The steps of n tokens of each text that a detector has a context for; (texts, n)."""
        first = self.unread
        late = [steps[first:] if steps.size > first else steps for steps in self.steps]
        return lru_cache(maxsize=4)(partial(_repeated, late))


def _repeated(places: Places, n: int) -> NDArray[np.int64]:
    """Return n places of each text, repeating those of shorter texts."""
    return np.stack([np.resize(text, n) for text in places])


class TextMixture(SignalModel):
    """A signal given by texts: a mixture of Poisson-binomial laws of the count."""

    @property
    @abstractmethod
    def texts(self) -> Texts:
        """The texts of the mixture."""

    @abstractmethod
    def level_weights(self, gamma: float, delta: float) -> Array:
        """Weight of each level of strength for a design; sums to 1."""

    def text_weights(self, gamma: float, delta: float) -> Array:
        """Weight of each text for a design; sums to 1."""
        level = self.texts.level
        return np.asarray((self.level_weights(gamma, delta) / np.bincount(level))[level])

    def green_rate(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        """Mean green rate of a position that a detector counts."""
        of = self.texts
        return _each(lambda g, d: self._mean(of.rates(g, d), of.seen, g, d), gamma, delta)

    def kl(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        """Mean KL of a step, in nats."""
        of = self.texts
        return _each(lambda g, d: self._mean(of.mass.costs(g, d), of.steps, g, d), gamma, delta)

    def power(self, n_tokens: int, critical_count: float, gamma: float, delta: float) -> float:
        """P(S >= critical_count) over texts like these."""
        rows = self.texts.rows(n_tokens, gamma, delta)
        return self._average(poisson_binomial_tail(rows, int(critical_count)), gamma, delta)

    def attacked_power(
        self, edits: Edits, n_tokens: int, critical_count: float, gamma: float, delta: float
    ) -> float:
        """P(S >= critical_count) after edits: the same mixture, edited text by text."""
        rows = self.texts.rows(n_tokens, gamma, delta)
        return self._average(edits.tail(rows, int(critical_count), gamma), gamma, delta)

    def variance_inflation(self, n_tokens: int, gamma: float, delta: float) -> float:
        """Var(S) / (n g' (1-g')) over texts like these, g' being the mean green rate."""
        return self.moments(n_tokens, gamma, delta)[1]

    def moments(self, n_tokens: int, gamma: float, delta: float) -> tuple[float, float]:
        """Green rate of a text's first n counted tokens, and the inflation of their variance."""
        rows, weights = self.texts.rows(n_tokens, gamma, delta), self.text_weights(gamma, delta)
        sums, rate = rows.sum(axis=1), float(weights @ rows.mean(axis=1))
        within = weights @ (rows * (1.0 - rows)).sum(axis=1)
        between = weights @ (sums - weights @ sums) ** 2
        binomial = n_tokens * rate * (1.0 - rate)
        return rate, float((within + between) / binomial) if binomial > 0.0 else 1.0

    def standard_errors(
        self,
        n_tokens: int,
        critical_count: float,
        gamma: float,
        delta: float,
        edits: Edits | None = None,
    ) -> dict[str, float] | None:
        """Standard errors of green rate, KL, power and attacked power, from texts' differences.

        A level with a single text gets the variance over the texts of all levels. None for a
        single text.
        """
        of = self.texts
        if len(of.steps) < 2:
            return None
        rows, k = of.rows(n_tokens, gamma, delta), int(critical_count)
        samples = {
            "gamma_prime": _text_means(of.rates(gamma, delta), of.seen),
            "kl": _text_means(of.mass.costs(gamma, delta), of.steps),
            "power": poisson_binomial_tail(rows, k),
        }
        if edits:
            samples["attacked_power"] = edits.tail(rows, k, gamma)
        level, weights = of.level, self.level_weights(gamma, delta)
        variances = dict.fromkeys(samples, 0.0)
        for which in np.flatnonzero(weights):
            mine = level == which
            for name, sample in samples.items():
                alike = sample[mine] if mine.sum() > 1 else sample
                variances[name] += weights[which] ** 2 * alike.var(ddof=1) / mine.sum()
        return {name: float(np.sqrt(variance)) for name, variance in variances.items()}

    def text_rates(
        self, gamma: float, deltas: Array, n_tokens: int
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Green rates at n steps of each text, their weights, and which steps are kept.

        Shapes (texts, n, biases), (texts,) and (texts, n). The weights are those of the middle
        bias; :meth:`at_strength` fixes them. A step that is not kept leaves no signal in the text
        that a detector sees.
        """
        of = self.texts
        places = of.read_places(n_tokens)
        rates = [of.mass.rates(gamma, float(delta))[places] for delta in deltas]
        weights = self.text_weights(gamma, float(deltas[deltas.size // 2]))
        return np.stack(rates, axis=-1), weights, np.isin(places, np.concatenate(of.seen))

    def rates_by_text(self, gamma: float, delta: float) -> tuple[list[Array], Array]:
        """Green rates of each text's positions that a detector counts, and the texts' weights."""
        rates = self.texts.rates(gamma, delta)
        return [rates[seen] for seen in self.texts.seen], self.text_weights(gamma, delta)

    def _mean(self, values: Array, places: Places, gamma: float, delta: float) -> float:
        """Mean over the places of texts, level by level."""
        level = np.repeat(self.texts.level, [text.size for text in places])
        means = np.bincount(level, values[np.concatenate(places)]) / np.bincount(level)
        return float(self.level_weights(gamma, delta) @ means)

    def _average(self, powers: Array, gamma: float, delta: float) -> float:
        """Mean of a probability over texts; rounding must not lift it above 1."""
        return min(1.0, float(self.text_weights(gamma, delta) @ powers))


def _text_means(values: Array, places: Places) -> Array:
    return np.array([values[text].mean() for text in places])


def _each(function: Callable[[float, float], float], gamma: ArrayLike, delta: ArrayLike) -> Array:
    """Call a function for each pair of gamma and delta, broadcast."""
    g, d = np.broadcast_arrays(open_unit("gamma", gamma), logit_bias(delta))
    return np.asarray(np.vectorize(function, otypes=[np.float64])(g, d))
