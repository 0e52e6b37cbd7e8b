"""Edited texts: how much of the mark survives, and the power that is left.

A scored position carries signal only if its token and the ``context_width`` tokens before it are
untouched. Three ways to say what happens to a text:

``edit_rate``  each token is rewritten independently with this probability; a position survives
               with probability ``(1 - edit_rate)^(context_width + 1)``, and neighbours together.
``survival``   exactly this share of the scored positions keeps its signal.
``removal``    one contiguous share f of the text is replaced (paper, Appendix B.7); the
               ``context_width`` positions after the block lose their context too.

Positions without signal are green with probability gamma, as in any foreign text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from powermark.calibration.counts import edited_tail, poisson_binomial_tail
from powermark.checks import Array, count, in_interval, unit
from powermark.errors import InvalidInput
from powermark.theory.power import beta_binomial_power, binomial_tail, most_inflation

# Tokens that choose a green list, unless the user says otherwise. With one, the false-positive rate
# on human text hangs on the key; with two hardly more than chance allows, and each further one only
# makes marks more fragile (docs/decisions.md, `powermark audit`).
CONTEXT_WIDTH = 2
_SHORT = 100  # tokens; above, the two moments are as good (docs/decisions.md) and quicker


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What readers do to a text; at most one of the three rates is set."""

    edit_rate: float | None = None
    survival: float | None = None
    removal: float | None = None
    context_width: int = CONTEXT_WIDTH

    def __post_init__(self) -> None:
        given = [k for k in ("edit_rate", "survival", "removal") if getattr(self, k) is not None]
        if len(given) > 1:
            raise InvalidInput(f"give only one of edit_rate, survival, removal; got {given}.")
        width = int(count("context_width", self.context_width, at_least=0))
        object.__setattr__(self, "context_width", width)
        if self.edit_rate is not None:
            in_interval("edit_rate", self.edit_rate, 0.0, 1.0, closed="low")
        if self.survival is not None:
            in_interval("survival", self.survival, 0.0, 1.0, closed="high")
        if self.removal is not None:
            in_interval("removal", self.removal, 0.0, 1.0, closed="low")
        for name in given:
            object.__setattr__(self, name, float(getattr(self, name)))

    def __bool__(self) -> bool:
        return any(rate is not None for rate in (self.edit_rate, self.survival, self.removal))

    def surviving_share(self, n_tokens: int) -> float:
        """Expected share of the n scored positions that still carry signal."""
        if self.edit_rate is not None:
            return float((1.0 - self.edit_rate) ** (self.context_width + 1))
        return self.surviving_count(n_tokens) / n_tokens

    def attacked_power(
        self, n_tokens: int, critical_count: float, gamma: float, gamma_prime: float, c: float
    ) -> float:
        """P(S >= critical_count) for the edited text; c inflates the marked part's variance.

        Exact for independent tokens that a fixed share of survives (a sum of two binomials), or
        where a text is short. Otherwise S gets a beta-binomial law with its exact mean and
        variance.
        """
        if self.edit_rate is not None and c == 1.0 and n_tokens <= _SHORT:
            rates = np.full((1, n_tokens), gamma_prime)
            return float(self.tail(rates, int(critical_count), gamma)[0])
        if self.edit_rate is None and c == 1.0:
            marked = self.surviving_count(n_tokens)
            greens, weights = _binomial_window(n_tokens - marked, gamma)
            still_needed = np.maximum(critical_count - greens, 0.0)
            tails = binomial_tail(max(marked, 1), still_needed, gamma_prime if marked else 0.0)
            return float(weights @ tails)
        n, share = n_tokens, self.surviving_share(n_tokens)
        rate = share * gamma_prime + (1.0 - share) * gamma
        binomial = n * rate * (1.0 - rate)
        inflation = self._variance(n, gamma, gamma_prime, c) / binomial if binomial > 0.0 else 1.0
        inflation = min(max(inflation, 1.0), most_inflation(n))
        return float(beta_binomial_power(n, critical_count, rate, inflation))

    def tail(self, rates: Array, k: int, gamma: float) -> Array:
        """P(S >= k) for edited texts whose tokens have these green rates; (texts, n) -> (texts,).

        Where the share that survives is fixed, the survivors are the first tokens.
        """
        if self.edit_rate is not None:
            return edited_tail(
                rates, k, gamma=gamma, edit_rate=self.edit_rate, context_width=self.context_width
            )
        marked = self.surviving_count(rates.shape[1])
        return poisson_binomial_tail(np.where(np.arange(rates.shape[1]) < marked, rates, gamma), k)

    def _variance(self, n: int, gamma: float, gamma_prime: float, c: float) -> float:
        """Var(S) by the law of total variance, with M of the n positions surviving.

        With ``s = E[M] / n``, ``r`` the mean green rate and ``pairs = E[M (M-1)]``,

            Var(S) = n r (1-r) + (gamma' - gamma)^2 (pairs - n (n-1) s^2)
                     + correlation * gamma' (1-gamma') * pairs,

        where the correlation of two marked tokens of a text is ``(c-1) / (n-1)``.
        """
        s = self.surviving_share(n)
        if self.edit_rate is None:
            pairs = n * s * (n * s - 1.0)
        else:  # neighbours up to h apart share rewritten tokens
            keep, lags = 1.0 - self.edit_rate, np.arange(1, min(self.context_width, n - 1) + 1)
            pairs = n * (n - 1) * s * s + 2.0 * float(np.sum((n - lags) * (s * keep**lags - s * s)))
        rate = s * gamma_prime + (1.0 - s) * gamma
        correlation = (c - 1.0) / max(n - 1, 1)
        extra = (gamma_prime - gamma) ** 2 * (pairs - n * (n - 1) * s * s)
        extra += correlation * gamma_prime * (1.0 - gamma_prime) * max(pairs, 0.0)
        return n * rate * (1.0 - rate) + extra

    def surviving_count(self, n_tokens: int) -> int:
        """Positions that keep their signal, where their number is fixed."""
        if self.survival is not None:
            return int(np.floor(n_tokens * self.survival + 1e-9))
        if not self.removal:
            return n_tokens
        lost = int(block_length(n_tokens, self.removal)) + self.context_width
        return max(0, n_tokens - lost)


def block_length(n_tokens: ArrayLike, removal: float) -> NDArray[np.int64]:
    """Tokens of the block that is a share of a text: the next whole number."""
    return np.ceil(float(unit("removal", removal)) * np.asarray(n_tokens) - 1e-9).astype(np.int64)


def _binomial_window(n: int, p: float) -> tuple[Array, Array]:
    """Return the values of Binomial(n, p) that carry its mass to 1e-16, and their weights."""
    reach = 10.0 * np.sqrt(n * p * (1.0 - p)) + 30.0
    values = np.arange(max(0.0, np.floor(n * p - reach)), min(n, np.ceil(n * p + reach)) + 1.0)
    log_choose = special.gammaln(n + 1.0) - special.gammaln(values + 1.0)
    log_choose -= special.gammaln(n - values + 1.0)
    weights = np.exp(log_choose + special.xlogy(values, p) + special.xlog1py(n - values, -p))
    return values, weights / weights.sum()
