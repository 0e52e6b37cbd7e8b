"""Priors of next-token distributions: the paper's Dirichlet, and the richer priors of its remark.

``Dirichlet`` gives the green mass a Beta law. ``BetaMixture`` has steps of different concentration,
drawn independently; ``TopicMixture`` makes the steps of a text alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from powermark.checks import Array, in_interval, logit_bias, open_unit, positive
from powermark.errors import InvalidInput
from powermark.signals.edits import Edits
from powermark.signals.green_mass import GreenMass
from powermark.signals.signal import SignalModel
from powermark.theory.beta import beta_expectation
from powermark.theory.distortion import token_kl
from powermark.theory.green_rate import token_green_rate
from powermark.theory.power import binomial_tail

_SMALLEST = 1e-100  # concentration; times gamma it must still be a double
_TEXTS, _EVERY = 4096, 32  # points for the shares of topics in a text; every 32nd after edits


@dataclass(frozen=True)
class BetaMixture(SignalModel):
    """Green mass from a mixture of Beta(gamma A, (1-gamma) A) laws with total concentrations A.

    A large A is a flat next-token distribution (y close to gamma), a small one a spiky step whose
    mass is nearly all green or all red. The mean is gamma for every A, as it must be for a list
    drawn at random.

    Parameters
    ----------
    weights
        Shares of the components; scaled to sum to 1.
    concentrations
        Total concentration A of each component.
    """

    independent = True

    weights: tuple[float, ...]
    concentrations: tuple[float, ...]

    def __post_init__(self) -> None:
        weights = np.atleast_1d(positive("weights", self.weights))
        concentrations = np.atleast_1d(
            in_interval("concentrations", self.concentrations, _SMALLEST, np.inf, closed="low")
        )
        if weights.shape != concentrations.shape or weights.ndim != 1:
            raise InvalidInput(
                f"weights and concentrations must be of equal length; "
                f"got {weights.size} and {concentrations.size}."
            )
        object.__setattr__(self, "weights", tuple((weights / weights.sum()).tolist()))
        object.__setattr__(self, "concentrations", tuple(concentrations.tolist()))

    @property
    def name(self) -> str:
        parts = "+".join(
            f"{w:.4g}*{a:.4g}" for w, a in zip(self.weights, self.concentrations, strict=True)
        )
        return f"beta-mixture({parts})"

    def green_rate(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        rates: Array = self._average(token_green_rate, gamma, delta) @ np.asarray(self.weights)
        return rates

    def kl(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        costs: Array = self._average(token_kl, gamma, delta) @ np.asarray(self.weights)
        return costs

    def _average(
        self, function: Callable[[Array, Array], Array], gamma: ArrayLike, delta: ArrayLike
    ) -> Array:
        """Expectation of ``function(y, delta)`` within each component; (..., components)."""
        g, d = np.broadcast_arrays(open_unit("gamma", gamma), logit_bias(delta))
        g, d = g[..., None], d[..., None]
        a = np.asarray(self.concentrations)
        return beta_expectation(
            lambda y: function(y, d[..., None]),
            g * a,
            (1.0 - g) * a,
            reach=40.0 + float(np.max(d, initial=0.0)),  # beyond it the lemma has its limits
        )


@dataclass(frozen=True, init=False)
class Dirichlet(BetaMixture):
    """The paper's prior, Assumption 3.4: next-token distributions from Dir(concentration).

    Exact for a finite vocabulary: y is Beta(gamma A, (1-gamma) A) with A = vocab_size *
    concentration. The paper has concentration 1, which is far from any real model.

    With a concentration for each token (the paper's general case, Appendix A.4), the green tokens'
    share u of the sum A is random too, with the law of a green mass, and y is Beta(u A, (1-u) A).
    """

    vocab_size: int = 0
    concentration: float | tuple[float, ...] = 1.0

    def __init__(self, vocab_size: int, concentration: ArrayLike = 1.0) -> None:
        in_interval("vocab_size", vocab_size, 2, np.inf, closed="low")
        each = positive("concentration", concentration)
        if each.ndim > 1 or (each.ndim == 1 and each.size != vocab_size):
            raise InvalidInput(
                f"concentration must be one number or {vocab_size}; got shape {each.shape}."
            )
        total = float(each.sum()) if each.ndim else vocab_size * float(each)
        super().__init__(weights=(1.0,), concentrations=(total,))
        object.__setattr__(self, "vocab_size", vocab_size)
        object.__setattr__(
            self, "concentration", tuple(each.tolist()) if each.ndim else float(each)
        )

    @property
    def name(self) -> str:
        a = self.concentration
        shown = f"{a:.4g}" if isinstance(a, float) else f"{len(a)} values, {hash(a) & 0xFFFFFF:06x}"
        return f"dirichlet(V={self.vocab_size},a={shown})"

    def _average(
        self, function: Callable[[Array, Array], Array], gamma: ArrayLike, delta: ArrayLike
    ) -> Array:
        if isinstance(self.concentration, float):
            return super()._average(function, gamma, delta)
        g, d = np.broadcast_arrays(open_unit("gamma", gamma), logit_bias(delta))
        each = np.vectorize(lambda g, d: self._uneven(function, g, d), otypes=[np.float64])
        return np.asarray(each(g, d))[..., None]

    def _uneven(
        self, function: Callable[[Array, Array], Array], gamma: float, delta: float
    ) -> float:
        """Expectation over the share u of the green tokens' concentrations, then over y."""
        u, weights = (values[0] for values in self._green_shares.nodes(gamma))
        u, a = np.clip(u, 1e-9, 1.0 - 1e-9), self.concentrations[0]
        values = beta_expectation(
            lambda y: function(y, np.asarray(delta)), u * a, (1.0 - u) * a, reach=40.0 + delta
        )
        return float(weights @ values)

    @cached_property
    def _green_shares(self) -> GreenMass:
        """Law of the share u, where each token has its own concentration."""
        shares = np.sort(np.asarray(self.concentration) / self.concentrations[0])[::-1]
        head, tail = shares[None, :64], shares[None, 64:]
        return GreenMass(head, tail.sum(axis=1), (tail**2).sum(axis=1))


@dataclass(frozen=True)
class TopicMixture(SignalModel):
    """Topics, as in latent Dirichlet allocation (Blei et al., 2003), so that texts differ.

    A text draws its shares of the topics, theta ~ Dir(concentration); each of its steps draws a
    topic from theta and a next-token distribution from that topic's prior. Given theta the steps
    are independent with green rate ``theta . rates``, so the count is a mixture of binomials.

    Parameters
    ----------
    topics
        The signal of each topic.
    concentration
        Of the texts' shares; the smaller, the more a text keeps to one topic.
    """

    topics: tuple[BetaMixture, ...]
    concentration: tuple[float, ...]

    def __post_init__(self) -> None:
        each = np.atleast_1d(positive("concentration", self.concentration))
        if each.ndim != 1 or each.size != len(self.topics):
            raise InvalidInput(
                f"concentration must be one number per topic, {len(self.topics)}; got {each.size}."
            )
        object.__setattr__(self, "concentration", tuple(each.tolist()))

    @property
    def name(self) -> str:
        parts = "+".join(
            f"{a:.4g}*{topic.name}"
            for a, topic in zip(self.concentration, self.topics, strict=True)
        )
        return f"topics({parts})"

    @property
    def _weights(self) -> Array:
        each = np.asarray(self.concentration)
        return np.asarray(each / each.sum())

    @cached_property
    def _texts(self) -> Array:
        """Shares of the topics in texts, evenly spread over their law; (texts, topics)."""
        return _dirichlet_points(np.asarray(self.concentration), _TEXTS)

    def green_rate(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        return np.tensordot(self._weights, [t.green_rate(gamma, delta) for t in self.topics], 1)

    def kl(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        return np.tensordot(self._weights, [t.kl(gamma, delta) for t in self.topics], 1)

    def variance_inflation(self, n_tokens: int, gamma: float, delta: float) -> float:
        rates = np.array([float(topic.green_rate(gamma, delta)) for topic in self.topics])
        mean = float(self._weights @ rates)
        between = float(self._weights @ (rates - mean) ** 2) / (1.0 + sum(self.concentration))
        bernoulli = mean * (1.0 - mean)
        return 1.0 + (n_tokens - 1) * between / bernoulli if bernoulli > 0.0 else 1.0

    def power(self, n_tokens: int, critical_count: float, gamma: float, delta: float) -> float:
        return float(binomial_tail(n_tokens, critical_count, self._text_rates(gamma, delta)).mean())

    def attacked_power(
        self, edits: Edits, n_tokens: int, critical_count: float, gamma: float, delta: float
    ) -> float:
        rates = np.sort(self._text_rates(gamma, delta))[_EVERY // 2 :: _EVERY]
        powers = [edits.attacked_power(n_tokens, critical_count, gamma, r, 1.0) for r in rates]
        return float(np.mean(powers))

    def text_rates(
        self, gamma: float, deltas: Array, n_tokens: int
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Green rates of texts, (texts, 1, biases), since their steps are alike; all are kept."""
        each = np.stack([topic.green_rate(gamma, deltas) for topic in self.topics])
        rates = self._texts @ each
        chosen = rates[np.argsort(rates.mean(axis=1))[_EVERY // 2 :: _EVERY]]
        texts = len(chosen)
        kept = np.ones((texts, n_tokens), bool)
        return np.clip(chosen[:, None], 0.0, 1.0), np.full(texts, 1.0 / texts), kept

    def _text_rates(self, gamma: float, delta: float) -> Array:
        """Green rates of texts, evenly spread over their law."""
        rates = np.array([float(topic.green_rate(gamma, delta)) for topic in self.topics])
        return np.asarray(np.clip(self._texts @ rates, 0.0, 1.0))


def _dirichlet_points(concentration: Array, count: int) -> Array:
    """Return evenly spread draws of a Dirichlet law, a lattice through Gamma quantiles; (count, k).

    The lattice is that of the generalised golden ratio, ``x^(k+1) = x + 1``.
    """
    k = concentration.size
    ratio = optimize.brentq(lambda x: x ** (k + 1) - x - 1.0, 1.0, 2.0)
    steps = ratio ** -np.arange(1.0, k + 1.0)
    uniform = (0.5 + np.arange(1.0, count + 1.0)[:, None] * steps) % 1.0
    draws = special.gammaincinv(concentration, uniform)
    # near 0 the distribution function is x^a / Gamma(a+1), whose inverse does not underflow
    tiny = (np.log(uniform) + special.gammaln(concentration + 1.0)) / concentration
    logs = np.where(draws > 1e-200, np.log(np.maximum(draws, 1e-200)), tiny)
    return np.asarray(special.softmax(logs, axis=1))
