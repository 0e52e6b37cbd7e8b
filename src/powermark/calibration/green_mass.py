"""The green mass of given next-token distributions under random lists of any share.

For one distribution p and a random green list of share gamma, the green mass is

    y = sum_k p_k G_k,   G_k independent Bernoulli(gamma).

The likeliest tokens are enumerated: all 2^J colourings, with their probabilities, polynomials in
gamma. What is left has mean ``gamma r`` and variance ``gamma (1-gamma) s`` (r its mass, s its sum
of squares), and is given a law with these moments on [0, r]: where few tokens are left, as after
top-k, an atom for none of them green and one for all, and a Beta law between, by Gauss-Jacobi
quadrature. So the green rate and KL of each step are smooth in gamma and delta, without drawing a
single list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Array, logit_bias, open_unit
from powermark.errors import InvalidInput

ENUMERATED = 6  # tokens whose colourings are all looked at
NODES = 4  # of the quadrature for the rest
_RARE = 1e-12  # probability of an atom that is left out where all steps have fewer
_NOISE = 1e-6  # tail mass that float32 leaves where a sampler cut the tail off
_ROUNDING = 1e-6  # by which a green rate may seem to be below gamma, or a KL below 0


@dataclass(frozen=True, eq=False)
class GreenMass:
    """Distributions, one a step, and what a mark does to each on average over lists.

    Parameters
    ----------
    head
        (steps, K) the K largest probabilities, descending.
    tail_mass, tail_square
        (steps,) sum and sum of squares of the others. A mass below 1e-6 is rounding, and taken
        as 0; a square is at most what tokens no likelier than the head's last can have. Each step
        is scaled to sum to 1.
    """

    head: NDArray[np.floating]
    tail_mass: NDArray[np.floating]
    tail_square: NDArray[np.floating]
    nodes: Callable[[float], tuple[Array, Array]] = field(init=False, repr=False)
    rates: Callable[[float, float], Array] = field(init=False, repr=False)
    costs: Callable[[float, float], Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, values in zip(("head", "tail_mass", "tail_square"), self._clean(), strict=True):
            object.__setattr__(self, name, values)
        # a solver asks for the same gamma with many deltas, and for the same pair several times
        for name, make, kept in (
            ("nodes", self._make_nodes, 2),  # tens of MB each
            ("rates", self._make_rates, 64),
            ("costs", self._make_costs, 8),
        ):
            object.__setattr__(self, name, lru_cache(maxsize=kept)(make))

    def _clean(self) -> tuple[Array, Array, Array]:
        """Return the steps without rounding noise, each with probabilities that sum to 1."""
        head = np.asarray(self.head, np.float64)
        mass = np.where(self.tail_mass < _NOISE, 0.0, np.asarray(self.tail_mass, np.float64))
        whole = head.sum(axis=1) + mass
        if (whole <= 0.0).any():
            raise InvalidInput("each step of a profile needs a positive probability.")
        head, mass = head / whole[:, None], mass / whole
        most = np.minimum(mass, head[:, -1]) if head.shape[1] else mass
        return head, mass, np.clip(self.tail_square / whole**2, 0.0, mass * most)

    def _make_rates(self, gamma: float, delta: float) -> Array:
        """Green rate of each step, ``1 - (1-y) / (1 + (e^delta - 1) y)``."""
        y, weights = self.nodes(gamma)
        red = (1.0 - y) / (1.0 + np.expm1(logit_bias(delta)) * y)
        return _at_least(gamma, 1.0 - np.einsum("ij,ij->i", weights, red), "a green rate")

    def _make_costs(self, gamma: float, delta: float) -> Array:
        """KL of each step, ``delta y' - log(1 + (e^delta - 1) y)``."""
        y, weights = self.nodes(gamma)
        logs = np.einsum("ij,ij->i", weights, np.log1p(np.expm1(logit_bias(delta)) * y))
        return _at_least(0.0, delta * self.rates(gamma, delta) - logs, "a KL")

    def _make_nodes(self, gamma: float) -> tuple[Array, Array]:
        """Green masses and their probabilities; (steps, 2^J * NODES) each."""
        open_unit("gamma", gamma)
        j = min(ENUMERATED, self.head.shape[1])
        head = self.head
        colourings = (np.arange(2**j)[:, None] >> np.arange(j)) & 1  # (2^J, J)
        sums = head[:, :j] @ colourings.T  # (steps, 2^J)
        greens = colourings.sum(axis=1)
        chances = gamma**greens * (1.0 - gamma) ** (j - greens)
        mass = head[:, j:].sum(axis=1) + self.tail_mass
        square = (head[:, j:] ** 2).sum(axis=1) + self.tail_square
        left = (head[:, j:] > 0.0).sum(axis=1)  # tokens; in the tail, as many as count
        left = left + self.tail_mass**2 / np.maximum(self.tail_square, 1e-300)
        x, w = _rest_law(gamma, left, np.minimum(square / np.maximum(mass, 1e-30) ** 2, 1.0))
        y = sums[:, :, None] + (mass[:, None] * x)[:, None, :]
        weights = chances[:, None] * w[:, None, :]
        size = self.head.shape[0]
        return np.minimum(y.reshape(size, -1), 1.0), weights.reshape(size, -1)


def _at_least(bound: float, values: Array, name: str) -> Array:
    """Return values that lie above a bound but for rounding; others are a bug, and raise."""
    if values.size and values.min() < bound - _ROUNDING:
        raise ArithmeticError(f"{name} of {values.min():.6g} is below {bound:.6g}.")
    return np.maximum(values, bound)


def _rest_law(gamma: float, left: Array, square: Array) -> tuple[Array, Array]:
    """Nodes and weights of the green share of ``left`` tokens with this sum of squared shares."""
    none, every = (1.0 - gamma) ** left, np.where(left > 0.0, gamma**left, 0.0)
    between = np.maximum(1.0 - none - every, 1e-12)
    mean = np.clip((gamma - every) / between, 1e-9, 1.0 - 1e-9)
    second = (gamma * (1.0 - gamma) * square + gamma**2 - every) / between
    variance = np.clip(second - mean**2, 1e-12, None)
    concentration = np.clip(mean * (1.0 - mean) / variance - 1.0, 1e-3, 1e9)
    x, w = beta_quadrature(mean * concentration, (1.0 - mean) * concentration)
    if max(float(none.max()), float(every.max())) < _RARE:
        return x, w
    w = w * np.maximum(1.0 - none - every, 0.0)[:, None]
    ends = np.broadcast_to([0.0, 1.0], (left.size, 2))
    return np.hstack([x, ends]), np.hstack([w, none[:, None], every[:, None]])


def beta_quadrature(a: Array, b: Array) -> tuple[Array, Array]:
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
