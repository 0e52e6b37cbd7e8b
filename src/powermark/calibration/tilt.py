"""What any bias does at one gamma: the green rate as a spline, and the KL that follows from it."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline

from powermark.calibration.signal import MAX_DELTA, PlugIn, SignalModel
from powermark.checks import Array
from powermark.theory.distortion import kl_divergence
from powermark.theory.green_rate import gamma_prime

BIASES = MAX_DELTA * np.linspace(0.0, 1.0, 56) ** 2  # where a signal model is asked; dense near 0
_SPLINE = CubicSpline(BIASES, np.eye(BIASES.size))  # linear in the values that it goes through
_INTEGRAL = _SPLINE.antiderivative()


class Tilt:
    """What biases do at one gamma: green rate and KL, for many biases at once.

    A signal model says the green rate at a few biases; between them it is a cubic spline. The KL
    follows, ``delta r(delta) - g(delta)``, because g is the integral of the green rate r.

    Where the signal is a profile, each of its texts has its own rates at each of its steps.
    """

    def __init__(
        self,
        gamma: float,
        rates: Array,
        *,
        exact: bool = False,
        steps: Array | None = None,
        weights: Array | None = None,
    ) -> None:
        self.gamma, self.mean = gamma, rates
        self.weights = np.ones(1) if weights is None else weights  # of the texts
        self._exact, self._steps = exact, steps  # (texts, steps, biases)

    @classmethod
    def of(cls, signal: SignalModel, gamma: float, n_tokens: int) -> Tilt:
        """Return what biases do by a signal model, over n steps."""
        texts = signal.text_rates(gamma, BIASES, n_tokens)
        if texts is not None:
            steps, weights = texts
            return cls(gamma, weights @ steps.mean(axis=1), steps=steps, weights=weights)
        rates = np.asarray(signal.green_rate(gamma, BIASES), np.float64)
        return cls(gamma, rates, exact=isinstance(signal, PlugIn))

    def __call__(self, deltas: Array) -> tuple[Array, Array]:
        """Return green rate and KL under each bias, on average over steps."""
        if self._exact:
            return gamma_prime(self.gamma, deltas), kl_divergence(self.gamma, deltas)
        return self._apply(self.mean, deltas)

    def of_states(self, deltas: Array) -> Array:
        """Return the green rate of each state of a schedule, on average over steps."""
        return np.stack([self(row)[0] for row in deltas])

    def at(self, step: int, deltas: Array) -> tuple[Array, Array]:
        """Return green rate and KL under each bias at one step of each text; (texts, biases)."""
        if self._steps is None:
            rates, costs = self(deltas)
            return rates[None], costs[None]
        return self._apply(self._steps[:, step], deltas)

    def _apply(self, grid: Array, deltas: Array) -> tuple[Array, Array]:
        """From rates at BIASES to rates and costs at any."""
        basis = _SPLINE(deltas).T  # (grid, biases)
        rates = grid @ basis
        costs = deltas * rates - grid @ _INTEGRAL(deltas).T
        return np.clip(rates, 0.0, 1.0), np.maximum(costs, 0.0)
