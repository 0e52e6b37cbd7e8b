"""Steered delta: a bias that depends on how the count stands, for the same detector.

A constant bias spends quality on texts that are already found and on texts that are already lost.
Embedder and detector count the same tokens, so the bias may depend on the state: t tokens scored so
far, s of them green. At a price of ``1/x`` a nat, the best bias solves, with U the value times x,

    U_n(s) = x R(s),
    delta_t(s) = U_{t+1}(s+1) - U_{t+1}(s),
    U_t(s) = U_{t+1}(s) + g(delta_t(s)),      g(delta) = E log(1 + (e^delta - 1) y),

where R(s) is 1 if s reaches the critical count, or the probability that it still does after edits.
That is the whole of it: by the token lemma the best tilt does not depend on y, and g follows from
what every signal model knows, ``g = delta gamma_prime - kl``. With y = gamma throughout, e^U is a
martingale, and the KL spent is the information limit itself, at any gamma.

The detector is the same, and so is its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, special

from powermark.calibration.schedule import STEP, Schedule
from powermark.calibration.signal import MAX_DELTA, SignalModel
from powermark.calibration.tilt import Tilt
from powermark.checks import Array, count, open_unit
from powermark.errors import Infeasible, InvalidInput
from powermark.theory.power import binomial_tail, critical_count

_LOWEST, _HIGHEST = (
    1e-3,
    200.0,
)  # value of reaching the goal, in nats; more than this no text is worth


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is to be reached: at each of some lengths a critical count, on clean or edited text.

    ``weights`` say how much each length counts; the last is the horizon. With a ``survival`` below
    1 it is edited text that must reach the counts, but for a share ``clean`` of what it is worth.
    """

    gamma: float
    lengths: tuple[int, ...]
    critical_counts: tuple[int, ...]
    weights: tuple[float, ...]
    survival: float = 1.0
    clean: float = 0.0

    @classmethod
    def of(
        cls,
        gamma: float,
        alpha: float,
        lengths: Sequence[int],
        *,
        weights: Sequence[float] | None = None,
        survival: float = 1.0,
    ) -> Goal:
        """Return the goal of the exact tests at these lengths."""
        ns = np.sort(count("lengths", lengths).astype(int))
        ks = [int(critical_count(int(n), gamma, alpha)) for n in ns]
        if ks[-1] > ns[-1]:
            raise Infeasible(
                f"no test of level alpha = {alpha:g} exists at gamma = {gamma:g}, "
                f"n_tokens = {ns[-1]}."
            )
        shares = np.ones(ns.size) if weights is None else np.asarray(weights, np.float64)
        if shares.shape != ns.shape or not (shares >= 0.0).all() or shares.sum() <= 0.0:
            raise InvalidInput(f"weights must be one number a length, {ns.size}.")
        return cls(
            gamma=float(open_unit("gamma", gamma)),
            lengths=tuple(ns.tolist()),
            critical_counts=tuple(ks),
            weights=tuple((shares / shares.sum()).tolist()),
            survival=survival,
        )

    @property
    def n_tokens(self) -> int:
        """The horizon."""
        return self.lengths[-1]

    def reward(self, which: int, survival: float | None = None) -> Array:
        """R(s) at a length: the probability that s greens still reach its critical count."""
        n, k = self.lengths[which], self.critical_counts[which]
        return reward(n, k, self.gamma, self.survival if survival is None else survival)


