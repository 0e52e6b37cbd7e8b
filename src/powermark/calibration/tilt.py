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
_SLOPES, _AREAS = _SPLINE.derivative()(BIASES).T, _SPLINE.antiderivative()(BIASES).T


class Tilt:
    """What biases do at one gamma: green rate and KL.

    A signal model says the green rate at a few biases; between them it is a cubic spline, held as
    ``nodes``: its values, slopes and integral at BIASES. The KL follows, ``delta r(delta) -
    g(delta)``, because g is the integral of the green rate r. With the plug-in, ``exact``, both
    have a closed form.

    Where the signal is a profile, each of its texts has its own rates at each of its steps.

    Attributes
    ----------
    mean
        Green rates at BIASES on average over steps.
    average, nodes
        (3, biases) of that mean; (texts, steps, 3, biases), where one step may stand for all.
    weights
        Of the texts.
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
        self.gamma, self.mean, self.exact = gamma, rates, exact
        self.weights = np.ones(1) if weights is None else weights
        self.average = _nodes(rates)
        self.nodes = self.average[None, None] if steps is None else _nodes(steps)

    @classmethod
    def of(cls, signal: SignalModel, gamma: float, n_tokens: int) -> Tilt:
        """Return what biases do by a signal model, over n steps."""
        texts = signal.text_rates(gamma, BIASES, n_tokens)
        if texts is not None:
            steps, weights = texts
            return cls(gamma, weights @ steps.mean(axis=1), steps=steps, weights=weights)
        rates = np.asarray(signal.green_rate(gamma, BIASES), np.float64)
        return cls(gamma, rates, exact=isinstance(signal, PlugIn))

    def of_states(self, deltas: Array) -> Array:
        """Return the green rate of each state of a schedule, on average over steps."""
        if self.exact:
            return gamma_prime(self.gamma, deltas)
        return np.clip(CubicSpline(BIASES, self.mean)(deltas), 0.0, 1.0)

    def kl(self, deltas: Array) -> Array:
        """Return the KL of a step under each bias, on average over steps."""
        if self.exact:
            return kl_divergence(self.gamma, deltas)
        rate = CubicSpline(BIASES, self.mean)
        return np.maximum(deltas * rate(deltas) - rate.antiderivative()(deltas), 0.0)


def _nodes(rates: Array) -> Array:
    """From rates at BIASES to values, slopes and integrals there; (..., b) -> (..., 3, b)."""
    return np.stack([rates, rates @ _SLOPES, rates @ _AREAS], axis=-2)
