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
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from scipy import optimize, special

from powermark.calibration.edits import Edits
from powermark.calibration.rewards import clean_reward, edited_reward
from powermark.calibration.schedule import STEP, Schedule
from powermark.calibration.signal import MAX_DELTA, SignalModel
from powermark.calibration.tilt import Tilt
from powermark.checks import Array, count, open_unit
from powermark.errors import Infeasible, InvalidInput
from powermark.theory.power import binomial_tail, critical_count

_LOWEST, _HIGHEST = 1e-9, 1e4  # value of reaching the goal, in nats: no mark, and a hard one
_LONGEST_EACH = 100  # tokens up to which each text of a profile is followed through its edits
_LONGEST_MEAN = 250  # and up to which one text is that stands for all


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is to be reached: at each of some lengths a critical count, on clean or edited text.

    Each length counts as much as the others; the last is the horizon. Where texts are edited it is
    edited text that must reach the counts, but for a share ``clean`` of what it is worth.
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
        """Return the goal of the exact tests at these lengths, the longest being the horizon."""
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

    def reward(self, which: int) -> Array:
        """What s greens are worth at a length: the probability that they reach its count."""
        n, k = self.lengths[which], self.critical_counts[which]
        clean = clean_reward(n, k)
        if not self.edits:
            return clean
        return self.clean * clean + (1.0 - self.clean) * edited_reward(n, k, self.gamma, self.edits)


def edited_power(goal: Goal, rates: Array) -> float:
    """Power at the horizon after tokens are rewritten at a rate, exactly.

    ``rates[t, s]`` is the probability of a green token in a state. The recursion keeps the greens
    written, the greens left, and how many tokens in a row are untouched.
    """
    from powermark.calibration import kernels  # Numba takes a while to load

    edits = goal.edits
    found = kernels.edited_power(
        rates, goal.critical_counts[-1], goal.gamma, edits.edit_rate or 0.0, edits.context_width
    )
    return float(np.clip(found, 0.0, 1.0))


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
    gamma_prime: float
    errors: dict[str, float] | None


def backward(goal: Goal, tilt: Tilt, value: float, cap: float = MAX_DELTA) -> Array:
    """Return the best biases at a price of ``1/value`` a nat, by tokens and greens; (n, n+1).

    ``cap`` bounds the bias; the recursion then follows the bias that is really taken.
    """
    from powermark.calibration import kernels

    rewards = np.zeros((len(goal.lengths), goal.n_tokens + 1))
    for which, length in enumerate(goal.lengths):
        rewards[which, : length + 1] = value / len(goal.lengths) * goal.reward(which)
    lengths = np.array(goal.lengths)
    found = kernels.best_biases(rewards, lengths, tilt.average, tilt.gamma, tilt.exact, cap)
    return np.asarray(found)


def forward(goal: Goal, tilt: Tilt, deltas: Array) -> Outcome:
    """Follow the law of the count under a schedule, token by token, text by text."""
    from powermark.calibration import kernels

    n, weights = goal.n_tokens, tilt.weights
    lengths, counts = np.array(goal.lengths), np.array(goal.critical_counts)
    law, kls, squares, green, by_length = kernels.follow(
        deltas, lengths, counts, tilt.nodes, tilt.gamma, tilt.exact
    )
    powers = by_length.T
    kl, square = float(weights @ kls), float(weights @ squares)
    samples = {"gamma_prime": green / n, "kl": kls / n, "power": powers[-1]}
    attacked = powers[-1]
    if goal.edits:
        samples["attacked_power"] = attacked = _attacked(goal, tilt, deltas, law)
    return Outcome(
        law=weights @ law,
        powers=tuple(min(1.0, float(weights @ each)) for each in powers),
        attacked_power=float(np.clip(weights @ attacked, 0.0, 1.0)),
        kl=kl / n,
        kl_sd=float(np.sqrt(max(square - kl**2, 0.0))) / n,
        gamma_prime=float(weights @ green) / n,
        errors={name: _error(sample, weights) for name, sample in samples.items()}
        if weights.size > 1
        else None,
    )


