"""Plans with a steered bias, made beside the constant plan for the same request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from powermark.errors import Infeasible
from powermark.planning import invert
from powermark.planning.design import Design
from powermark.planning.request import GAMMA_MIN, Request, Steering, Target
from powermark.planning.solver import GAMMA_GRID, UNLIKE, downhill, on_grid, rate_for
from powermark.signals.signal import MAX_DELTA, PlugIn, SignalModel
from powermark.steering.goal import Goal
from powermark.steering.recursion import Outcome, steer
from powermark.steering.schedule import LONGEST, STEP, Schedule
from powermark.theory.bounds import gamma_star, information_limit
from powermark.theory.distortion import largest_kl
from powermark.theory.power import binomial_tail, critical_count

_SHOWN = {"n_tokens": "d", "alpha": ".3g", "power": ".4f", "kl": ".4f"}
KL_CAP = 2.0  # nats that a step may cost by default (docs/steering.md has what it costs)
_STARTS = (1.0, 0.97, 0.92, 0.85, 0.7, 0.5, 0.3)  # shares of n where the search looks first
_TEXTS = (8, 32)  # of each level, on which counts are compared
_EASIER = 6  # targets that are tried after the constant plan's
_STEP = 1e-4  # by which a target is relaxed: biases are rounded up, to steps that coarse


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steered:
    """A steered design: the schedule, what it gives, and for what."""

    schedule: Schedule
    outcome: Outcome
    gamma: float
    critical_count: int
    n_tokens: int
    alpha: float

    @property
    def kl(self) -> float:
        """Nats per token."""
        return self.outcome.kl

    @property
    def strength(self) -> float:
        """Share of the tokens that the mark changes."""
        return max(self.outcome.gamma_prime - self.gamma, 0.0)

    def fields(self, request: Request, constant: Design) -> dict[str, Any]:
        """Return the fields of a plan that differ from the constant plan's."""
        n, alpha, outcome = self.n_tokens, self.alpha, self.outcome
        counts = np.arange(outcome.law.size)
        mean = float(outcome.law @ counts)
        variance = float(outcome.law @ (counts - mean) ** 2)
        binomial = mean * (1.0 - mean / n)
        return {
            "n_tokens": n,
            "alpha": alpha,
            "gamma": self.gamma,
            "delta": self.schedule.largest,
            "gamma_prime": outcome.gamma_prime,
            "kl": outcome.kl,
            "critical_count": self.critical_count,
            "size": float(binomial_tail(n, self.critical_count, self.gamma)),
            "power": outcome.powers[-1],
            "survival": request.edits.surviving_share(n) if request.edits else None,
            "attacked_power": outcome.attacked_power if request.edits else None,
            "variance_inflation": variance / binomial,
            "standard_errors": outcome.errors,
            "gamma_star": float(gamma_star(n, alpha)),
            "steering": self.schedule.to_dict(),
            "spread": None,  # the schedule has its own
            "constant": {
                name: getattr(constant, name)
                for name in ("n_tokens", "alpha", "gamma", "delta", "kl", "power")
            },
        }

    def notes(self, request: Request, checkpoints: tuple[int, ...]) -> list[str]:
        """Return the powers at checkpoints, and a warning where no edits were planned for."""
        notes = [
            f"after {length} tokens the power is {power:.3f}."
            for length, power in zip(checkpoints, self.outcome.powers, strict=False)
        ]
        if not request.edits:
            notes.append(
                "a steered text barely reaches its count: edits that were not planned for, or a "
                "text cut short, cost it more than one with a constant bias. Plan with an edit "
                "rate if texts may be edited."
            )
        return notes


def beside_constant(
    solved_for: str, found: float, constant: dict[str, float]
) -> tuple[str, str, str]:
    """Return the row of a table that compares a plan with the best constant bias."""
    theirs, name = constant[solved_for], {"n_tokens": "tokens"}.get(solved_for, solved_for)
    design = f"gamma {constant['gamma']:.4f}, delta {constant['delta']:.3f}"
    remark = f"{name} with the best constant bias ({design})"
    if solved_for in ("n_tokens", "kl"):  # what is spent
        saved = 1.0 - found / theirs
        words = f"saves {saved:.0%}" if saved >= 0.0 else f"costs {-saved:.0%} more"
        remark += f"; steering {words}"
    return "constant", format(theirs, _SHOWN[solved_for]), remark


def solve_steered(request: Request, constant: Design, options: Steering, kl_cap: float) -> Steered:
    """Return the steered design for a request, given the constant plan for it."""
    case = _Case(request, options.checkpoints, min(options.delta_cap, bias_within(kl_cap)))
    start = cache(lambda: _start(case, constant))

    def design(target: Target) -> Steered:
        if (found := start().found) is not None and found[0] == target:
            return found[1]
        return _design(case, target, start().gamma(target), start().strength)

    def cost(target: Target) -> float:
        if case.flat and request.gamma is None:
            return float(information_limit(*target))
        try:
            return design(target).kl
        except Infeasible:
            return np.inf

    where = invert.Lengths(uneven=3, above=case.last_checkpoint, longest=LONGEST)
    target = invert.target_of(request, cost, lambda *_: where)
    return invert.within_budget(request, target, design, _STEP)[1]


def kl_cap_for(request: Request, constant: Design) -> float:
    """Return the default cap on a step's KL; at a given gamma no less than a constant bias needs.

    A large gamma needs large biases, which are dear on the few steps of little green mass.
    """
    if request.gamma is None:
        return KL_CAP
    return max(KL_CAP, float(largest_kl(np.ceil(constant.delta / STEP) * STEP)))


