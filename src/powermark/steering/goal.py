"""The two terms of the steering recursion (:mod:`.recursion`), at one gamma.

``Tilt`` is the effect of a bias: the green rate as a spline, and the KL and g that follow from it.
``Goal`` is the reward R(s) of a green count s: whether it reaches the critical counts, on clean or
edited text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.interpolate import CubicSpline

from powermark.checks import Array, count, open_unit
from powermark.errors import Infeasible, InvalidInput
from powermark.signals.counts import matched_tail
from powermark.signals.edits import Edits, FixedSurvivors
from powermark.signals.signal import MAX_DELTA, PlugIn, SignalModel
from powermark.theory.green_rate import gamma_prime
from powermark.theory.power import critical_count, unchecked_tail

BIASES = MAX_DELTA * np.linspace(0.0, 1.0, 56) ** 2  # where signals are evaluated; dense near 0
_SPLINE = CubicSpline(BIASES, np.eye(BIASES.size))  # linear in its values
_PARTS, _LONG_PARTS, _LONG = (
    4,
    1,
    1_000,
)  # groups of texts; of texts over 1,000 tokens
_SLOPES, _AREAS = _SPLINE.derivative()(BIASES).T, _SPLINE.antiderivative()(BIASES).T


class Tilt:
    """The effect of biases at one gamma: green rate and KL.

    A signal model gives the green rate at a few biases; between them it is a cubic spline, stored
    as ``nodes``: its values, slopes and integral at BIASES. The KL follows, ``delta r(delta) -
    g(delta)``, because g is the integral of the green rate r. With the plug-in, ``exact``, both
    have a closed form.

    With a profile, each text has its own rates at each of its steps.

    Attributes
    ----------
    mean
        Green rates at BIASES on average over steps.
    average, nodes
        (3, biases) of that mean; (texts, steps, 3, biases), where one step may represent all.
    weights
        Of the texts.
    kept
        (texts, n) whether a step's signal is in the text that a detector sees.
    """

    def __init__(
        self,
        gamma: float,
        rates: Array,
        *,
        kept: NDArray[np.bool_],
        exact: bool = False,
        steps: Array | None = None,
        weights: Array | None = None,
    ) -> None:
        self.gamma, self.mean, self.exact, self.kept = gamma, rates, exact, kept
        self.weights = np.ones(1) if weights is None else weights
        self.average = _nodes(rates)
        self.nodes = self.average[None, None] if steps is None else _nodes(steps)

    @classmethod
    def of(cls, signal: SignalModel, gamma: float, n_tokens: int) -> Tilt:
        """Return the effect of biases on a signal, over n steps."""
        texts = signal.text_rates(gamma, BIASES, n_tokens)
        if texts is not None:
            steps, weights, kept = texts
            mean = weights @ steps.mean(axis=1)
            return cls(gamma, mean, steps=steps, weights=weights, kept=kept)
        rates = np.asarray(signal.green_rate(gamma, BIASES), np.float64)
        return cls(
            gamma, rates, kept=np.ones((1, n_tokens), bool), exact=isinstance(signal, PlugIn)
        )

    def lost(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of each text's first steps are lost; (texts, lengths)."""
        return np.asarray(np.cumsum(~self.kept, axis=1)[:, lengths - 1])

    def groups(self) -> tuple[Array, Array, Array]:
        """Return rates, weights and lost shares of a few groups of similar texts.

        Texts that lose no step and texts that lose some are each divided by their mean rates.
        """
        if self.nodes.shape[1] == 1:
            return np.clip(self.mean[None], 0.0, 1.0), np.ones(1), np.zeros(1)
        rates, lost = self.nodes[:, :, 0].mean(axis=1), 1.0 - self.kept.mean(axis=1)
        parts = _LONG_PARTS if self.kept.shape[1] > _LONG else _PARTS
        chosen = []
        for some in (np.flatnonzero(lost == 0.0), np.flatnonzero(lost > 0.0)):
            order = some[np.argsort(rates[some].mean(axis=1))]
            reached = np.cumsum(self.weights[order]) - 0.5 * self.weights[order]
            part = np.floor(parts * reached / max(self.weights[some].sum(), 1e-12))
            chosen += [order[part == which] for which in range(parts)]
        chosen = [texts for texts in chosen if self.weights[texts].sum() > 0.0]
        weights = np.array([self.weights[texts].sum() for texts in chosen])
        shares = [self.weights[texts] / self.weights[texts].sum() for texts in chosen]
        means = [share @ rates[texts] for share, texts in zip(shares, chosen, strict=True)]
        losses = [share @ lost[texts] for share, texts in zip(shares, chosen, strict=True)]
        return np.clip(np.array(means), 0.0, 1.0), weights, np.array(losses)

    @property
    def kept_share(self) -> float:
        """Share of the steps whose signal a detector sees."""
        return float(self.weights @ self.kept.mean(axis=1))

    def of_states(self, deltas: Array) -> Array:
        """Return the green rate of each state of a schedule, on average over steps."""
        if self.exact:
            return gamma_prime(self.gamma, deltas)
        return np.clip(CubicSpline(BIASES, self.mean)(deltas), 0.0, 1.0)


