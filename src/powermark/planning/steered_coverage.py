"""Steered plans for answers of any length: the least KL that finds a share of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from powermark.checks import Array
from powermark.errors import Infeasible, InvalidInput
from powermark.planning.coverage import SHOWN, own_lengths
from powermark.planning.design import Design
from powermark.planning.lengths import Lengths
from powermark.planning.request import Request, Steering
from powermark.planning.solver import on_grid
from powermark.planning.steered import Steered, bias_within
from powermark.signals.edits import Edits
from powermark.signals.profile import Profile
from powermark.signals.signal import SignalModel
from powermark.steering.answers import Answers, Covered, steer_answers
from powermark.steering.goal import Goal
from powermark.steering.recursion import forward
from powermark.steering.schedule import LONGEST, Schedule
from powermark.theory.power import critical_count

_STRIDES = (0.8, 0.4, 0.2)  # of logit gamma, while green shares are compared
_LOGIT_GAMMA = 3.0  # the largest, either way


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SteeredCoverage:
    """A schedule, with its effect on a text as long as its horizon and on answers as they come."""

    whole: Steered
    covered: Covered

    @property
    def schedule(self) -> Schedule:
        """The biases."""
        return self.whole.schedule

    @property
    def alpha(self) -> float:
        """The level."""
        return self.whole.alpha

    @property
    def strength(self) -> float:
        """Share of the tokens that the mark changes."""
        return max(self.covered.gamma_prime - self.whole.gamma, 0.0)

    def fields(self, request: Request, constant: Design) -> dict[str, Any]:
        """Return the fields of a plan that differ from the constant plan's."""
        covered, edits, errors = self.covered, request.edits, self.covered.errors or {}
        names = ["coverage", "attacked_coverage"][: 2 if edits else 1]
        whole = self.whole.outcome.errors or {}
        return self.whole.fields(request, constant) | {
            "kl": covered.kl,
            "gamma_prime": covered.gamma_prime,
            "coverage": covered.clean,
            "attacked_coverage": covered.attacked if edits else None,
            "lengths": own_lengths(request).to_dict(),
            "power_by_length": powers_of(self.schedule, self.alpha, edits),
            "standard_errors": {
                **whole,
                **{name: errors[name] for name in ("kl", "gamma_prime", *names) if name in errors},
            }
            or None,
        }

    def notes(self, request: Request, checkpoints: tuple[int, ...]) -> list[str]:
        """Return a warning where no edits were planned for."""
        return self.whole.notes(request, checkpoints)


def covered_fields(request: Request, schedule: Schedule, alpha: float) -> dict[str, Any]:
    """Return what a plan for one length says of answers of the given lengths."""
    lengths = own_lengths(request)
    ns, shares = _some(lengths)

    def found(edits: Edits) -> float:
        return float(shares @ [_power(schedule, n, alpha, edits) for n in ns.tolist()])

    return {
        "coverage": found(Edits()),
        "attacked_coverage": found(request.edits) if request.edits else None,
        "lengths": lengths.to_dict(),
        "power_by_length": powers_of(schedule, alpha, request.edits),
    }


def powers_of(schedule: Schedule, alpha: float, edits: Edits) -> dict[str, float]:
    """Return a schedule's power at some lengths: after edits, where texts are edited."""
    return {f"{n}": _power(schedule, n, alpha, edits) for n in SHOWN}


def _power(schedule: Schedule, n: int, alpha: float, edits: Edits) -> float:
    k = int(critical_count(n, schedule.gamma, alpha))
    if k > n:
        return 0.0
    return schedule.attacked_power(n, k, edits) if edits else schedule.power(n, k)


