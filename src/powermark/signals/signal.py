"""Signal models: the green rate and the KL of a mark for any (gamma, delta).

By the token lemma both follow from the law of the green mass y of a next-token distribution. The
simplest law is here, y = gamma (``PlugIn``); priors are in :mod:`.priors`, and the law of a real
model is in :mod:`.profile`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from powermark.checks import Array
from powermark.signals.edits import Edits
from powermark.theory.distortion import delta_from_kl, kl_divergence
from powermark.theory.green_rate import delta_from_gamma_prime, gamma_prime
from powermark.theory.power import beta_binomial_power, most_inflation

MAX_DELTA = 50.0  # largest bias of a plan: a factor e^50 is a hard mark


class SignalModel(ABC):
    """Green rate and KL for any (gamma, delta), and how much texts vary around them.

    A model whose steps are independent and alike, so that the count of a text is binomial, sets
    ``independent``; plans then use closed forms.
    """

    independent: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Short name with its parameters, as used in signatures."""

    @property
    def origin(self) -> dict[str, Any]:
        """Where the signal was recorded; empty for an assumed law."""
        return {}

    def standard_errors(
        self,
        n_tokens: int,
        critical_count: float,
        gamma: float,
        delta: float,
        edits: Edits | None = None,
    ) -> dict[str, float] | None:
        """Standard errors of gamma_prime, kl and powers; None for a signal without a sample."""
        return None

    @abstractmethod
    def green_rate(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        """Expected share of green tokens in marked text, gamma_prime."""

    @abstractmethod
    def kl(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        """Expected KL(watermarked || original) per token, in nats."""

    def variance_inflation(self, n_tokens: int, gamma: float, delta: float) -> float:
        """Var(S) / (n gamma' (1 - gamma')): 1 where the steps of a text are independent."""
        return 1.0

    def moments(self, n_tokens: int, gamma: float, delta: float) -> tuple[float, float]:
        """Green rate of a text's first n tokens, and the inflation of their count's variance."""
        rate = float(self.green_rate(gamma, delta))
        return rate, self.variance_inflation(n_tokens, gamma, delta)

    def power(self, n_tokens: int, critical_count: float, gamma: float, delta: float) -> float:
        """P(S >= critical_count) in marked text, by the beta-binomial law of these moments."""
        c = min(self.variance_inflation(n_tokens, gamma, delta), most_inflation(n_tokens))
        rate = float(self.green_rate(gamma, delta))
        return float(beta_binomial_power(n_tokens, critical_count, rate, max(c, 1.0)))

    def attacked_power(
        self, edits: Edits, n_tokens: int, critical_count: float, gamma: float, delta: float
    ) -> float:
        """P(S >= critical_count) in marked text after edits."""
        rate = float(self.green_rate(gamma, delta))
        c = self.variance_inflation(n_tokens, gamma, delta)
        return edits.attacked_power(n_tokens, critical_count, gamma, rate, max(c, 1.0))

    def thinned(self) -> SignalModel:
        """Return a quicker, coarser version for comparing designs."""
        return self

    def representative(self, texts: int = 16) -> SignalModel:
        """Return a quicker version that differs little: of a profile, texts of every kind."""
        return self

    def at_strength(self, strength: float) -> SignalModel:
        """Return the signal of marks that change this share of the tokens."""
        return self

    def text_rates(
        self, gamma: float, deltas: Array, n_tokens: int
    ) -> tuple[Array, Array, NDArray[np.bool_]] | None:
        """Green rates at n steps of several texts, their weights, and which steps are kept.

        Shapes (texts, n, biases), (texts,) and (texts, n). A step that is not kept is lost when
        its text is tokenised again. One step may represent all steps of a text in the rates. None
        if all texts are alike.
        """
        return None

    def delta_for_rate(self, gamma: float, rate: float) -> float:
        """Return the bias that gives this green rate; inf if none up to MAX_DELTA does."""
        return self._solve(lambda delta: float(self.green_rate(gamma, delta)) - rate)

    def delta_for_kl(self, gamma: float, kl: float) -> float:
        """Return the bias that costs this much; inf if none up to MAX_DELTA does."""
        return self._solve(lambda delta: float(self.kl(gamma, delta)) - kl)

    @staticmethod
    def _solve(increasing: Callable[[float], float]) -> float:
        if increasing(MAX_DELTA) < 0.0:
            return np.inf
        return float(optimize.brentq(increasing, 0.0, MAX_DELTA, xtol=1e-13, rtol=1e-14))


@dataclass(frozen=True)
class PlugIn(SignalModel):
    """Every step has green mass gamma: the paper's large-vocabulary limit, all closed forms."""

    independent = True

    @property
    def name(self) -> str:
        return "plug-in"

    def green_rate(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        return gamma_prime(gamma, delta)

    def kl(self, gamma: ArrayLike, delta: ArrayLike) -> Array:
        return kl_divergence(gamma, delta)

    def delta_for_rate(self, gamma: float, rate: float) -> float:
        return float(delta_from_gamma_prime(gamma, rate))

    def delta_for_kl(self, gamma: float, kl: float) -> float:
        return float(delta_from_kl(gamma, kl)) if kl < -np.log(gamma) else np.inf
