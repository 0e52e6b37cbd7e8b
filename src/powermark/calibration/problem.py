"""A design problem as the exact solver sees it: what is given, and whether a design meets it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import special

from powermark.calibration.design import powers
from powermark.calibration.edits import Edits
from powermark.calibration.signal import PlugIn, SignalModel
from powermark.checks import Array

GAMMA_MIN = 0.01  # below it "green" leaves a model one token in a hundred to choose from


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A design problem: all that is given, and what may be chosen."""

    n_tokens: int
    alpha: float
    power: float
    attacked_power: float | None = None
    edits: Edits = field(default_factory=Edits)
    signal: SignalModel = field(default_factory=PlugIn)
    variance_inflation: float = 1.0
    gamma: float | None = None
    delta: float | None = None

    @property
    def closed_form(self) -> bool:
        """Whether power and KL are inverse Beta functions and logarithms."""
        return isinstance(self.signal, PlugIn) and self.variance_inflation == 1.0 and not self.edits

    def margin(self, k: float, gamma: float, delta: float) -> float:
        """Power above what was asked, the lesser of clean and attacked; increases in delta."""
        clean, attacked, _ = powers(
            self.signal, self.edits, self.n_tokens, k, gamma, delta, self.variance_inflation
        )
        if self.attacked_power is None:
            return clean - self.power
        return min(clean - self.power, attacked - self.attacked_power)


def rate_for(n_tokens: int, k: Array | float, probability: float) -> Array:
    """Return the green rate at which P(S >= k) is ``probability``: ``BetaInv(.; k, n-k+1)``.

    The largest gamma of a level-alpha test, and the gamma_prime that gives a power.
    """
    return np.asarray(
        special.betaincinv(k, n_tokens - np.asarray(k) + 1.0, probability), np.float64
    )
