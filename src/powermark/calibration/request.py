"""A request for a plan: checked, turned into design problems, solved for what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy import special

from powermark.calibration import invert, paper
from powermark.calibration.edits import Edits
from powermark.calibration.problem import GAMMA_MIN, Problem
from powermark.calibration.signal import MAX_DELTA, PlugIn, SignalModel
from powermark.calibration.solve import Solution, least_kl, settle
from powermark.checks import count, in_interval, open_unit, positive
from powermark.errors import Infeasible, InvalidInput
from powermark.theory.required_length import LONGEST, required_length

Method = Literal["exact", "paper", "authors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The missing quantity, found, and the pair that goes with it."""

    solved_for: str
    gamma: float
    delta: float
    n_tokens: int
    alpha: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The arguments of :func:`powermark.plan`; :meth:`check` first."""

    n_tokens: int | None
    alpha: float | None
    power: float | None
    kl: float | None
    method: Method
    signal: SignalModel
    gamma: float | None
    delta: float | None
    edits: Edits
    attacked_power: float | None
    variance_inflation: float
    precision: float

    def check(self) -> None:
        """Refuse what is out of its domain or contradicts itself, and a KL no gamma allows."""
        if self.method not in get_args(Method):
            raise InvalidInput(f"method must be one of {get_args(Method)}; got {self.method!r}.")
        if self.n_tokens is not None:
            count("n_tokens", self.n_tokens)
            in_interval("n_tokens", self.n_tokens, 1, LONGEST, closed="both")
        if self.alpha is not None:
            highest = 1.0 if self.method == "exact" else 0.5  # Eq. (1) is for z above 0
            in_interval("alpha", self.alpha, invert.ALPHA_FLOOR, highest, closed="low")
        for name in ("power", "gamma", "attacked_power"):
            if getattr(self, name) is not None:
                open_unit(name, getattr(self, name))
        for name in ("kl", "delta"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if self.delta is not None:
            in_interval("delta", self.delta, 0.0, MAX_DELTA, closed="high")
        most = self.n_tokens if self.n_tokens is not None and self.n_tokens > 1 else np.inf
        in_interval("variance_inflation", self.variance_inflation, 1.0, most, closed="low")
        if self.gamma is not None and self.delta is not None:
            raise InvalidInput(
                "fix gamma or delta, not both: together they leave nothing to plan.",
                hint="`powermark power` says what a given gamma and delta will do.",
            )
        if self.attacked_power is not None and not self.edits:
            raise InvalidInput(
                "attacked_power needs to know the attack.",
                hint="give edit_rate, survival or removal too.",
            )
        if self.method != "exact" and (self.edits or self.delta is not None):
            raise InvalidInput(
                f'method "{self.method}" takes neither edits nor a fixed delta.',
                hint='use method "exact".',
            )
        if self.alpha is not None and self.power is not None and self.power <= self.alpha:
            raise InvalidInput(
                f"power must exceed alpha = {self.alpha:g}, which guessing reaches; "
                f"got {self.power:g}."
            )
        self._check_budget()

    def _check_budget(self) -> None:
        """Refuse a KL above -log(gamma), which bounds the plug-in; spiky models can spend more."""
        smallest = GAMMA_MIN if self.gamma is None else self.gamma
        bound = -np.log(smallest)
        if isinstance(self.signal, PlugIn) and self.kl is not None and self.kl >= bound:
            which = "the smallest gamma allowed" if self.gamma is None else "this gamma"
            raise Infeasible(
                f"kl must be below -log(gamma) = {bound:.4g} for {which}, {smallest:g}, because no "
                f"delta costs more; got {self.kl:g}.",
                hint="choose a smaller kl" + ("." if self.gamma is None else " or gamma."),
            )

    def solve(self) -> Answer:
        """Find the one of n_tokens, alpha, power and kl that is missing, and the best design."""
        missing = invert.the_missing(
            n_tokens=self.n_tokens, alpha=self.alpha, power=self.power, kl=self.kl
        )
        n, alpha = self.n_tokens or 0, self.alpha or 0.0
        power, kl = self.power or 0.0, self.kl or 0.0
        notes: tuple[str, ...] = ()
        if missing == "n_tokens":
            n = self._least_tokens(alpha, power, kl)
        elif missing == "alpha":
            alpha = invert.least_alpha(lambda a: self.cost(n, a, power), kl, n, power)
            if alpha <= invert.ALPHA_FLOOR:
                notes = (f"alpha = {alpha:g} is the smallest level computed; kl is not used up.",)
        elif missing == "power" and self.method == "exact":
            power = invert.most_power(lambda p: self.cost(n, alpha, p), kl, alpha)
            if power == invert.POWER_CEILING:
                notes = ("this power needs less than the kl allowed; more would buy nothing.",)
        if self.method == "paper":
            pair = self._paper_pair(n, alpha, None if missing == "power" else power)
        else:
            solution = self._settled(n, alpha, power)
            step = 1e-9
            while missing != "kl" and solution.kl > kl:  # rounding overspent: ask a little less
                n, alpha, power = relax(missing, n, alpha, power, step)
                solution, step = self._settled(n, alpha, power), 1.5 * step
            pair = solution.gamma, solution.delta
        return Answer(
            solved_for=missing, gamma=pair[0], delta=pair[1], n_tokens=n, alpha=alpha, notes=notes
        )

    def cost(self, n_tokens: float, alpha: float, power: float) -> float:
        """Return the least KL for a length, level and power; inf if none reaches it."""
        if self.variance_inflation > 1.0 and n_tokens <= self.variance_inflation:
            return np.inf
        try:
            if self.method == "paper":
                return float(self.signal.kl(*self._paper_pair(int(n_tokens), alpha, power)))
            return least_kl(self._problem(int(n_tokens), alpha, power)).kl
        except Infeasible:
            return np.inf

    def _problem(self, n_tokens: int, alpha: float, power: float) -> Problem:
        attacked = power if self.attacked_power is None else self.attacked_power
        return Problem(
            n_tokens=n_tokens,
            alpha=alpha,
            power=power,
            attacked_power=attacked if self.edits else None,
            edits=self.edits,
            signal=self.signal,
            variance_inflation=self.variance_inflation,
            gamma=self.gamma,
            delta=self.delta,
        )

    def _settled(self, n_tokens: int, alpha: float, power: float) -> Solution:
        problem = self._problem(n_tokens, alpha, power)
        return settle(problem, least_kl(problem))

    def _paper_pair(self, n_tokens: int, alpha: float, power: float | None) -> tuple[float, float]:
        """Return the paper's pair for a power, or for the KL budget where power is None."""
        return paper.search_down(
            n_tokens,
            alpha,
            power=power,
            kl=self.kl if power is None else None,
            signal=self.signal,
            variance_inflation=self.variance_inflation,
            gamma=self.gamma,
        )

    def _least_tokens(self, alpha: float, power: float, kl: float) -> int:
        """Return the shortest text; without a search where gamma is given and steps are alike."""
        uneven = 8 if self.gamma is None else int(3.0 / min(self.gamma, 1.0 - self.gamma))
        if self.gamma is not None and not self.edits and self.method != "paper":
            delta = min(self.signal.delta_for_kl(self.gamma, kl), MAX_DELTA)
            rate = float(self.signal.green_rate(self.gamma, delta))
            if self.signal.independent:
                return required_length(self.gamma, rate, alpha, power, self.variance_inflation)
            uneven += int(2.0 / max(rate - self.gamma, 0.01))  # tokens that make up for two counts
        return invert.least_tokens(
            lambda n: self.cost(n, alpha, power), kl, alpha, power, uneven=min(300, uneven)
        )


def relax(
    solved_for: str, n_tokens: int, alpha: float, power: float, step: float
) -> tuple[int, float, float]:
    """Make the problem a little easier in the quantity that is ours to choose."""
    if solved_for == "n_tokens":
        return n_tokens + 1, alpha, power
    if solved_for == "alpha":
        return n_tokens, alpha * (1.0 + step), power
    return n_tokens, alpha, float(special.expit(special.logit(power) - step))
