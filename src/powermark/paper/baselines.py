"""The methods that the paper compares with: other choices of gamma and of the bias of each step.

All of them add a bias to green logits; only its choice differs. Facts about the methods are from
Cai et al. (arXiv 2403.13027) and their repository DualGA, from Wouters (ICML 2024, PMLR
235:53251), and from the repository of the paper's authors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from powermark.checks import Array
from powermark.paper import baseline_kernels as kernels
from powermark.watermark.scheme import Scheme, measure_bias
from powermark.watermark.threads import over_rows

if TYPE_CHECKING:
    from torch import Tensor

GAMMAS = tuple(np.round(np.arange(1, 10) / 10, 1).tolist())
GAINS = GAMMAS  # targets of DP: increases of the green probability
HARD = 60.0  # a bias that leaves red tokens less than 1e-25
_LARGEST = 15.0  # bias of the dual ascent
_STRIDE = 10.0  # its step is _STRIDE / sqrt(position)


def fixed_pair(gain: float) -> tuple[float, float]:
    """Return the (gamma, delta) that raises the green probability by ``gain`` at the least KL.

    For a next-token distribution whose green mass is gamma: the start of Cai et al.'s search, and
    the whole of the authors' "DP". ``delta = logit(gamma + gain) - logit(gamma)``.
    """

    def kl(gamma: float) -> float:
        up = gamma + gain
        return float(special.rel_entr(up, gamma) + special.rel_entr(1.0 - up, 1.0 - gamma))

    gamma = float(optimize.fminbound(kl, 0.0, 1.0 - gain, xtol=1e-10))
    return gamma, float(special.logit(gamma + gain) - special.logit(gamma))


class DualAscent:
    """Cai et al.'s online search for the bias that raises the green probability by ``gain``.

    The bias is the price lambda of the constraint; after each step it moves by the step's shortfall
    times ``10 / sqrt(position)``. Called with ids and logits, it returns each row's bias.
    """

    def __init__(self, scheme: Scheme, gain: float, start: float) -> None:
        self._scheme, self._gain, self._start = scheme, gain, start
        self._prices = np.zeros(0)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Array:
        """Return the biases of this step, and learn from it."""
        ids, logits = input_ids.cpu().numpy(), scores.cpu().numpy()
        if self._prices.size != ids.shape[0]:
            self._prices = np.full(ids.shape[0], self._start)
        now = self._prices
        context = ids[:, ids.shape[1] - self._scheme.context_width :]
        marked = np.empty_like(logits)
        self._scheme.add_bias(logits, context, np.ones(ids.shape[0]), out=marked)
        mass = measure_bias(logits, marked)[:, 1]
        self._prices = next_price(now, self._gain, gain_of(mass, now), ids.shape[1] + 1)
        return now


def gain_of(mass: Array, delta: Array) -> Array:
    """Return how much a bias raises the green probability, given the green mass without it."""
    return np.asarray((1.0 - mass) * (1.0 - 1.0 / (1.0 + mass * np.expm1(delta))))


def next_price(price: Array, target: Array | float, gain: Array, position: int) -> Array:
    """One step of dual ascent; ``position`` counts the prompt's tokens too."""
    moved = price + _STRIDE / np.sqrt(position) * (target - gain)
    return np.asarray(np.clip(moved, 0.0, _LARGEST))


class Threshold:
    """Wouters' rule: only green tokens where that costs at most ``beta`` nats of surprise each.

    Called with ids and logits, it returns each row's bias, HARD or none.
    """

    def __init__(self, scheme: Scheme, beta: float) -> None:
        self._scheme, self._beta = scheme, beta

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Array:
        """Return the biases of this step."""
        ids, logits = input_ids.cpu().numpy(), scores.cpu().numpy()
        masks = self._scheme.green_masks(ids[:, ids.shape[1] - self._scheme.context_width :])
        price = surprise_per_green(logits[:, : masks.shape[1]], masks)
        return np.where(price <= self._beta, HARD, 0.0)


def surprise_per_green(logits: NDArray[np.floating], green: NDArray[np.bool_]) -> Array:
    """Mean surprise of green tokens less that of red ones, B in Wouters' paper; (rows, V).

    Moving probability from red to green, each block keeping its proportions, costs this much
    expected surprise for each green token won.
    """
    found = np.empty((logits.shape[0], 3))
    rows = (np.ascontiguousarray(logits), np.ascontiguousarray(green), found)
    over_rows(lambda first, last: kernels.surprises(*rows, first, last), *logits.shape)
    mass, spent, others = found.T
    rest = 1.0 - mass
    with np.errstate(divide="ignore", invalid="ignore"):
        price = spent / mass - others / rest
    return np.where(mass <= 0.0, np.inf, np.where(rest <= 0.0, -np.inf, price))
