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
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from powermark.checks import Array
from powermark.errors import Infeasible
from powermark.signals.counts import matched_tail
from powermark.signals.signal import MAX_DELTA, SignalModel
from powermark.steering.goal import Goal, Tilt, edited_reward, read_reward
from powermark.steering.schedule import STEP, Schedule
from powermark.theory.power import binomial_tail

_BELOW_ONE = 1.0 - 2.0**-53
_LEAST = 1e-13  # probability of a count that matters
_PRECISE = 1e-6  # in the logarithm of a goal's value
_LOWEST, _HIGHEST = 1e-9, 1e4  # value of reaching the goal, in nats: no mark, and a hard mark
_LONGEST_EACH = 100  # tokens up to which a few texts are followed through their edits
_FEW = 16  # so many texts
_LONGEST_MEAN = 250  # tokens up to which two moments are corrected by texts followed through edits
_LONGEST_SOME = 1_000  # the same, where these stand for many texts


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

    With an edit rate exact for a few short texts. Others get the exact mean and variance of the
    greens left, for each count as written (:func:`_by_moments`), and what ``goal.missed`` says
    that this misses.
    """
    n, k, edits = goal.n_tokens, goal.critical_counts[-1], goal.edits
    if edits.edit_rate is not None:
        if _short(goal, tilt):
            return _exactly(goal, tilt, deltas)
        return _by_moments(goal, tilt, deltas)[1] + goal.missed
    shares = tilt.kept.mean(axis=1)
    ends = np.array([shares.min(), shares.max()])
    rewards = np.stack([edited_reward(n, k, goal.gamma, edits.thinned(end, n)) for end in ends])
    nearer = (shares - ends[0]) / max(ends[1] - ends[0], 1e-12)  # to the second of the two
    by_end = law @ rewards.T
    return np.asarray(by_end[:, 0] + nearer * (by_end[:, 1] - by_end[:, 0]))


def _short(goal: Goal, tilt: Tilt) -> bool:
    """Whether every text is followed through its edits."""
    return goal.n_tokens <= _LONGEST_EACH and tilt.weights.size <= _FEW


def _exactly(goal: Goal, tilt: Tilt, deltas: Array) -> Array:
    """Return the power after edits of each text, by the exact recursion."""
    from powermark.steering import steering_kernels as kernels

    k, edits = goal.critical_counts[-1], goal.edits
    texts = (tilt.nodes, tilt.kept, tilt.weights)
    rule = (edits.edit_rate, edits.context_width)
    found = kernels.edited_powers(deltas, k, *texts, goal.gamma, tilt.exact, *rule)
    return np.asarray(found)


def _missed(found: _Found, tilt: Tilt) -> float:
    """Return how much more power after edits the exact recursion finds, on average over texts."""
    exact = _exactly(found.goal, tilt, found.deltas)
    return float(tilt.weights @ (exact - _by_moments(found.goal, tilt, found.deltas)[1]))


def _powers(goal: Goal, tilt: Tilt, deltas: Array) -> tuple[float, float]:
    """Return the powers at the horizon on clean and edited text, without what they cost."""
    if goal.edits.edit_rate is None or _short(goal, tilt):
        found = forward(goal, tilt, deltas)
        return found.powers[-1], found.attacked_power
    n, k = goal.n_tokens, goal.critical_counts[-1]
    law, attacked = _by_moments(goal, tilt, deltas)
    lost = tilt.lost(np.array([n]))[:, 0].tolist()
    clean = [each @ read_reward(n, k, goal.gamma, m) for each, m in zip(law, lost, strict=True)]
    return float(tilt.weights @ clean), float(tilt.weights @ attacked) + goal.missed


def _by_moments(goal: Goal, tilt: Tilt, deltas: Array) -> tuple[Array, Array]:
    """Return law of the count and power after edits of each text, by moments of the greens left.

    For each count as written the greens left get the law of :func:`matched_tail`.
    """
    from powermark.steering import steering_kernels as kernels

    k, edits = goal.critical_counts[-1], goal.edits
    of = (tilt.nodes, tilt.kept, goal.gamma, tilt.exact, edits.edit_rate, edits.context_width)
    law, mean, square = kernels.edited_moments(deltas, *of)
    some = law > _LEAST
    mass = law[some]
    mean, square = mean[some] / mass, square[some] / mass
    variance = square - mean**2
    tails = matched_tail(np.maximum(mean, 1e-9), np.maximum(variance, 1e-9), k)
    found = np.zeros(law.shape)
    found[some] = mass * np.where(variance < 1e-6, mean > k - 0.5, tails)
    return law, np.asarray(found.sum(axis=1))


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
    asked = (power, power if attacked_power is None else attacked_power)
    cap = float(np.floor(cap / STEP) * STEP)
    some = signal.representative()
    tilt = Tilt.of(some, goal.gamma, goal.n_tokens)
    shares = (0.0, 0.5, 1.0) if goal.edits else (0.0,)  # of the reward for clean text
    found = _cheapest([replace(goal, clean=share) for share in shares], tilt, asked, cap)
    many = some is not signal
    corrected = goal.edits.edit_rate is not None and (many or not _short(goal, tilt))
    if corrected and goal.n_tokens <= (_LONGEST_SOME if many else _LONGEST_MEAN):
        for _ in range(1 if many else 2):  # the second time to be sure
            better = replace(found.goal, missed=_missed(found, tilt))
            found = _at_least(better, tilt, asked, cap, near=found.log_value)
    if many:  # the best share for some texts, and about its value, for all of them
        tilt = Tilt.of(signal, goal.gamma, goal.n_tokens)
        found = _at_least(found.goal, tilt, asked, cap, near=found.log_value)
    return Schedule(goal.gamma, found.deltas, *tilt.groups()), found.outcome


class _Found(NamedTuple):
    """Biases that are enough, their outcome, and for which goal and value they are the best."""

    deltas: Array
    outcome: Outcome
    goal: Goal
    log_value: float


def _cheapest(goals: list[Goal], tilt: Tilt, asked: tuple[float, float], cap: float) -> _Found:
    """Return the cheapest of the best schedules for some goals.

    The first goal is edited text alone: if clean text is found more often than was asked then, no
    other does better.
    """
    best: _Found | None = None
    reason: Infeasible | None = None
    for goal in goals:
        try:
            found = _at_least(goal, tilt, asked, cap)
        except Infeasible as error:
            reason = error
            continue
        if best is None or found.outcome.kl < best.outcome.kl:
            best = found
        spare = found.outcome.powers[-1] - asked[0]
        if goal.clean == 0.0 and spare > found.outcome.attacked_power - asked[1]:
            break
    if best is None:
        assert reason is not None
        raise reason
    return best


def _at_least(
    goal: Goal, tilt: Tilt, asked: tuple[float, float], cap: float, near: float | None = None
) -> _Found:
    """Find the lowest value of the goal at which both powers are reached, first ``near`` one."""
    power, attacked_power = asked

    def at(log_value: float) -> Array:
        return backward(goal, tilt, float(np.exp(log_value)), cap)

    @cache
    def surplus(log_value: float) -> float:
        """Logits above what was asked: nearly linear, so that roots are found soon."""
        clean, attacked = _powers(goal, tilt, at(log_value))
        spare = min(clean - power, attacked - attacked_power)
        return float(special.logit(np.clip(power + spare, 1e-300, _BELOW_ONE)) - wanted)

    wanted = special.logit(power)
    size = float(binomial_tail(goal.n_tokens, goal.critical_counts[-1], goal.gamma))
    guess = np.log(max(wanted - special.logit(size), 1e-2))
    low, high, stride = np.log(_LOWEST), guess + 0.5, 1.2
    if near is not None:
        stride = 2e-3 + min(abs(surplus(near)) / 4.0, 0.3)
        low, high = (near - stride, near) if surplus(near) >= 0.0 else (near, near + stride)
        while surplus(low) >= 0.0 and low > np.log(_LOWEST):
            stride *= 2.0
            low, high = max(low - stride, np.log(_LOWEST)), low
    while surplus(high) < 0.0:
        low, high, stride = high, high + stride, stride if near is None else 2.0 * stride
        if high > np.log(_HIGHEST):
            raise Infeasible(
                f"no schedule reaches power {power:g} with n_tokens = {goal.n_tokens} at gamma = "
                f"{goal.gamma:g}.",
                hint="allow fewer edits, a larger cap, more tokens or less power.",
            )
    # if alpha is close to the power, chance alone may suffice
    found = float(optimize.brentq(surplus, low, high, xtol=_PRECISE)) if surplus(low) < 0.0 else low
    deltas = np.minimum(np.ceil(at(found) / STEP - 1e-6) * STEP, cap)
    return _Found(deltas, forward(goal, tilt, deltas), goal, found)