def _attacked(goal: Goal, tilt: Tilt, deltas: Array, law: Array) -> Array:
    """Return the power after edits of each text, whose laws of the count are given.

    Exact for short texts. What the guide of longer ones leaves out, that neighbours survive
    together, is taken from one text with mean rates: to a few thousandths it is the same for all.
    """
    from powermark.calibration import kernels

    n, k, gamma, edits = goal.n_tokens, goal.critical_counts[-1], goal.gamma, goal.edits
    if edits.edit_rate is not None and n <= _LONGEST_EACH:
        rule = (edits.edit_rate, edits.context_width)
        each = kernels.edited_powers(deltas, k, tilt.nodes, tilt.weights, gamma, tilt.exact, *rule)
        return np.asarray(each)
    reward = edited_reward(n, k, gamma, edits)
    found = law @ reward
    if edits.edit_rate is not None and n <= _LONGEST_MEAN:
        one, horizon = tilt.average[None, None], (np.array([n]), np.array([k]))
        alone = kernels.follow(deltas, *horizon, one, gamma, tilt.exact)[0][0]
        found = found + edited_power(goal, tilt.of_states(deltas)) - alone @ reward
    return np.asarray(found)


def _error(sample: Array, weights: Array) -> float:
    """Standard error of a weighted mean, with Bessel's correction."""
    spread = np.sum(weights**2 * (sample - weights @ sample) ** 2)
    return float(np.sqrt(spread * weights.size / (weights.size - 1)))


def steer(
    goal: Goal,
    signal: SignalModel,
    power: float,
    *,
    attacked_power: float | None = None,
    cap: float = MAX_DELTA,
    kl_cap: float = np.inf,
) -> tuple[Schedule, Outcome]:
    """Return the schedule of least KL that reaches a power at the horizon, and what it gives.

    ``attacked_power`` is to be reached after edits, where the goal has some; the power itself if
    left out. No bias is above ``cap``, nor costs a step more than ``kl_cap`` on average.

    Raises
    ------
    Infeasible
        If not even the largest bias in every state reaches it.
    """
    attacked_power = power if attacked_power is None else attacked_power
    tilt = Tilt.of(signal, goal.gamma, goal.n_tokens)
    cap = _within(tilt, cap, kl_cap)
    shares = (0.0, 0.5, 1.0) if goal.edits else (0.0,)  # of the reward that is for clean text
    found = []
    for share in shares:
        try:
            found.append(_at_least(replace(goal, clean=share), tilt, power, attacked_power, cap))
        except Infeasible as error:
            reason = error
    if not found:
        raise reason
    deltas, outcome = min(found, key=lambda each: each[1].kl)
    return Schedule(goal.gamma, deltas, np.clip(tilt.mean, 0.0, 1.0)), outcome


def _within(tilt: Tilt, cap: float, kl_cap: float) -> float:
    """Return the largest bias that both caps allow, in whole steps."""
    if kl_cap == np.inf:
        return float(np.floor(cap / STEP) * STEP)
    biases = np.arange(np.floor(cap / STEP) + 1.0) * STEP
    costs = np.maximum.accumulate(tilt.kl(biases))  # they rise but for rounding
    return float(biases[np.searchsorted(costs, kl_cap, side="right") - 1])


def _at_least(
    goal: Goal, tilt: Tilt, power: float, attacked_power: float, cap: float
) -> tuple[Array, Outcome]:
    """Find the lowest value of reaching the goal at which both powers are reached."""

    def at(log_value: float) -> Array:
        return backward(goal, tilt, float(np.exp(log_value)), cap)

    @cache
    def surplus(log_value: float) -> float:
        reached = forward(goal, tilt, at(log_value))
        return min(reached.powers[-1] - power, reached.attacked_power - attacked_power)

    size = float(binomial_tail(goal.n_tokens, goal.critical_counts[-1], goal.gamma))
    guess = np.log(max(special.logit(power) - special.logit(size), 1e-2))
    low, high = np.log(_LOWEST), guess + 0.5
    while surplus(high) < 0.0:
        low, high = high, high + 0.7
        if high > np.log(_HIGHEST):
            raise Infeasible(
                f"no schedule reaches power {power:g} with n_tokens = {goal.n_tokens} at gamma = "
                f"{goal.gamma:g}.",
                hint="allow fewer edits, a larger cap, more tokens or less power.",
            )
    # where alpha is next to the power, chance alone may do
    found = optimize.brentq(surplus, low, high, xtol=1e-9) if surplus(low) < 0.0 else low
    deltas = np.minimum(np.ceil(at(found) / STEP - 1e-6) * STEP, cap)
    return deltas, forward(goal, tilt, deltas)