def bias_within(kl_cap: float) -> float:
    """Return the largest bias, in whole steps, that costs no step more than this many nats."""
    biases = np.arange(0.0, MAX_DELTA + STEP, STEP)
    return float(biases[np.searchsorted(largest_kl(biases), kl_cap, side="right") - 1])


@dataclass(frozen=True, slots=True)
class _Case:
    """A request with its checkpoints and the largest bias."""

    request: Request
    checkpoints: tuple[int, ...]
    cap: float

    @property
    def last_checkpoint(self) -> int:
        """The longest of the checkpoints; 0 without any."""
        return max(self.checkpoints, default=0)

    @property
    def flat(self) -> bool:
        """Whether all critical counts are equally good, at the information limit."""
        free = not self.request.edits and not self.checkpoints and self.cap == MAX_DELTA
        return isinstance(self.request.signal, PlugIn) and free


@dataclass(frozen=True, slots=True)
class _Start:
    """Where every design begins: a gamma or the share k/n of the critical count, and a strength.

    ``found`` is the design for one target, where it need not be made again.
    """

    fixed: float | None
    share: float
    strength: float
    found: tuple[Target, Steered] | None = None

    def gamma(self, target: Target) -> float:
        """Return the gamma for a target."""
        if self.fixed is not None:
            return self.fixed
        n = target.n_tokens
        return _gamma(target, max(1, min(n, round(self.share * n))))


def _start(case: _Case, constant: Design) -> _Start:
    """Search for the best share k/n, once, at the constant plan's length, level and power.

    Where caps keep every schedule from that power, easier targets are looked at.
    """
    request, strength = case.request, max(constant.gamma_prime - constant.gamma, 0.0)
    n = min(max(constant.n_tokens, case.last_checkpoint + 1), LONGEST)
    share = min(1.0, constant.critical_count / constant.n_tokens)
    if request.gamma is not None or case.flat:
        return _Start(request.gamma, share, strength)
    planned = Target(n, constant.alpha, request.power or constant.power)
    for target in _targets(request.solved_for, planned):
        if (found := _best(case, target, strength)) is not None:
            known = None if _depends_on_strength(request.signal) else (target, found)
            return _Start(None, found.critical_count / found.n_tokens, found.strength, known)
    return _Start(None, share, strength)


def _targets(solved_for: str, target: Target) -> Iterator[Target]:
    """Yield a target, and some that are easier in the quantity to solve for."""
    yield target
    for _ in range(_EASIER if solved_for != "kl" else 0):
        n, alpha, power = target
        if solved_for == "n_tokens":
            n = min(2 * n, LONGEST)
        elif solved_for == "alpha":
            alpha = (alpha + power) / 2.0
        else:
            power = (alpha + power) / 2.0
        target = Target(n, alpha, power)
        yield target


def _best(case: _Case, target: Target, strength: float) -> Steered | None:
    """Return the design of least KL; None where no schedule has the power.

    Critical counts are compared on a few texts of a profile; where these are unlike the others, on
    more, and then on all of them.
    """
    signal = case.request.signal
    for few in (signal.representative(texts) for texts in _TEXTS):
        rough = replace(case, request=replace(case.request, signal=few))
        likely = None if few is signal else _search(rough, target, strength)
        found = None if likely is None else _try(case, target, likely.gamma, likely.strength)
        if likely is not None and found is not None and found.kl <= UNLIKE * likely.kl:
            return found
    return _search(case, target, strength)


def _search(case: _Case, target: Target, strength: float) -> Steered | None:
    """Return the design of least KL: a coarse look at critical counts, then downhill."""
    n, tried = target.n_tokens, dict[int, Steered | None]()

    def cost(k: int) -> float:
        found = tried[k] = _try(case, target, _gamma(target, k), strength)
        return np.inf if found is None else found.kl

    fewest = int(critical_count(n, GAMMA_MIN, target.alpha))
    starts = (round(share * n) for share in _STARTS)
    step = max(1, n // 25)
    return tried[downhill(cost, starts, fewest, n, step, finest=max(1, n // 200))]


def _try(case: _Case, target: Target, gamma: float, strength: float) -> Steered | None:
    """Return the design at a gamma; None where no schedule has the power."""
    try:
        return _design(case, target, gamma, strength)
    except Infeasible:
        return None


def _design(case: _Case, target: Target, gamma: float, strength: float) -> Steered:
    """Return the design of least KL at a gamma; ``strength`` is a first guess of the mark's."""
    request, signal = case.request, case.request.signal
    lengths = [*case.checkpoints, target.n_tokens]
    goal = Goal.of(gamma, target.alpha, lengths, edits=request.edits)

    def at(strength: float) -> Steered:
        schedule, outcome = steer(
            goal,
            signal.at_strength(strength),
            target.power,
            attacked_power=request.attacked_power,
            cap=case.cap,
        )
        return Steered(
            schedule=schedule,
            outcome=outcome,
            gamma=gamma,
            critical_count=goal.critical_counts[-1],
            n_tokens=target.n_tokens,
            alpha=target.alpha,
        )

    found = at(strength)
    return at(found.strength) if _depends_on_strength(signal) else found


def _depends_on_strength(signal: SignalModel) -> bool:
    return signal.at_strength(0.0) is not signal


def _gamma(target: Target, k: int) -> float:
    """Return a gamma on the hash's grid just below the largest at which this count keeps alpha."""
    return float(on_grid(rate_for(target.n_tokens, k, target.alpha))) - GAMMA_GRID