def _nodes(rates: Array) -> Array:
    """Return values, slopes and integrals of rates at BIASES; (..., b) -> (..., 3, b)."""
    return np.stack([rates, rates @ _SLOPES, rates @ _AREAS], axis=-2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The critical counts to reach, one for each of some lengths, on clean or edited text.

    All lengths have equal weight; the last is the horizon. If texts are edited, a share ``clean``
    of the reward is for clean text that reaches a count, and the rest for edited text.
    """

    gamma: float
    lengths: tuple[int, ...]
    critical_counts: tuple[int, ...]
    edits: Edits = field(default_factory=Edits)
    clean: float = 0.0

    @classmethod
    def of(
        cls, gamma: float, alpha: float, lengths: Sequence[int], *, edits: Edits | None = None
    ) -> Goal:
        """Return the goal of the exact tests at these lengths; the longest is the horizon."""
        ns = count("lengths", lengths).astype(int)
        if np.unique(ns).size < ns.size:
            raise InvalidInput("lengths must differ.")
        order = np.argsort(ns)
        ks = [int(critical_count(int(n), gamma, alpha)) for n in ns[order]]
        for n, k in zip(ns[order], ks, strict=True):
            if k > n:
                raise Infeasible(
                    f"no test of level alpha = {alpha:g} exists at gamma = {gamma:g}, "
                    f"n_tokens = {n}."
                )
        return cls(
            gamma=float(open_unit("gamma", gamma)),
            lengths=tuple(ns[order].tolist()),
            critical_counts=tuple(ks),
            edits=Edits() if edits is None else edits,
        )

    @property
    def n_tokens(self) -> int:
        """The horizon."""
        return self.lengths[-1]

    def reach(self, most_lost: int) -> Array:
        """P(s greens reach the count of a length) after 0, 1, ... tokens lose their signal.

        (lengths, most_lost + 1, n_tokens + 1).
        """
        found = np.zeros((len(self.lengths), most_lost + 1, self.n_tokens + 1))
        for which, (n, k) in enumerate(zip(self.lengths, self.critical_counts, strict=True)):
            for lost in range(min(most_lost, n) + 1):
                found[which, lost, : n + 1] = read_reward(n, k, self.gamma, lost)
        return found

    def rewards(self, tilt: Tilt) -> Array:
        """Return the reward R(s) at each length, averaged over texts; (lengths, n_tokens + 1)."""
        lost = tilt.lost(np.array(self.lengths))
        reach, found = self.reach(int(lost.max())), np.zeros((len(self.lengths), self.n_tokens + 1))
        for which, (n, k) in enumerate(zip(self.lengths, self.critical_counts, strict=True)):
            found[which] = tilt.weights @ reach[which, lost[:, which]]
            if self.edits:
                edits = self.edits.thinned(tilt.kept_share, n)
                edited = edited_reward(n, k, self.gamma, edits)
                found[which, : n + 1] *= self.clean
                found[which, : n + 1] += (1.0 - self.clean) * edited
        return found


@lru_cache(maxsize=64)
def read_reward(n_tokens: int, k: int, gamma: float, lost: int) -> Array:
    """P(a count of s still reaches k after ``lost`` positions lose their signal), for s = 0..n."""
    n, s, greens = n_tokens, np.arange(n_tokens + 1.0), np.arange(lost + 1.0)
    if lost == 0:
        return np.asarray(s >= k, np.float64)
    logs = _log_choose(s[:, None], greens) + _log_choose(n - s[:, None], lost - greens)
    chances = np.exp(logs - _log_choose(np.asarray(float(n)), np.asarray(float(lost))))
    tails = unchecked_tail(lost, k - s[:, None] + greens, gamma)  # of the greens redrawn
    return np.asarray(np.clip((chances * tails).sum(axis=1), 0.0, 1.0))


@lru_cache(maxsize=64)
def edited_reward(n_tokens: int, k: int, gamma: float, edits: Edits) -> Array:
    """P(a count of s still reaches k after edits), for s = 0..n.

    If m of the n positions survive, ``Hypergeom(n, s, m)`` of the greens survive and
    ``Binomial(n - m, gamma)`` others appear. With an edit rate, positions are taken to survive
    independently. That is a guide, because neighbours survive together;
    :func:`powermark.steering.recursion.edited_power` is exact.
    """
    n, s = n_tokens, np.arange(n_tokens + 1.0)
    survivors = edits.survivors
    if isinstance(survivors, FixedSurvivors):
        return _of_survivors(n, k, gamma, survivors.count(n))
    q = survivors.share(n)
    stays, turns = q + (1.0 - q) * gamma, (1.0 - q) * gamma
    logs = _log_choose(s[:, None], s) + special.xlogy(s, stays)
    greens = np.exp(logs + special.xlog1py(np.maximum(s[:, None] - s, 0.0), -stays))
    tails = np.stack([unchecked_tail(n - count, k - s, turns) for count in range(n + 1)])
    return np.asarray(np.clip((greens * tails).sum(axis=1), 0.0, 1.0))


def matched_reward(n_tokens: int, k: int, gamma: float, edits: Edits) -> Array:
    """P(a count of s still reaches k after edits), for s = 0..n, by two moments.

    The greens are at random places, so with M survivors and ``c = s - n gamma``,

        E = n gamma + q c,
        Var = n (1-q) gamma (1-gamma) + q (1-q) Q + (c^2 - Q) (E[M(M-1)] / (n (n-1)) - q^2),

    where q is the share that survives and ``Q = s (1-gamma)^2 + (n-s) gamma^2``. Exact where all
    survive.
    """
    n, s = n_tokens, np.arange(n_tokens + 1.0)
    law = edits.survivors
    q, pairs = law.share(n), law.pairs(n) / max(n * (n - 1.0), 1.0)
    if q == 1.0:
        return np.asarray(s >= k, np.float64)
    c, square = s - n * gamma, s * (1.0 - gamma) ** 2 + (n - s) * gamma**2
    variance = n * (1.0 - q) * gamma * (1.0 - gamma) + q * (1.0 - q) * square
    variance = variance + (c**2 - square) * (pairs - q * q)
    return matched_tail(n * gamma + q * c, np.maximum(variance, 1e-12), k)


def _of_survivors(n: int, k: int, gamma: float, survivors: int) -> Array:
    """P(a count of s still reaches k if this many of the n positions, at random, survive)."""
    s, kept = np.arange(n + 1.0), np.arange(survivors + 1.0)
    logs = _log_choose(s[:, None], kept) + _log_choose(n - s[:, None], survivors - kept)
    greens = np.exp(logs - _log_choose(np.asarray(float(n)), np.asarray(float(survivors))))
    return np.asarray(np.clip(greens @ unchecked_tail(n - survivors, k - kept, gamma), 0.0, 1.0))


def _log_choose(n: Array, k: Array) -> Array:
    """Logarithm of the binomial coefficient, minus infinity where it is 0."""
    possible = (k >= 0.0) & (k <= n)
    k = np.where(possible, k, 0.0)
    value = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    return np.where(possible, value, -np.inf)
