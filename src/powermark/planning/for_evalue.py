"""Plans for the e-value: the least KL with which it finds texts within a length, edited or not.

Let k of n green tokens be just enough at the end. Of all bets, k/n allows the largest gamma, the
one with ``n KL(k/n || gamma) = log(1/alpha)``, where a plan for the count has the exact binomial
tail. So the search is the count's, over k, with this gamma and the exact power of
:mod:`powermark.statistics.evalue`. What the bound costs beside the exact tail is the price of
evidence that may be looked at after every token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from powermark.checks import Array
from powermark.planning.design import Design
from powermark.planning.for_windows import rates_of
from powermark.planning.invert import Lengths, uneven_at
from powermark.planning.request import LONGEST_BET, Answer, Request
from powermark.planning.solver import Problem
from powermark.planning.solver import solve as solve_by
from powermark.signals.edits import Edits
from powermark.signals.signal import SignalModel
from powermark.statistics.evalue import ROUNDING, EvalueTest
from powermark.steering.recursion import weighted_error
from powermark.theory.roots import bracketed_root

_NEAR_ONE = 1.0 - 1e-6  # as bets() has it: the bet of a mark that allows no red token
_SPARE = 10.0 * ROUNDING  # nats above log(1/alpha) at the end


def solve(request: Request) -> Answer:
    """Find the quantity that is missing, and the design of least KL for the e-value."""
    return solve_by(request, EvalueProblem)


def evalue_fields(request: Request, design: Design) -> dict[str, Any]:
    """Return the fields of a plan for the e-value that differ from the count's."""
    n, alpha = design.n_tokens, design.alpha
    problem = EvalueProblem(n_tokens=n, alpha=alpha, power=0.5)
    k = int(problem.count_for(design.gamma))
    test = problem.test(k, design.gamma)
    found = evalue_powers(test, alpha, request.signal, design.delta, request.edits)
    fields: dict[str, Any] = {
        "critical_count": k,
        "size": test.size(alpha),
        "power": found.whole,
        "attacked_power": found.edited if request.edits else None,
        "bet": test.bet,
        "least_tokens": test.least_tokens(alpha),
    }
    if design.standard_errors is not None:
        errors = {k: e for k, e in found.errors.items() if k in design.standard_errors}
        fields["standard_errors"] = design.standard_errors | errors
    return fields


class EvaluePowers(NamedTuple):
    """Powers on whole and edited texts, and their standard errors where texts differ."""

    whole: float
    edited: float
    errors: dict[str, float]


def evalue_powers(
    test: EvalueTest, alpha: float, signal: SignalModel, delta: float, edits: Edits
) -> EvaluePowers:
    """Return a design's powers, exactly, on whole and on edited texts: the mean over texts."""
    rates, weights = rates_of(signal, test.n_tokens, test.gamma, delta)
    whole = test.powers(rates, alpha)
    each = {"power": whole, "attacked_power": test.powers(rates, alpha, edits) if edits else whole}
    weights = np.full(whole.size, 1.0 / whole.size) if weights is None else weights
    errors = {}
    if whole.size > 1:
        errors = {name: weighted_error(powers, weights) for name, powers in each.items()}
    mean = {name: min(1.0, float(weights @ powers)) for name, powers in each.items()}
    return EvaluePowers(mean["power"], mean["attacked_power"], errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalueProblem(Problem):
    """A design problem for the e-value; ``k`` greens of n are just enough at the end."""

    @staticmethod
    def lengths(request: Request, *_: float) -> Lengths:
        """Return where to look for the shortest text."""
        return Lengths(uneven=uneven_at(request.gamma, 3), longest=LONGEST_BET)

    @property
    def closed_form(self) -> bool:
        """No power of the e-value has one."""
        return False

    @property
    def well_guided(self) -> bool:
        """The screen's closed form is the count's."""
        return False

    def starts(self, ks: Array) -> Array:
        """Return them all: early crossings make the cost a saw-tooth."""
        return ks

    def test(self, k: float, gamma: float) -> EvalueTest:
        """Return the test for a count and gamma."""
        return EvalueTest(self.n_tokens, gamma, min(k / self.n_tokens, _NEAR_ONE))

    def count_for(self, gamma: float) -> float:
        """Return the fewest greens that can be enough at a gamma; n + 1 where none are."""
        ks = np.arange(np.floor(self.n_tokens * gamma) + 1.0, self.n_tokens + 1.0)
        enough = np.flatnonzero(self._log_e(ks, gamma) >= ROUNDING - np.log(self.alpha))
        return float(ks[enough[0]]) if enough.size else self.n_tokens + 1.0

    def gamma_for(self, k: Array | float) -> Array:
        """Return the largest gamma at which each count is enough, with a little to spare."""
        goal, ks = _SPARE - np.log(self.alpha), np.asarray(k, np.float64)
        top = np.log(np.minimum(ks / self.n_tokens, _NEAR_ONE))
        root = bracketed_root(
            lambda x, k: goal - self._log_e(k, np.exp(x)), np.full_like(top, -740.0), top, ks
        )
        return np.asarray(np.exp(root))

    def keeps_level(self, k: float, gamma: float) -> bool:
        """Whether so many greens are enough: any bet keeps the level."""
        return self.count_for(gamma) <= k

    def margin(self, k: float, gamma: float, delta: float) -> float:
        """Power above what was asked, the lesser of clean and attacked; increases in delta."""
        test = self.test(k, gamma)
        found = evalue_powers(test, self.alpha, self.signal, delta, self.edits)
        if self.attacked_power is None:
            return found.whole - self.power
        return min(found.whole - self.power, found.edited - self.attacked_power)

    def _log_e(self, k: Array, gamma: Array | float) -> Array:
        """Log E at the end for each number of greens, with the bet that fits it best."""
        bet = np.minimum(k / self.n_tokens, _NEAR_ONE)
        red = np.log1p(-bet) - np.log1p(-np.asarray(gamma))
        return np.asarray(k * (np.log(bet) - np.log(gamma)) + (self.n_tokens - k) * red)
