"""``Profile``: the signal of a real model, from a sample of its own next-token distributions.

For one distribution p and a random green list of share gamma, the green mass is

    y = sum_k p_k G_k,   G_k independent Bernoulli(gamma).

The likeliest tokens are enumerated: all 2^J colourings, with their probabilities, polynomials in
gamma. What is left has mean ``gamma r`` and variance ``gamma (1-gamma) s`` (r its mass, s its sum
of squares), and is given the Beta law on [0, r] with these moments, by Gauss-Jacobi quadrature. So
the green rate and KL of each step are smooth in gamma and delta, without drawing a single list.

Given its distributions, the steps of a text are independent: the green count is Poisson-binomial
within a text, and a mixture of these over texts. Powers are computed from that law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from powermark.calibration.signal import SignalModel
from powermark.checks import Array, logit_bias, open_unit
from powermark.errors import InvalidInput
from powermark.theory.green_rate import token_green_rate

ENUMERATED = 6  # tokens whose colourings are all looked at
NODES = 4  # of the quadrature for the rest
LONGEST_EXACT = 2_000  # tokens up to which the count's law is computed exactly


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
    about
        Model, tokenizer digest, sampling settings and the like; ``about["digest"]`` names it.
    """

    head: NDArray[np.float32]
    tail_mass: NDArray[np.float32]
    tail_square: NDArray[np.float32]
    text: NDArray[np.int32]
    ids: NDArray[np.int32]
    about: dict[str, Any] = field(default_factory=dict)

    _nodes: Callable[[float], tuple[Array, Array]] = field(init=False, repr=False)
    _rates: Callable[[float, float], Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        steps = self.head.shape[0]
        shapes = {a.shape for a in (self.tail_mass, self.tail_square, self.text, self.ids)}
        if self.head.ndim != 2 or steps == 0 or shapes != {(steps,)}:
            raise InvalidInput("a profile needs a head, tail, text number and id for each step.")
        # a solver asks for the same gamma with many deltas, and for the same pair several times
        object.__setattr__(self, "_nodes", lru_cache(maxsize=8)(self._make_nodes))
        object.__setattr__(self, "_rates", lru_cache(maxsize=8)(self._make_rates))

    @property
    def name(self) -> str:
        """Short name, as it stands in signatures."""
        return f"profile({str(self.about.get('digest', 'unnamed'))[:12]})"

    def green_rate(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        """Mean green rate over all steps."""
        return self._each(lambda g, d: float(self._rates(g, d).mean()), gamma, delta)

    def kl(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        """Mean KL over all steps, in nats."""
        return self._each(lambda g, d: float(self._costs(g, d).mean()), gamma, delta)

    def standard_errors(self, gamma: float, delta: float) -> tuple[float, float]:
        """Standard errors of the green rate and the KL, from the spread between texts.

        Infinite for a single text, which says nothing about others.
        """
        rates, costs = self._rates(gamma, delta), self._costs(gamma, delta)
        means = [_text_means(values, self.text) for values in (rates, costs)]
        if means[0].size < 2:
            return np.inf, np.inf
        rate, cost = (float(m.std(ddof=1) / np.sqrt(m.size)) for m in means)
        return rate, cost

    def power(self, n_tokens: int, critical_count: float, gamma: float, delta: float) -> float:
        """P(S >= critical_count) over texts like these: a mixture of Poisson-binomial laws."""
        return self._mixture(n_tokens, int(critical_count), self._rates(gamma, delta))

    def scored_share(self, context_width: int) -> float:
        """Share of generated tokens that a detector would count, repeats being left out."""
        counted = 0
        for ids in _by_text(self.ids, self.text):
            windows = np.lib.stride_tricks.sliding_window_view(
                ids, min(context_width + 1, ids.size)
            )
            counted += np.unique(windows, axis=0).shape[0]
        return counted / self.ids.size

    def _mixture(self, n: int, k: int, rates: Array) -> float:
        rows = np.stack([np.resize(r, n) for r in _by_text(rates, self.text)])  # (texts, n)
        return float(_poisson_binomial_tail(rows, k).mean())

    def variance_inflation(self, n_tokens: int, gamma: float, delta: float) -> float:
        """Var(S) / (n g' (1-g')) over texts like these, g' being the mean green rate."""
        rates = self._rates(gamma, delta)
        rows = np.stack([np.resize(r, n_tokens) for r in _by_text(rates, self.text)])
        within, between = (rows * (1.0 - rows)).sum(axis=1).mean(), rows.sum(axis=1).var()
        binomial = n_tokens * rows.mean() * (1.0 - rows.mean())
        return float((within + between) / binomial) if binomial > 0.0 else 1.0

    def _costs(self, gamma: float, delta: float) -> Array:
        """KL of each step, ``delta y' - log(1 + (e^delta - 1) y)`` on average over lists."""
        strength = np.expm1(delta)
        logs = self._average(lambda y, _: np.log1p(strength * y), gamma, delta)
        costs: Array = delta * self._rates(gamma, delta) - logs
        return costs

    def _make_rates(self, gamma: float, delta: float) -> Array:
        """Green rate of each step."""
        return self._average(token_green_rate, gamma, delta)

    def _average(
        self, function: Callable[[Array, float], Array], gamma: float, delta: float
    ) -> Array:
        """Expectation of ``function(y, delta)`` over random lists, for each step."""
        y, weights = self._nodes(float(open_unit("gamma", gamma)))
        values: Array = (function(y, float(logit_bias(delta))) * weights).sum(axis=1)
        return values

    def _make_nodes(self, gamma: float) -> tuple[Array, Array]:
        """Green masses and their probabilities; (steps, 2^J * NODES) each."""
        j = min(ENUMERATED, self.head.shape[1])
        head = self.head.astype(np.float64)
        colourings = (np.arange(2**j)[:, None] >> np.arange(j)) & 1  # (2^J, J)
        sums = head[:, :j] @ colourings.T  # (steps, 2^J)
        greens = colourings.sum(axis=1)
        chances = gamma**greens * (1.0 - gamma) ** (j - greens)
        mass = head[:, j:].sum(axis=1) + self.tail_mass
        square = (head[:, j:] ** 2).sum(axis=1) + self.tail_square
        # Beta(gamma A, (1-gamma) A) on [0, mass] has the variance gamma (1-gamma) square at this A
        concentration = np.clip(mass**2 / np.maximum(square, 1e-300) - 1.0, 1e-3, 1e9)
        x, w = _beta_quadrature(gamma * concentration, (1.0 - gamma) * concentration)
        y = sums[:, :, None] + (mass[:, None] * x)[:, None, :]
        weights = chances[:, None] * w[:, None, :]
        size = self.head.shape[0]
        return np.minimum(y.reshape(size, -1), 1.0), weights.reshape(size, -1)

    @staticmethod
    def _each(
        function: Callable[[float, float], float], gamma: ArrayLike, delta: ArrayLike
    ) -> Array:
        g, d = np.broadcast_arrays(open_unit("gamma", gamma), logit_bias(delta))
        return np.asarray(np.vectorize(function, otypes=[np.float64])(g, d))


def _beta_quadrature(a: Array, b: Array) -> tuple[Array, Array]:
    """Gauss-Jacobi nodes and weights of Beta(a, b) laws; (m,) -> (m, NODES) each.

    Golub and Welsch (1969): eigenvalues of the Jacobi matrix, here for all laws at once.
    """
    n = np.arange(1.0, NODES)
    alpha, beta = (b - 1.0)[:, None], (a - 1.0)[:, None]  # exponents of 1-t and 1+t on [-1, 1]
    total = alpha + beta
    diagonal = np.empty((a.size, NODES))
    diagonal[:, 0] = ((beta - alpha) / (total + 2.0))[:, 0]
    step = 2.0 * n + total
    diagonal[:, 1:] = (beta**2 - alpha**2) / (step * (step + 2.0))
    off = np.empty((a.size, NODES - 1))
    off[:, :1] = 4.0 * (1.0 + alpha) * (1.0 + beta) / ((2.0 + total) ** 2 * (3.0 + total))
    m, s = n[1:], 2.0 * n[1:] + total
    off[:, 1:] = 4.0 * m * (m + alpha) * (m + beta) * (m + total) / (s**2 * (s + 1.0) * (s - 1.0))
    matrices = np.zeros((a.size, NODES, NODES))
    places = np.arange(NODES)
    matrices[:, places, places] = diagonal
    matrices[:, places[1:], places[:-1]] = np.sqrt(np.maximum(off, 0.0))
    values, vectors = np.linalg.eigh(matrices)
    return np.clip((1.0 + values) / 2.0, 0.0, 1.0), vectors[:, 0, :] ** 2


def _poisson_binomial_tail(rates: Array, k: int) -> Array:
    """P(S >= k) of sums of independent Bernoulli variables; (texts, n) -> (texts,).

    Exact up to LONGEST_EXACT tokens: the law of the rarer colour, one token at a time, as far as
    it matters. Beyond, the binomial law with the sum's mean and variance.
    """
    texts, n = rates.shape
    if k <= 0 or k > n:
        return np.full(texts, 1.0 if k <= 0 else 0.0)
    if n > LONGEST_EXACT:
        mean, variance = rates.sum(axis=1), (rates * (1.0 - rates)).sum(axis=1)
        share = 1.0 - variance / mean
        return np.asarray(special.betainc(k, np.maximum(mean / share - k + 1.0, 1e-9), share))
    few_reds = n - k < k
    chances, most = (1.0 - rates, n - k) if few_reds else (rates, k - 1)
    law = np.zeros((texts, most + 1))
    law[:, 0] = 1.0
    for chance in chances.T[:, :, None]:
        moved = law[:, :-1] * chance
        law *= 1.0 - chance
        law[:, 1:] += moved
    inside: Array = np.clip(law.sum(axis=1), 0.0, 1.0)
    return inside if few_reds else 1.0 - inside


def _by_text(values: NDArray[Any], text: NDArray[np.int32]) -> list[NDArray[Any]]:
    starts = np.flatnonzero(np.diff(text, prepend=text[0] - 1))
    return np.split(values, starts[1:])


def _text_means(values: Array, text: NDArray[np.int32]) -> Array:
    return np.array([part.mean() for part in _by_text(values, text)])