def solve_steered_coverage(
    request: Request, constant: Design, options: Steering, kl_cap: float
) -> SteeredCoverage:
    """Return the steered design of least KL for a request, given the constant plan for it.

    Green shares are compared on a few texts of a profile; the schedule at the best one is settled
    on all of them.
    """
    assert request.coverage is not None
    wanted, strength = request.coverage, max(constant.gamma_prime - constant.gamma, 0.0)
    cap = min(options.delta_cap, bias_within(kl_cap))
    longest = own_lengths(request).quantile(1.0)
    if longest > LONGEST:
        raise InvalidInput(
            f"`steer` takes answers of up to {LONGEST:,} tokens that count; the longest has "
            f"{longest:,}.",
            hint="plan with a constant bias, or for shorter `lengths`.",
        )
    rough, tried = request.signal.thinned(), dict[float, float]()

    def cost(gamma: float) -> float:
        if gamma not in tried:
            try:
                answers = answers_of(request, rough, gamma, strength)
                tried[gamma] = steer_answers(answers, wanted, cap=cap)[1].kl
            except Infeasible:
                tried[gamma] = np.inf
        return tried[gamma]

    if request.gamma is None:
        _descend(cost, constant.gamma)
    for gamma in sorted(tried, key=tried.__getitem__) or [request.gamma or constant.gamma]:
        try:
            found = _settled(request, gamma, strength, cap)
            return _settled(request, gamma, found.strength, cap)
        except Infeasible:
            continue  # the few texts misled
    raise Infeasible(
        f"no schedule finds a share {wanted:g} of these answers.",
        hint="ask for less, raise alpha, or raise `kl_cap`.",
    )


def _descend(cost: Any, start: float) -> None:
    """Compare green shares downhill from one, in smaller and smaller strides."""
    here = float(special.logit(start))

    def at(logit: float) -> float:
        return float(cost(float(on_grid(special.expit(logit)))))

    for stride in _STRIDES:
        best = min((here - stride, here, here + stride), key=at)
        while best != here and abs(best) < _LOGIT_GAMMA:
            here, ahead = best, 2.0 * best - here
            best = ahead if at(ahead) < at(here) else here
        here = best


def _settled(request: Request, gamma: float, strength: float, cap: float) -> SteeredCoverage:
    """Return the schedule for all texts, at a green share and a strength of the mark."""
    assert request.alpha is not None
    assert request.coverage is not None
    answers = answers_of(request, request.signal, gamma, strength)
    schedule, covered = steer_answers(answers, request.coverage, cap=cap)
    goal = Goal.of(gamma, request.alpha, [answers.horizon], edits=request.edits)
    whole = Steered(
        schedule=schedule,
        outcome=forward(goal, answers.tilt, schedule.deltas),
        gamma=gamma,
        critical_count=goal.critical_counts[-1],
        n_tokens=answers.horizon,
        alpha=request.alpha,
    )
    return SteeredCoverage(whole=whole, covered=covered)


def answers_of(request: Request, signal: SignalModel, gamma: float, strength: float) -> Answers:
    """Return the answers of a request: given lengths, or each text of a profile at its own."""
    assert request.alpha is not None
    ends, shares = _ends(request.lengths, signal)
    return Answers(
        signal.at_strength(strength),
        gamma,
        alpha=request.alpha,
        ends=ends,
        shares=shares,
        edits=request.edits,
    )


def _ends(lengths: Lengths | None, signal: SignalModel) -> tuple[NDArray[np.int64], Array]:
    """Return the lengths at which texts end, and the share of a text's answers with each."""
    if lengths is None:
        assert isinstance(signal, Profile)
        of = signal.texts
        return np.array([[seen.size] for seen in of.seen]), np.array([of.answered])
    ns, chances = _some(lengths)
    return ns[None], chances


def _some(lengths: Lengths) -> tuple[NDArray[np.int64], Array]:
    """Return a dozen lengths above 0 that stand for all of them, and the share of each."""
    some = lengths.some() if len(lengths.counted) > len(SHOWN) else lengths
    ns, shares = np.array(some.counted), np.array(some.shares)
    return ns[ns > 0], shares[ns > 0]


def steered_coverage(
    schedule: Schedule,
    signal: SignalModel,
    *,
    alpha: float,
    strength: float,
    lengths: Lengths,
    edits: Edits,
) -> Covered:
    """Return what a schedule gives on answers of some lengths; longer ones count as its horizon."""
    ends, shares = _ends(lengths, signal)
    ends = np.minimum(ends, schedule.n_tokens)
    answers = Answers(
        signal.at_strength(strength),
        schedule.gamma,
        alpha=alpha,
        ends=ends,
        shares=shares,
        edits=edits,
    )
    n = answers.horizon
    return answers.forward(schedule.deltas[:n, : n + 1])
