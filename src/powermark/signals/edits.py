"""Edited texts: how much of the mark survives, and the power that is left.

A scored position carries signal only if its token and the ``context_width`` tokens before it are
untouched. There are three models of edits, each with its own law of the survivors:

``edit_rate``  :class:`RandomEdits`: each token is rewritten independently with this probability; a
               position survives with probability ``(1 - edit_rate)^(context_width + 1)``, and
               neighbours survive together.
``survival``   :class:`FixedShare`: exactly this share of the scored positions keeps its signal.
``removal``    :class:`RemovedBlock`: one contiguous share f of the text is replaced (paper,
               Appendix B.7); the ``context_width`` positions after the block lose their context.

Positions without signal are green with probability gamma, as in unmarked text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from powermark.checks import Array, count, in_interval, unit
from powermark.errors import InvalidInput
from powermark.signals.counts import edited_tail, poisson_binomial_tail
from powermark.theory.power import beta_binomial_power, binomial_tail, most_inflation

# Default number of tokens that choose a green list. With one, the false-positive rate on human text
# depends on the key; with two hardly more than by chance, and each further token only makes marks
# more fragile (docs/decisions.md, `powermark audit`).
CONTEXT_WIDTH = 2
_SHORT = 100  # tokens; for longer texts two moments are as good (docs/decisions.md) and quicker
_LEAST = 1e-12  # share of positions that survive where a copy loses all of them
_RATES = {"edit_rate": "low", "survival": "high", "removal": "low"}  # and the closed end of (0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """Edits that a text must survive; at most one of the three rates is set."""

    edit_rate: float | None = None
    survival: float | None = None
    removal: float | None = None
    context_width: int = CONTEXT_WIDTH

    def __post_init__(self) -> None:
        given = {name: rate for name in _RATES if (rate := getattr(self, name)) is not None}
        if len(given) > 1:
            raise InvalidInput(f"give only one of {', '.join(_RATES)}; got {list(given)}.")
        width = int(count("context_width", self.context_width, at_least=0))
        object.__setattr__(self, "context_width", width)
        for name, rate in given.items():
            checked = in_interval(name, rate, 0.0, 1.0, closed=_RATES[name])
            object.__setattr__(self, name, float(checked))

    def __bool__(self) -> bool:
        return any(getattr(self, name) is not None for name in _RATES)

    @property
    def survivors(self) -> Survivors:
        """The law of the positions that keep their signal."""
        if self.edit_rate is not None:
            return RandomEdits(self.edit_rate, self.context_width)
        if self.removal:
            return RemovedBlock(self.removal, self.context_width)
        return FixedShare(1.0 if self.survival is None else self.survival)

    def thinned(self, kept: float, n_tokens: int) -> Edits:
        """Return edits that leave this share of the positions that survive these edits."""
        if kept == 1.0:
            return self
        if self.edit_rate is not None:
            left = (1.0 - self.edit_rate) * kept ** (1.0 / (self.context_width + 1))
            return Edits(edit_rate=1.0 - max(left, _LEAST), context_width=self.context_width)
        share = kept * self.surviving_share(n_tokens)
        return Edits(survival=max(share, _LEAST), context_width=self.context_width)

    def surviving_share(self, n_tokens: int) -> float:
        """Expected share of the n scored positions that still carry signal."""
        return self.survivors.share(n_tokens)

    def attacked_power(
        self, n_tokens: int, critical_count: float, gamma: float, gamma_prime: float, c: float
    ) -> float:
        """P(S >= critical_count) for the edited text; c inflates the variance of the marked part.

        Exact for independent tokens (c = 1) if the number of survivors is fixed or the text is
        short. Otherwise S gets a beta-binomial law with its exact mean and variance.
        """
        return self.survivors.power(n_tokens, critical_count, gamma, gamma_prime, c)

    def tail(self, rates: Array, k: int, gamma: float) -> Array:
        """P(S >= k) for edited texts whose tokens have these green rates; (texts, n) -> (texts,).

        If the number of survivors is fixed, they are the first tokens.
        """
        return self.survivors.tail(rates, k, gamma)


class Survivors(ABC):
    """Law of the positions of a text that keep their signal: one class per model of edits."""

    @abstractmethod
    def share(self, n: int) -> float:
        """Return the expected share of n positions that survive."""

    @abstractmethod
    def pairs(self, n: int) -> float:
        """Return E[M (M-1)], where M of the n positions survive."""

    @abstractmethod
    def tail(self, rates: Array, k: int, gamma: float) -> Array:
        """P(S >= k) of texts whose tokens have these green rates; (texts, n) -> (texts,)."""

    @abstractmethod
    def exact_power(self, n: int, k: float, gamma: float, gamma_prime: float) -> float | None:
        """P(S >= k) for independent tokens; None where it would take long."""

    def power(self, n: int, k: float, gamma: float, gamma_prime: float, c: float) -> float:
        """P(S >= k), where c inflates the variance of the marked tokens."""
        exact = self.exact_power(n, k, gamma, gamma_prime) if c == 1.0 else None
        if exact is not None:
            return exact
        share = self.share(n)
        rate = share * gamma_prime + (1.0 - share) * gamma
        binomial = n * rate * (1.0 - rate)
        if binomial <= 0.0:
            return float(beta_binomial_power(n, k, rate, 1.0))
        extra = self._extra_variance(n, gamma, gamma_prime, c)
        inflation = min(max((binomial + extra) / binomial, 1.0), most_inflation(n))
        return float(beta_binomial_power(n, k, rate, inflation))

    def _extra_variance(self, n: int, gamma: float, gamma_prime: float, c: float) -> float:
        """Var(S) beyond the binomial variance, by the law of total variance.

        With ``s = E[M] / n``, ``r`` the mean green rate and ``pairs = E[M (M-1)]``,

            Var(S) = n r (1-r) + (gamma' - gamma)^2 (pairs - n (n-1) s^2)
                     + correlation * gamma' (1-gamma') * pairs,

        where the correlation of two marked tokens of a text is ``(c-1) / (n-1)``.
        """
        s, pairs = self.share(n), self.pairs(n)
        correlation = (c - 1.0) / max(n - 1, 1)
        between = (gamma_prime - gamma) ** 2 * (pairs - n * (n - 1) * s * s)
        return between + correlation * gamma_prime * (1.0 - gamma_prime) * max(pairs, 0.0)


@dataclass(frozen=True, slots=True)
class RandomEdits(Survivors):
    """Each token is rewritten independently; a position needs its token and context untouched."""

    edit_rate: float
    context_width: int

    def share(self, n: int) -> float:
        return float((1.0 - self.edit_rate) ** (self.context_width + 1))

    def pairs(self, n: int) -> float:
        s, keep = self.share(n), 1.0 - self.edit_rate
        lags = np.arange(1, min(self.context_width, n - 1) + 1)  # neighbours that share tokens
        return n * (n - 1) * s * s + 2.0 * float(np.sum((n - lags) * (s * keep**lags - s * s)))

    def tail(self, rates: Array, k: int, gamma: float) -> Array:
        return edited_tail(
            rates, k, gamma=gamma, edit_rate=self.edit_rate, context_width=self.context_width
        )

    def exact_power(self, n: int, k: float, gamma: float, gamma_prime: float) -> float | None:
        if n > _SHORT:
            return None
        return float(self.tail(np.full((1, n), gamma_prime), int(k), gamma)[0])


class FixedSurvivors(Survivors):
    """A fixed number of positions survives."""

    @abstractmethod
    def count(self, n: int) -> int:
        """Return how many of n positions survive."""

    def share(self, n: int) -> float:
        return self.count(n) / n

    def pairs(self, n: int) -> float:
        return self.count(n) * (self.count(n) - 1.0)

    def tail(self, rates: Array, k: int, gamma: float) -> Array:
        n = rates.shape[1]
        return poisson_binomial_tail(np.where(np.arange(n) < self.count(n), rates, gamma), k)

    def exact_power(self, n: int, k: float, gamma: float, gamma_prime: float) -> float:
        marked = self.count(n)  # the count is a sum of two binomials
        greens, weights = _binomial_window(n - marked, gamma)
        still_needed = np.maximum(k - greens, 0.0)
        tails = binomial_tail(max(marked, 1), still_needed, gamma_prime if marked else 0.0)
        return float(weights @ tails)


@dataclass(frozen=True, slots=True)
class FixedShare(FixedSurvivors):
    """A fixed share of the positions survives, rounded down."""

    survival: float

    def count(self, n: int) -> int:
        return int(np.floor(n * self.survival + 1e-9))


@dataclass(frozen=True, slots=True)
class RemovedBlock(FixedSurvivors):
    """One block is replaced; the positions after it lose their context as well."""

    removal: float
    context_width: int

    def count(self, n: int) -> int:
        return max(0, n - int(block_length(n, self.removal)) - self.context_width)


def block_length(n_tokens: ArrayLike, removal: float) -> NDArray[np.int64]:
    """Return the length of a block that is this share of a text, rounded up."""
    return np.ceil(float(unit("removal", removal)) * np.asarray(n_tokens) - 1e-9).astype(np.int64)


def _binomial_window(n: int, p: float) -> tuple[Array, Array]:
    """Return the values of Binomial(n, p) that carry its mass to 1e-16, and their weights."""
    reach = 10.0 * np.sqrt(n * p * (1.0 - p)) + 30.0
    values = np.arange(max(0.0, np.floor(n * p - reach)), min(n, np.ceil(n * p + reach)) + 1.0)
    log_choose = special.gammaln(n + 1.0) - special.gammaln(values + 1.0)
    log_choose -= special.gammaln(n - values + 1.0)
    weights = np.exp(log_choose + special.xlogy(values, p) + special.xlog1py(n - values, -p))
    return values, weights / weights.sum()
