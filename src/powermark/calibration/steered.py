"""Plans with a steered bias: every form of plan, beside the constant one for the same request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from powermark.calibration import invert
from powermark.calibration.design import Design
from powermark.calibration.downhill import downhill
from powermark.calibration.problem import GAMMA_MIN, rate_for
from powermark.calibration.request import Request, relax
from powermark.calibration.schedule import LONGEST, Schedule
from powermark.calibration.signal import MAX_DELTA, PlugIn
from powermark.calibration.solve import GAMMA_GRID, on_grid
from powermark.calibration.steering import Goal, Outcome, steer
from powermark.errors import Infeasible, InvalidInput
from powermark.theory.bounds import efficiency, gamma_star, information_limit
from powermark.theory.power import binomial_tail, critical_count

_SHOWN = {"n_tokens": "d", "alpha": ".3g", "power": ".4f", "kl": ".4f"}
_STARTS = (1.0, 0.97, 0.92, 0.85, 0.7, 0.5, 0.3)  # shares of n where the search looks first


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steered:
    """A steered design: the schedule, what it gives, and for what."""

    schedule: Schedule
    outcome: Outcome
    gamma: float
    critical_count: int
    n_tokens: int
    alpha: float

    def fields(self, request: Request, constant: Design) -> dict[str, Any]:
        """Return what a plan says otherwise than the constant one for the same request."""
        n, alpha, told = self.n_tokens, self.alpha, self.outcome
        counts = np.arange(told.law.size)
        variance = float(told.law @ (counts - told.law @ counts) ** 2)
        binomial = n * told.gamma_prime * (1.0 - told.gamma_prime)
        return {
            "n_tokens": n,
            "alpha": alpha,
            "gamma": self.gamma,
            "delta": self.schedule.largest,
            "gamma_prime": told.gamma_prime,
            "kl": told.kl,
            "critical_count": self.critical_count,
            "size": float(binomial_tail(n, self.critical_count, self.gamma)),
            "power": told.powers[-1],
            "normal_power": None,
            "information_limit": float(information_limit(n, alpha, told.powers[-1])),
            "efficiency": float(efficiency(n, alpha, told.powers[-1], told.kl)),
            "survival": request.edits.surviving_share(n) if request.edits else None,
            "attacked_power": told.attacked_power if request.edits else None,
            "variance_inflation": variance / binomial,
            "standard_errors": told.errors,
            "gamma_star": float(gamma_star(n, alpha)),
            "steering": self.schedule.to_dict(),
            "constant": {
                name: getattr(constant, name)
                for name in ("n_tokens", "alpha", "gamma", "delta", "kl", "power")
            },
        }

    def notes(self, request: Request, checkpoints: tuple[int, ...]) -> list[str]:
        """Say what a reader of a steered plan must know."""
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
    """Return the row of a plan that says what a constant bias does, of what was solved for."""
    theirs, name = constant[solved_for], {"n_tokens": "tokens"}.get(solved_for, solved_for)
    design = f"gamma {constant['gamma']:.4f}, delta {constant['delta']:.3f}"
    remark = f"{name} with the best constant bias ({design})"
    if solved_for in ("n_tokens", "kl"):  # what is spent
        saved = 1.0 - found / theirs
        words = f"saves {saved:.0%}" if saved >= 0.0 else f"costs {-saved:.0%} more"
        remark += f"; steering {words}"
    return "constant", format(theirs, _SHOWN[solved_for]), remark


def solve_steered(
    request: Request,
    constant: Design,
    *,
    checkpoints: tuple[int, ...] = (),
    cap: float = MAX_DELTA,
    kl_cap: float = np.inf,
) -> Steered:
    """Return the steered design for a request of which the constant plan is known.

    Raises
    ------
    InvalidInput
        If the request is for a method or length that cannot be steered.
    """
    if request.method != "exact" or request.delta is not None or request.variance_inflation != 1.0:
        raise InvalidInput(
            "steering chooses delta itself, for the exact test: it takes no other method, no fixed "
            "delta and no variance_inflation."
        )
    solver = _Solver(request, constant, checkpoints, cap, kl_cap)
    missing = invert.the_missing(
        n_tokens=request.n_tokens, alpha=request.alpha, power=request.power, kl=request.kl
    )
    n, alpha, power = constant.n_tokens, constant.alpha, request.power or constant.power
    kl, last = request.kl or 0.0, max(checkpoints, default=0)
    if request.n_tokens is not None:
        _check_length(request.n_tokens, last)
    if missing == "n_tokens":
        n = invert.least_tokens(
            lambda n: solver.cost(int(n), alpha, power),
            kl,
            alpha,
            power,
            uneven=3,
            above=last,
            longest=LONGEST,
        )
    elif missing == "alpha":
        alpha = invert.least_alpha(lambda a: solver.cost(n, a, power), kl, n, power)
    elif missing == "power":
        power = invert.most_power(lambda p: solver.cost(n, alpha, p), kl, alpha)
    found, step = solver.at(n, alpha, power), 1e-4  # biases are rounded up, to steps that coarse
    while missing != "kl" and found.outcome.kl > kl:  # overspent: ask a little less
        n, alpha, power = relax(missing, n, alpha, power, step)
        found, step = solver.at(n, alpha, power), 1.5 * step
    return found


def _check_length(n_tokens: int, last_checkpoint: int) -> None:
    """Refuse a length that no schedule can have."""
    if n_tokens <= last_checkpoint:
        raise InvalidInput(f"checkpoints must be below n_tokens, {n_tokens}.")
    if n_tokens > LONGEST:
        raise InvalidInput(
            f"n_tokens must be at most {LONGEST:,} for a steered plan; got {n_tokens:,}.",
            hint="plan for a shorter block: a longer text has several.",
        )


class _Solver:
    """Steered designs for any length, level and power; the share k/n is searched for once."""

    def __init__(
        self,
        request: Request,
        constant: Design,
        checkpoints: tuple[int, ...],
        cap: float,
        kl_cap: float,
    ) -> None:
        self._request, self._constant = request, constant
        self._checkpoints, self._cap, self._kl_cap = checkpoints, cap, kl_cap
        free = not request.edits and not checkpoints and cap == MAX_DELTA and kl_cap == np.inf
        self._flat = isinstance(request.signal, PlugIn) and free
        self._strength = max(constant.gamma_prime - constant.gamma, 0.0)
        self._share: float | None = None

    def cost(self, n_tokens: int, alpha: float, power: float) -> float:
        """Least KL, inf where there is none."""
        if self._flat and self._request.gamma is None:
            return float(information_limit(n_tokens, alpha, power))
        try:
            return self.at(n_tokens, alpha, power).outcome.kl
        except Infeasible:
            return np.inf

    def at(self, n_tokens: int, alpha: float, power: float) -> Steered:
        """Return the best design for a length, level and power."""
        if self._request.gamma is not None:
            return self._with(n_tokens, alpha, power, self._request.gamma)
        if self._share is None:
            rough = _Solver(
                replace(self._request, signal=self._request.signal.thinned()),
                self._constant,
                self._checkpoints,
                self._cap,
                self._kl_cap,
            )
            k = rough._search(n_tokens, alpha, power)
            found = self._with(n_tokens, alpha, power, _gamma(n_tokens, k, alpha))
            self._share = k / n_tokens
            return found
        k = max(1, min(n_tokens, round(self._share * n_tokens)))
        return self._with(n_tokens, alpha, power, _gamma(n_tokens, k, alpha))

    def _search(self, n: int, alpha: float, power: float) -> int:
        """Return the critical count of least KL: a coarse look, then downhill."""
        if self._flat:  # all are equally good
            return min(n, self._constant.critical_count)

        def cost(k: int) -> float:
            try:
                return self._with(n, alpha, power, _gamma(n, k, alpha)).outcome.kl
            except Infeasible:
                return np.inf

        fewest = int(critical_count(n, GAMMA_MIN, alpha))
        return downhill(cost, (round(share * n) for share in _STARTS), fewest, n, max(1, n // 25))

    def _with(self, n: int, alpha: float, power: float, gamma: float) -> Steered:
        request = self._request
        goal = Goal.of(
            gamma,
            alpha,
            [*self._checkpoints, n],
            edits=request.edits,
        )
        for _ in range(2 if request.signal.at_strength(0.0) is not request.signal else 1):
            schedule, outcome = steer(
                goal,
                request.signal.at_strength(self._strength),
                power,
                attacked_power=request.attacked_power,
                cap=self._cap,
                kl_cap=self._kl_cap,
            )
            self._strength = max(outcome.gamma_prime - gamma, 0.0)
        return Steered(
            schedule=schedule,
            outcome=outcome,
            gamma=gamma,
            critical_count=goal.critical_counts[-1],
            n_tokens=n,
            alpha=alpha,
        )


def _gamma(n_tokens: int, k: int, alpha: float) -> float:
    """Return a gamma on the hash's grid just below the largest at which this count keeps alpha."""
    return float(on_grid(rate_for(n_tokens, k, alpha))) - GAMMA_GRID