def reward(n_tokens: int, k: int, gamma: float, survival: float) -> Array:
    """P(a count s still reaches k after edits), for s = 0..n.

    A green token stays green with probability ``q + (1-q) gamma`` and a red one turns green with
    probability ``(1-q) gamma``, q being the survival.
    """
    s = np.arange(n_tokens + 1.0)
    if survival >= 1.0:
        return np.asarray(s >= k, np.float64)
    stays, turns = survival + (1.0 - survival) * gamma, (1.0 - survival) * gamma
    total = np.zeros(n_tokens + 1)
    for kept in range(n_tokens + 1):  # of the greens; the reds must make up for the rest
        log_choose = special.gammaln(s + 1.0) - special.gammaln(kept + 1.0)
        log_choose -= special.gammaln(np.maximum(s - kept, 0.0) + 1.0)
        logs = log_choose + special.xlogy(kept, stays) + special.xlog1py(s - kept, -stays)
        chance = np.where(s >= kept, np.exp(np.where(s >= kept, logs, 0.0)), 0.0)
        reds = np.maximum(n_tokens - s, 1.0)
        needed = np.maximum(k - kept, 0.0)
        tail = np.where(
            needed > n_tokens - s, 0.0, binomial_tail(reds, np.minimum(needed, reds), turns)
        )
        total += chance * np.where(needed <= 0.0, 1.0, tail)
    return np.clip(total, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What a schedule gives: the exact forward recursion.

    ``law`` is the law of the green count at the horizon, ``powers`` those on clean text at each
    length of the goal, ``kl`` nats per token with the standard deviation ``kl_sd`` between texts.
    ``errors`` are standard errors where the texts of a profile were followed one by one.
    """

    law: Array
    powers: tuple[float, ...]
    attacked_power: float
    kl: float
    kl_sd: float
    green_rate: float
    errors: dict[str, float] | None


def backward(goal: Goal, tilt: Tilt, value: float, cap: float = MAX_DELTA) -> Array:
    """Return the best biases at a price of ``1/value`` a nat, by tokens and greens; (n, n+1).

    ``cap`` bounds the bias; the recursion then follows the bias that is really taken.
    """
    n = goal.n_tokens
    deltas, u = np.zeros((n, n + 1)), np.zeros(n + 1)
    for t in range(n - 1, -1, -1):
        if t + 1 in goal.lengths:
            which = goal.lengths.index(t + 1)
            worth = (1.0 - goal.clean) * goal.reward(which)
            worth += goal.clean * goal.reward(which, survival=1.0)
            u = u[: t + 2] + value * goal.weights[which] * worth
        gain = np.diff(u)  # of a green token over a red one
        delta = np.clip(gain, 0.0, cap)
        rates, costs = tilt(delta)
        u = u[:-1] + rates * gain - costs
        deltas[t, : t + 1] = delta
    return deltas


def forward(goal: Goal, tilt: Tilt, deltas: Array) -> Outcome:
    """Follow the law of the count under a schedule, token by token, text by text."""
    n = goal.n_tokens
    law = np.zeros((tilt.weights.size, n + 1))
    law[:, 0] = 1.0
    spent, squares = (
        np.zeros_like(law),
        np.zeros_like(law),
    )  # E[C; s] and E[C^2; s], C the KL so far
    green, powers = np.zeros(tilt.weights.size), []
    for t in range(n):
        here = slice(0, t + 1)
        rates, costs = tilt.at(t, deltas[t, here])
        now = law[:, here]
        squares[:, here] += 2.0 * costs * spent[:, here] + costs**2 * now
        spent[:, here] += costs * now
        green += (now * rates).sum(axis=1)
        for mass in (law, spent, squares):
            moved = mass[:, here] * rates
            mass[:, here] -= moved
            mass[:, 1 : t + 2] += moved
        if t + 1 in goal.lengths:
            clean = goal.reward(goal.lengths.index(t + 1), survival=1.0)
            powers.append(law[:, : t + 2] @ clean)
    weights, kls = tilt.weights, spent.sum(axis=1)
    kl, square = float(weights @ kls), float(weights @ squares.sum(axis=1))
    samples = {"gamma_prime": green / n, "kl": kls / n, "power": powers[-1]}
    return Outcome(
        law=weights @ law,
        powers=tuple(float(weights @ each) for each in powers),
        attacked_power=float(weights @ (law @ goal.reward(len(goal.lengths) - 1))),
        kl=kl / n,
        kl_sd=float(np.sqrt(max(square - kl**2, 0.0))) / n,
        green_rate=float(weights @ green) / n,
        errors={name: _error(sample, weights) for name, sample in samples.items()}
        if weights.size > 1
        else None,
    )


def _error(sample: Array, weights: Array) -> float:
    """Standard error of a weighted mean."""
    return float(np.sqrt(np.sum(weights**2 * (sample - weights @ sample) ** 2)))


def steer(
    goal: Goal,
    signal: SignalModel,
    power: float,
    *,
    attacked_power: float | None = None,
    cap: float = MAX_DELTA,
) -> tuple[Schedule, Outcome]:
    """Return the schedule of least KL that reaches a power at the horizon, and what it gives.

    ``attacked_power`` is to be reached after edits, where the goal has a survival below 1; the
    power itself if left out.

    Raises
    ------
    Infeasible
        If no price is high enough.
    """
    attacked_power = power if attacked_power is None else attacked_power
    tilt = Tilt.of(signal, goal.gamma, goal.n_tokens)
    found = [_at_least(goal, tilt, power, attacked_power, cap)]
    if goal.survival < 1.0 and found[0][1].powers[-1] < power + 1e-6:  # clean text decides, too
        mixed = (replace(goal, clean=share) for share in (0.5, 1.0))
        found += [_at_least(each, tilt, power, attacked_power, cap) for each in mixed]
    deltas, outcome = min(found, key=lambda each: each[1].kl)
    return Schedule(goal.gamma, deltas, tilt.mean), outcome


def _at_least(
    goal: Goal, tilt: Tilt, power: float, attacked_power: float, cap: float
) -> tuple[Array, Outcome]:
    """Find the lowest value of reaching the goal at which both powers are reached."""

    def surplus(log_value: float) -> float:
        reached = forward(goal, tilt, backward(goal, tilt, float(np.exp(log_value)), cap))
        return min(reached.powers[-1] - power, reached.attacked_power - attacked_power)

    size = float(binomial_tail(goal.n_tokens, goal.critical_counts[-1], goal.gamma))
    guess = np.log(max(special.logit(power) - special.logit(size), 1e-2))
    low, high = guess - 0.5, guess + 0.5
    while surplus(low) >= 0.0 and low > np.log(_LOWEST):
        low -= 1.0
    while surplus(high) < 0.0:
        low, high = high, high + 1.0
        if high > np.log(_HIGHEST):
            raise Infeasible(
                f"no schedule reaches power {power:g} with n_tokens = {goal.n_tokens} at gamma = "
                f"{goal.gamma:g}.",
                hint="allow fewer edits, more tokens or less power.",
            )
    if surplus(low) < 0.0:
        low = float(optimize.brentq(surplus, low, high, xtol=1e-9))
    deltas = np.ceil(backward(goal, tilt, float(np.exp(low)), cap) / STEP - 1e-6) * STEP
    return deltas, forward(goal, tilt, deltas)
