"""The green mass of given next-token distributions under random lists of any share.

For one distribution p and a random green list of share gamma, the green mass is

    y = sum_k p_k G_k,   G_k independent Bernoulli(gamma).

The colourings of the J likeliest tokens are enumerated, all 2^J with their probabilities, which are
polynomials in gamma. The rest has mean ``gamma r`` and variance ``gamma (1-gamma) s`` (r its mass,
s its sum of squares), and gets a law with these moments on [0, r]: a Beta law by Gauss-Jacobi
quadrature and, if few tokens are left, as after top-k, an atom for none of them green and one for
all. So the green rate and KL of each step are smooth in gamma and delta, and no list is drawn.

A few steps are summed in NumPy, many by compiled kernels; both agree to 1e-11.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Array, logit_bias, open_unit
from powermark.errors import InvalidInput

ENUMERATED = 6  # tokens whose colourings are enumerated
NODES = 4  # of the quadrature for the rest
_FEW = 64  # steps that are summed in NumPy
_RARE = 1e-12  # atoms are left out if they are less probable than this at all steps
_NOISE = 1e-6  # tail mass left by float32 rounding where a sampler cut off the tail
_ROUNDING = 1e-6  # tolerance for a green rate below gamma, or a KL below 0


class GreenMass:
    """Next-token distributions, one per step, and the mean effect of a mark on each over lists.

    ``nodes(gamma)``, ``rates(gamma, delta)`` and ``costs(gamma, delta)`` keep their last results:
    a solver asks for the same gamma with many deltas, and for the same pair several times.

    Parameters
    ----------
    head
        (steps, K) the K largest probabilities, descending.
    tail_mass, tail_square
        (steps,) sum and sum of squares of the others. A mass below 1e-6 is rounding and is set to
        0; a square is at most what tokens no likelier than the head's last can have. Each step is
        scaled to sum to 1.
    """

    def __init__(
        self,
        head: NDArray[np.floating],
        tail_mass: NDArray[np.floating],
        tail_square: NDArray[np.floating],
    ) -> None:
        head = np.asarray(head, np.float64)
        mass = np.where(tail_mass < _NOISE, 0.0, np.asarray(tail_mass, np.float64))
        whole = head.sum(axis=1) + mass
        if not ((whole > 0.0) & (whole < np.inf)).all():  # nor nan
            raise InvalidInput("each step of a profile needs a positive, finite probability.")
        self.head: Array = head / whole[:, None]
        self.tail_mass: Array = mass / whole
        likeliest = self.head[:, -1] if head.shape[1] else 1.0
        most = self.tail_mass * np.minimum(self.tail_mass, likeliest)
        self.tail_square: Array = np.clip(tail_square / whole**2, 0.0, most)
        self.few = len(self.head) <= _FEW
        self.nodes = lru_cache(maxsize=2)(self._nodes)
        self.rest_law = lru_cache(maxsize=2)(self._rest_law)
        self.rates = lru_cache(maxsize=64)(self._rates)
        self.costs = lru_cache(maxsize=8)(self._costs)

    def _rates(self, gamma: float, delta: float) -> Array:
        """Green rate of each step, ``1 - (1-y) / (1 + (e^delta - 1) y)``."""
        open_unit("gamma", gamma)
        logit_bias(delta)
        if self.few:
            y, weights = self.nodes(gamma)
            red = (1.0 - y) / (1.0 + np.expm1(delta) * y)
            found = 1.0 - np.einsum("ij,ij->i", weights, red)
        else:
            from powermark.signals import green_mass_kernels as kernels

            rest = (self._rest[0], *self.rest_law(gamma))
            found = kernels.rates(self._likeliest, *rest, float(gamma), float(delta))
        return _at_least(gamma, found, "a green rate")

    def _costs(self, gamma: float, delta: float) -> Array:
        """KL of each step, ``delta y' - log(1 + (e^delta - 1) y)``."""
        open_unit("gamma", gamma)
        logit_bias(delta)
        if self.few:
            y, weights = self.nodes(gamma)
            logs = np.einsum("ij,ij->i", weights, np.log1p(np.expm1(delta) * y))
        else:
            from powermark.signals import green_mass_kernels as kernels

            rest = (self._rest[0], *self.rest_law(gamma))
            greens = _greens(self._likeliest.shape[1])
            order = np.argsort(greens, kind="stable")  # by the number of greens
            firsts = np.searchsorted(greens[order], np.arange(greens[-1] + 2))
            of = (self._likeliest, order, firsts, *rest)
            logs = kernels.mean_logs(*of, float(gamma), float(delta))
        return _at_least(0.0, delta * self.rates(gamma, delta) - logs, "a KL")

    def _nodes(self, gamma: float) -> tuple[Array, Array]:
        """Green masses and their probabilities; (steps, 2^J * NODES) each."""
        head, chances = self._colourings(gamma)
        colourings = (np.arange(chances.size)[:, None] >> np.arange(head.shape[1])) & 1
        sums = head @ colourings.T  # (steps, 2^J)
        mass, left, square = self._rest
        x, w = _rest_law(gamma, left, square)
        y = sums[:, :, None] + (mass[:, None] * x)[:, None, :]
        weights = chances[:, None] * w[:, None, :]
        return np.minimum(y.reshape(len(head), -1), 1.0), weights.reshape(len(head), -1)

    def _colourings(self, gamma: float) -> tuple[Array, Array]:
        """Return the likeliest tokens, (steps, J), and the chances of their colourings, (2^J,)."""
        greens, j = _greens(self._likeliest.shape[1]), self._likeliest.shape[1]
        return self._likeliest, gamma**greens * (1.0 - gamma) ** (j - greens)

    @cached_property
    def _likeliest(self) -> Array:
        """Tokens whose colourings are enumerated, (steps, J)."""
        return np.ascontiguousarray(self.head[:, :ENUMERATED])

    @cached_property
    def _rest(self) -> tuple[Array, Array, Array]:
        """Mass of the other tokens, their number, and the sum of their squared shares of it."""
        rest = self.head[:, ENUMERATED:]
        mass, square = rest.sum(axis=1) + self.tail_mass, (rest**2).sum(axis=1) + self.tail_square
        left = (rest > 0.0).sum(axis=1)  # tokens; in the tail, as many as count
        left = left + self.tail_mass**2 / np.maximum(self.tail_square, 1e-300)
        return mass, left, np.minimum(square / np.maximum(mass, 1e-30) ** 2, 1.0)

    def _rest_law(self, gamma: float) -> tuple[Array, Array]:
        """Nodes and weights of the green share of the other tokens, by the compiled kernel."""
        from powermark.signals import green_mass_kernels as kernels

        _, left, square = self._rest
        places, weights = kernels.rest_law(gamma, left, square, NODES, _RARE)
        return places, weights


def _greens(tokens: int) -> NDArray[np.int64]:
    """Return the number of green tokens of each colouring: bit k of its number is token k."""
    return np.array([each.bit_count() for each in range(2**tokens)])


def _at_least(bound: float, values: Array, name: str) -> Array:
    """Lift values to a bound; values below it by more than rounding are a bug, and raise."""
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
