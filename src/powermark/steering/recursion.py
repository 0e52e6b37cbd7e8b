"""Steering: a bias that depends on the count so far, for the same detector.

A constant bias wastes quality on texts that are already detected and on texts that are already
lost. Embedder and detector count the same tokens, so the bias may depend on the state: t tokens
scored so far, s of them green. At a price of ``1/x`` per nat, the best bias solves, with U the
value times x,

    U_n(s) = x R(s),
    delta_t(s) = U_{t+1}(s+1) - U_{t+1}(s),
    U_t(s) = U_{t+1}(s) + g(delta_t(s)),      g(delta) = E log(1 + (e^delta - 1) y),

where R(s) is 1 if s reaches the critical count, or the probability that it still does after edits
(``Goal``). By the token lemma the best tilt does not depend on y, and g follows from the two
quantities of every signal model, ``g = delta gamma_prime - kl`` (``Tilt``). If y = gamma at every
step, e^U is a martingale, and the KL spent is the information limit itself, at any gamma.

The detector is unchanged, and so is its size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import optimize, special

from powermark.checks import Array
from powermark.errors import Infeasible
from powermark.signals.signal import MAX_DELTA, SignalModel
from powermark.steering.goal import Goal, Tilt, edited_reward
from powermark.steering.schedule import STEP, Schedule
from powermark.theory.power import binomial_tail

_LOWEST, _HIGHEST = 1e-9, 1e4  # value of reaching the goal, in nats: no mark, and a hard mark
_LONGEST_EACH = 100  # tokens up to which each text of a profile is followed through its edits
_LONGEST_MEAN = 250  # tokens up to which one text with mean rates is followed


def edited_power(goal: Goal, rates: Array) -> float:
    """Power at the horizon after tokens are rewritten at a rate, exactly.

    ``rates[t, s]`` is the probability of a green token in a state. The recursion tracks the greens
    written, the greens left, and the number of untouched tokens in a row.
    """
    from powermark.steering import steering_kernels as kernels

    edits = goal.edits
    kept = np.ones(rates.shape[0], bool)
    rule = (goal.gamma, edits.edit_rate or 0.0, edits.context_width)
    found = kernels.edited_power(rates, kept, goal.critical_counts[-1], *rule)
    return float(np.clip(found, 0.0, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """The result of a schedule, by the exact forward recursion.

    ``law`` is the law of the green count at the horizon as written, ``powers`` are the powers on
    clean text at each length of the goal, ``kl`` is in nats per token, with standard deviation
    ``kl_sd`` between texts, and ``gamma_prime`` is the green rate that a detector sees. ``errors``
    are standard errors, if the texts of a profile were followed one by one.
    """

    law: Array
    powers: tuple[float, ...]
    attacked_power: float
    kl: float
    kl_sd: float
    gamma_prime: float
    errors: dict[str, float] | None


def backward(goal: Goal, tilt: Tilt, value: float, cap: float = MAX_DELTA) -> Array:
    """Return the best biases at a price of ``1/value`` per nat, by tokens and greens; (n, n+1).

    ``cap`` bounds the bias; the recursion then follows the bounded bias.
    """
    from powermark.steering import steering_kernels as kernels

    rewards = value / len(goal.lengths) * goal.rewards(tilt)
    rule = (tilt.average, tilt.gamma, tilt.exact, cap)
    everyone = np.ones(goal.n_tokens)
    found = kernels.best_biases(rewards, np.array(goal.lengths), everyone, *rule)
    return np.asarray(found)


def forward(goal: Goal, tilt: Tilt, deltas: Array) -> Outcome:
    """Follow the law of the count under a schedule, token by token, text by text."""
    from powermark.steering import steering_kernels as kernels

    n, weights = goal.n_tokens, tilt.weights
    lengths = np.array(goal.lengths)
    lost = tilt.lost(lengths)
    law, kls, squares, green, by_length = kernels.follow(
        deltas, lengths, goal.reach(int(lost.max())), lost, tilt.nodes, tilt.gamma, tilt.exact
    )
    powers = by_length.T
    kl, square = float(weights @ kls), float(weights @ squares)
    seen = (green * (n - lost[:, -1]) / n + goal.gamma * lost[:, -1]) / n
    samples = {"gamma_prime": seen, "kl": kls / n, "power": powers[-1]}
    attacked = powers[-1]
    if goal.edits:
        samples["attacked_power"] = attacked = _attacked(goal, tilt, deltas, law)
    return Outcome(
        law=weights @ law,
        powers=tuple(min(1.0, float(weights @ each)) for each in powers),
        attacked_power=float(np.clip(weights @ attacked, 0.0, 1.0)),
        kl=kl / n,
        kl_sd=float(np.sqrt(max(square - kl**2, 0.0))) / n,
        gamma_prime=float(weights @ seen),
        errors={name: weighted_error(sample, weights) for name, sample in samples.items()}
        if weights.size > 1
        else None,
    )


def _attacked(goal: Goal, tilt: Tilt, deltas: Array, law: Array) -> Array:
    """Return the power after edits of each text, given the laws of their counts.

    Exact for short texts. Longer texts get :func:`edited_reward`, which ignores that neighbours
    survive together, and a correction for it from one text with mean rates; the correction is the
    same for all texts to a few thousandths.
    """
    from powermark.steering import steering_kernels as kernels

    n, k, gamma, edits = goal.n_tokens, goal.critical_counts[-1], goal.gamma, goal.edits
    if edits.edit_rate is not None and n <= _LONGEST_EACH:
        rule = (edits.edit_rate, edits.context_width)
        texts = (tilt.nodes, tilt.kept, tilt.weights)
        return np.asarray(kernels.edited_powers(deltas, k, *texts, gamma, tilt.exact, *rule))
    shares = tilt.kept.mean(axis=1)
    ends = np.array([shares.min(), shares.max()])
    rewards = np.stack([edited_reward(n, k, gamma, edits.thinned(end, n)) for end in ends])
    nearer = (shares - ends[0]) / max(ends[1] - ends[0], 1e-12)  # to the second of the two
    by_end = law @ rewards.T
    found = by_end[:, 0] + nearer * (by_end[:, 1] - by_end[:, 0])
    if edits.edit_rate is not None and n <= _LONGEST_MEAN:
        one, horizon, none = tilt.average[None, None], np.array([n]), np.zeros((1, 1), np.int64)
        reach = replace(goal, lengths=(n,), critical_counts=(k,)).reach(0)
        alone = kernels.follow(deltas, horizon, reach, none, one, gamma, tilt.exact)[0][0]
        exact = edited_power(goal, tilt.of_states(deltas))
        found = found + exact - alone @ edited_reward(n, k, gamma, edits)
    return np.asarray(found)


def weighted_error(sample: Array, weights: Array) -> float:
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
) -> tuple[Schedule, Outcome]:
    """Return the schedule of least KL that reaches a power at the horizon, and its outcome.

    ``attacked_power`` is the power after edits, if the goal has edits; by default the same power.
    No bias is above ``cap``.

    Raises
    ------
    Infeasible
        If not even the largest bias in every state reaches it.
    """
    attacked_power = power if attacked_power is None else attacked_power
    tilt = Tilt.of(signal, goal.gamma, goal.n_tokens)
    cap = float(np.floor(cap / STEP) * STEP)
    shares = (0.0, 0.5, 1.0) if goal.edits else (0.0,)  # of the reward for clean text
    found = []
    for share in shares:
        try:
            found.append(_at_least(replace(goal, clean=share), tilt, power, attacked_power, cap))
        except Infeasible as error:
            reason = error
    if not found:
        raise reason
    deltas, outcome = min(found, key=lambda each: each[1].kl)
    return Schedule(goal.gamma, deltas, *tilt.groups()), outcome


def _at_least(
    goal: Goal, tilt: Tilt, power: float, attacked_power: float, cap: float
) -> tuple[Array, Outcome]:
    """Find the lowest value of the goal at which both powers are reached."""

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
    # if alpha is close to the power, chance alone may suffice
    found = optimize.brentq(surplus, low, high, xtol=1e-9) if surplus(low) < 0.0 else low
    deltas = np.minimum(np.ceil(at(found) / STEP - 1e-6) * STEP, cap)
    return deltas, forward(goal, tilt, deltas)
