"""Steering for answers of any length: the schedule of least KL that finds a share of them.

An answer ends after N counted tokens, and is tested at its own length. While it is written nobody
knows N, only its law. With ``w_t = P(N > t)``, the share of answers that have a token after t, the
recursion of :mod:`.recursion` becomes

    U_n(s)     gains x P(N = n) R_n(s) at every length n,
    delta_t(s) = (U_{t+1}(s+1) - U_{t+1}(s)) / w_t,
    U_t(s)     = U_{t+1}(s) + w_t g(delta_t(s)),

where R_n(s) is the probability that an answer of n tokens, s of them green, is found. Tokens
that a copy loses are taken to be at random places, and edits enter R by the first two moments of
the count that they leave (:func:`matched_reward`).
The recursion takes all texts to be alike; what a schedule gives is computed for each text, by its
own rates and at its own length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from powermark.checks import Array
from powermark.errors import Infeasible
from powermark.signals.edits import Edits
from powermark.signals.signal import MAX_DELTA, SignalModel
from powermark.steering.goal import Tilt, matched_reward, read_reward
from powermark.steering.recursion import weighted_error
from powermark.steering.schedule import STEP, Schedule
from powermark.theory.power import critical_count

_LOWEST, _HIGHEST = 1e-3, 1e4  # value of finding an answer, in nats
_PRECISE = 1e-6  # in the logarithm of that value


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """The share of answers found, as they are and after edits, and what it costs.

    ``kl`` and ``gamma_prime`` are per counted token of all answers. ``errors`` are standard errors,
    if the texts of a profile were followed one by one.
    """

    clean: float
    attacked: float
    kl: float
    gamma_prime: float
    errors: dict[str, float] | None


class Answers:
    """Texts and the lengths at which they end, for one green share.

    Parameters
    ----------
    signal
        What a bias does, text by text.
    ends
        (texts, lengths) numbers of counted tokens, ascending in each row; one row if all texts
        have the same.
    shares
        (lengths,) share of a text's answers with each of its lengths; what is missing to 1 are
        answers without a counted token.
    """

    def __init__(
        self,
        signal: SignalModel,
        gamma: float,
        *,
        alpha: float,
        ends: NDArray[np.int64],
        shares: Array,
        edits: Edits,
    ) -> None:
        self.tilt = Tilt.of(signal, gamma, int(ends.max()))
        self.edits, self._shares = edits, shares
        texts = self.tilt.weights.size
        ends = np.broadcast_to(ends, (texts, ends.shape[1]))
        self.horizon = int(ends[self.tilt.weights > 0.0].max())
        self._ends = np.minimum(ends, self.horizon)  # longer texts, of other strengths, weigh 0
        counts = critical_count(np.arange(1, self.horizon + 1), gamma, alpha).astype(int)
        lost = self.tilt.lost(np.arange(1, self.horizon + 1))
        gone = np.take_along_axis(lost, self._ends - 1, axis=1)
        self._kept = 1.0 - gone / self._ends

        @cache
        def rewards(n: int, lost: int) -> Array:
            k, kinds = int(counts[n - 1]), 1 + bool(edits)
            found = np.zeros((kinds, self.horizon + 1))
            found[0, : n + 1] = read_reward(n, k, gamma, lost)
            if edits:
                left = edits.thinned(1.0 - lost / n, n)
                found[1, : n + 1] = matched_reward(n, k, gamma, left)
            return found

        self.rewards = np.array(  # (texts, lengths, kinds, horizon + 1)
            [
                [rewards(n, gone) for n, gone in zip(*row, strict=True)]
                for row in zip(self._ends.tolist(), gone.tolist(), strict=True)
            ]
        )

    def backward(self, value: float, clean: float, cap: float) -> Array:
        """Return the best biases if finding an answer is worth ``value`` nats; (n, n+1).

        ``clean`` is the share of the value that is for clean answers.
        """
        from powermark.steering import steering_kernels as kernels

        tilt, n = self.tilt, self.horizon
        parts = np.array([clean, 1.0 - clean]) if self.edits else np.ones(1)
        weights = tilt.weights[:, None] * self._shares
        at_end = np.zeros((n, n + 1))
        np.add.at(at_end, self._ends - 1, np.einsum("ij,k,ijks->ijs", weights, parts, self.rewards))
        ending = np.zeros(n)
        np.add.at(ending, self._ends - 1, weights)
        going = np.cumsum(ending[::-1])[::-1]  # answers that have a token after t = 0, 1, ...
        found = kernels.best_biases(
            value * at_end, np.arange(1, n + 1), going, tilt.average, tilt.gamma, tilt.exact, cap
        )
        return np.asarray(found)

    def forward(self, deltas: Array) -> Covered:
        """Follow every text under a schedule to each of its ends."""
        from powermark.steering import steering_kernels as kernels

        tilt = self.tilt
        found, kls, greens = kernels.follow_answers(
            deltas, self._ends, self.rewards, tilt.nodes, tilt.gamma, tilt.exact
        )
        tokens = self._ends @ self._shares
        seen = greens * self._kept + tilt.gamma * (1.0 - self._kept) * self._ends
        total = float(tilt.weights @ tokens)
        rates = {"kl": kls @ self._shares, "gamma_prime": seen @ self._shares}
        means = {name: float(tilt.weights @ sums) / total for name, sums in rates.items()}
        shares = np.einsum("ijk,j->ki", found, self._shares)  # (kinds, texts)
        clean, attacked = (float(np.clip(tilt.weights @ s, 0.0, 1.0)) for s in shares[[0, -1]])
        errors = None
        if tilt.weights.size > 1:
            samples = {name: (rates[name] - means[name] * tokens) * (1 / total) for name in rates}
            samples |= {"coverage": shares[0], "attacked_coverage": shares[-1]}
            errors = {name: weighted_error(s, tilt.weights) for name, s in samples.items()}
        return Covered(clean=clean, attacked=attacked, errors=errors, **means)


def steer_answers(
    answers: Answers, wanted: float, *, cap: float = MAX_DELTA
) -> tuple[Schedule, Covered]:
    """Return the schedule of least KL that finds a share of answers, also after edits.

    Raises
    ------
    Infeasible
        If not even the largest bias in every state reaches it.
    """
    cap = float(np.floor(cap / STEP) * STEP)
    found = []
    for clean in (0.0, 0.5) if answers.edits else (1.0,):  # share of the reward for clean answers
        deltas = _least(answers, wanted, clean, cap)
        if deltas is not None:
            found.append((deltas, answers.forward(deltas)))
    if not found:
        raise Infeasible(f"no schedule finds a share {wanted:g} of these answers.")
    deltas, covered = min(found, key=lambda each: each[1].kl)
    return Schedule(answers.tilt.gamma, deltas, *answers.tilt.groups()), covered


def _least(answers: Answers, wanted: float, clean: float, cap: float) -> Array | None:
    """Return the biases at the least value that finds this share; None where none does."""

    def at(log_value: float) -> Array:
        return answers.backward(float(np.exp(log_value)), clean, cap)

    @cache
    def surplus(log_value: float) -> float:
        found = answers.forward(at(log_value))
        return min(found.clean, found.attacked) - wanted

    low, high = np.log(_LOWEST), np.log(4.0)
    while surplus(high) < 0.0:
        low, high = high, high + 1.0
        if high > np.log(_HIGHEST):
            return None
    best = optimize.brentq(surplus, low, high, xtol=_PRECISE) if surplus(low) < 0.0 else low
    return np.asarray(np.minimum(np.ceil(at(best) / STEP - 1e-6) * STEP, cap))
