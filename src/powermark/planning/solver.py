"""The exact solver: the least KL that reaches a power (the paper's dual form).

For each critical count k the best gamma is the largest whose size is alpha: ``P0(S >= k) = alpha``,
an inverse Beta function. What is left is the delta that gives the power; with the plug-in signal,
independent tokens and no edits that too is an inverse Beta function, so all k are compared at once.
Otherwise k is screened with the closed form and settled by exact evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import inf
from typing import Any, Self

import numpy as np
from scipy import optimize, special

from powermark.checks import Array
from powermark.errors import Infeasible
from powermark.planning import invert
from powermark.planning.design import attacked_power, clean_power
from powermark.planning.invert import Lengths
from powermark.planning.request import GAMMA_MIN, Answer, Request, Target
from powermark.signals.edits import Edits
from powermark.signals.signal import MAX_DELTA, PlugIn, SignalModel
from powermark.theory.distortion import bernoulli_kl
from powermark.theory.green_rate import token_green_rate
from powermark.theory.power import binomial_tail, critical_count
from powermark.theory.required_length import required_length

GAMMA_GRID = 2.0**-32  # a 32-bit hash colours tokens; gamma is a multiple, rounded down
UNLIKE = 1.1  # times the KL on some texts is too much on all of them
_STARTS = (1.0, 0.97, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1)  # shares of n where the exact search looks too
_WORSE = 1.015  # times the least KL on few texts: not worth a look on all of them
_CLOSE, _VALLEYS = 1.015, 3  # times the least KL, and how many counts are compared again
_ALL_COUNTS = 96  # up to this n every critical count is compared, above it a subset first
_WEAKEST = 1e-4  # a smaller bias is no mark
_COMPARING = 1e-7  # precision of delta while critical counts are compared
_ROUGHLY = 1e-4  # the same, on all texts
_STEEP = 4.0  # logits of power, roughly, by which an e-fold bias is better
_BELOW_ONE = 1.0 - 2.0**-53
_STEP = 1e-9  # by which a target is relaxed where rounding overspends


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A design problem: what is given, what may be chosen, and whether a design meets it.

    The detector is the count; a subclass that overrides the methods stands for another.
    """

    n_tokens: int
    alpha: float
    power: float
    attacked_power: float | None = None
    edits: Edits = field(default_factory=Edits)
    signal: SignalModel = field(default_factory=PlugIn)
    variance_inflation: float = 1.0
    gamma: float | None = None
    delta: float | None = None

    @classmethod
    def of(cls, request: Request, target: Target) -> Self:
        """Return the problem of reaching a target."""
        attacked = target.power if request.attacked_power is None else request.attacked_power
        return cls(
            **target._asdict(),
            attacked_power=attacked if request.edits else None,
            edits=request.edits,
            signal=request.signal,
            variance_inflation=request.variance_inflation,
            gamma=request.gamma,
            delta=request.delta,
        )

    @staticmethod
    def lengths(request: Request, alpha: float, power: float, kl: float) -> Lengths:
        """Return where to look for the shortest text; at a given gamma a formula may give it."""
        gamma, signal = request.gamma, request.signal
        uneven = invert.uneven_at(gamma, 8)
        if gamma is None or request.edits:
            return Lengths(uneven=uneven)
        rate = float(signal.green_rate(gamma, min(signal.delta_for_kl(gamma, kl), MAX_DELTA)))
        if signal.independent:
            known = required_length(gamma, rate, alpha, power, request.variance_inflation)
            return Lengths(known=known)
        more = int(2.0 / max(rate - gamma, 0.01))  # tokens that make up for two counts
        return Lengths(uneven=uneven + more)

    @property
    def closed_form(self) -> bool:
        """Whether power and KL are inverse Beta functions and logarithms."""
        return isinstance(self.signal, PlugIn) and self.variance_inflation == 1.0 and not self.edits

    @property
    def well_guided(self) -> bool:
        """Whether the screen's closed form is near the cost of each critical count."""
        return isinstance(self.signal, PlugIn) and self.delta is None

    def starts(self, ks: Array) -> Array:  # noqa: ARG002 - other detectors look at all of them
        """Return the counts that the exact search begins with where the screen is a poor guide."""
        return np.asarray(np.floor(np.array(_STARTS) * self.n_tokens))

    def count_for(self, gamma: float) -> float:
        """Return the critical count at a gamma; above n_tokens where no test exists."""
        return float(critical_count(self.n_tokens, gamma, self.alpha))

    def gamma_for(self, k: Array | float) -> Array:
        """Return the largest gamma at which each critical count keeps the level."""
        return rate_for(self.n_tokens, k, self.alpha)

    def keeps_level(self, k: float, gamma: float) -> bool:
        """Whether a critical count keeps the level at a gamma."""
        return bool(binomial_tail(self.n_tokens, k, gamma) <= self.alpha)

    def margin(self, k: float, gamma: float, delta: float) -> float:
        """Power above what was asked, the lesser of clean and attacked; increases in delta."""
        of: dict[str, Any] = {"n_tokens": self.n_tokens, "critical_count": k}
        of["variance_inflation"] = self.variance_inflation
        attacked = inf
        if self.attacked_power is not None:
            attacked = attacked_power(self.signal, gamma, delta, self.edits, **of)
            attacked -= self.attacked_power
            if attacked < 0.0 and self.attacked_power >= self.power:
                return attacked  # edits only cost power
        return min(clean_power(self.signal, gamma, delta, **of) - self.power, attacked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A design with a critical count, and its KL: inf where no bias reaches the power."""

    gamma: float
    delta: float
    critical_count: int
    kl: float


def rate_for(n_tokens: int, k: Array | float, probability: float) -> Array:
    """Return the green rate at which P(S >= k) is ``probability``: ``BetaInv(.; k, n-k+1)``.

    The largest gamma of a level-alpha test, and the gamma_prime that gives a power.
    """
    return np.asarray(
        special.betaincinv(k, n_tokens - np.asarray(k) + 1.0, probability), np.float64
    )


def on_grid(gamma: Array | float) -> Array:
    """Return the multiple of GAMMA_GRID just below, or at, a gamma."""
    return np.asarray(np.floor(np.asarray(gamma) / GAMMA_GRID) * GAMMA_GRID)


def solve(request: Request, kind: type[Problem] = Problem) -> Answer:
    """Find the quantity that is missing, and the design of least KL; ``kind`` is the detector's."""

    def cost(target: Target) -> float:
        if request.variance_inflation > 1.0 and target.n_tokens <= request.variance_inflation:
            return inf
        try:
            return least_kl(kind.of(request, target)).kl
        except Infeasible:
            return inf

    def settled(target: Target) -> Candidate:
        problem = kind.of(request, target)
        return settle(problem, least_kl(problem))

    target = invert.target_of(request, cost, partial(kind.lengths, request))
    target, found = invert.within_budget(request, target, settled, _STEP)
    return Answer(
        gamma=found.gamma,
        delta=found.delta,
        n_tokens=target.n_tokens,
        alpha=target.alpha,
        notes=invert.limits_reached(request, target),
    )


def least_kl(problem: Problem) -> Candidate:
    """Return the design of least KL whose exact test keeps alpha and reaches the power.

    Raises
    ------
    Infeasible
        If no gamma in [GAMMA_MIN, 1) and delta up to MAX_DELTA do.
    """
    if problem.gamma is not None:
        return _at_gamma(problem, problem.gamma)
    ks = _counts(problem)
    costs = _screen(problem, ks)
    if problem.closed_form:
        left_out = _gap(ks, ks[np.argmin(costs)])
        ks, costs = np.append(ks, left_out), np.append(costs, _screen(problem, left_out))
        return _cheapest(problem, ks[np.argmin(costs)])
    return _descend(problem, ks, costs)


def settle(problem: Problem, found: Candidate) -> Candidate:
    """Put gamma on the hash grid and delta on float32, on the safe side of size and power.

    What is deployed then has exactly the planned values: a hash resolves gamma no finer, and
    engines add delta in float32.
    """
    k, gamma = found.critical_count, found.gamma
    if problem.gamma is None:
        gamma = _keep_level(problem, k, float(on_grid(gamma)))
    if problem.delta is not None:
        delta = problem.delta
        gamma = _nudge(lambda g: problem.margin(k, g, delta), gamma, GAMMA_GRID)
        gamma = _keep_level(problem, k, gamma)  # no room above: take what was lost
        return _candidate(problem, k, gamma, delta)
    delta = float(np.float32(found.delta))  # the grid moves gamma by less than an ulp of delta
    ulp = float(np.spacing(np.float32(delta)))
    delta = min(MAX_DELTA, _nudge(lambda d: problem.margin(k, gamma, d), delta, ulp))
    return _candidate(problem, k, gamma, delta)


def _keep_level(problem: Problem, k: float, gamma: float) -> float:
    """Lower gamma on the grid until a critical count keeps the level."""
    while not problem.keeps_level(k, gamma):
        gamma -= GAMMA_GRID
    return gamma


def _nudge(margin: Callable[[float], float], value: float, step: float) -> float:
    """Raise ``value`` by as few steps as make the margin non-negative, in doubling strides."""
    strides = (0.0, *(step * 2.0**i for i in range(24)))
    return next((value + s for s in strides if margin(value + s) >= 0.0), value)


def _counts(problem: Problem) -> Array:
    """Critical counts worth comparing: all, or both ends densely and the middle sparsely."""
    n = problem.n_tokens
    fewest = _fewest(problem)
    if n <= _ALL_COUNTS or problem.delta is not None:  # a fixed delta has several valleys
        return np.arange(fewest, n + 1.0)
    third = _ALL_COUNTS // 3
    ends = [fewest + np.arange(third), n - np.arange(third), np.linspace(fewest, n, third)]
    ks = np.unique(np.floor(np.concatenate(ends)))
    return ks[(ks >= fewest) & (ks <= n)]


def _fewest(problem: Problem) -> float:
    """Smallest critical count whose gamma is at least GAMMA_MIN."""
    n, alpha = problem.n_tokens, problem.alpha
    fewest = problem.count_for(GAMMA_MIN)
    if fewest > n:
        needed = int(np.ceil(np.log(alpha) / np.log(GAMMA_MIN)))
        raise Infeasible(
            f"n_tokens = {n} cannot reach alpha = {alpha:g}: all {n} tokens are green by chance "
            f"with probability {GAMMA_MIN**n:.2g} even at the smallest gamma, {GAMMA_MIN:g}.",
            hint=f"plan for at least {needed} scored tokens, or a larger alpha.",
        )
    return fewest


def _gap(ks: Array, best: float) -> Array:
    """Critical counts that a sparse comparison left out beside its best one; may be none."""
    i = int(np.searchsorted(ks, best))
    low, high = ks[max(i - 1, 0)], ks[min(i + 1, ks.size - 1)]
    return np.setdiff1d(np.arange(low + 1.0, high), ks)


def _screen(problem: Problem, ks: Array) -> Array:
    """KL of each critical count by closed form: exact where one exists, else a guide.

    The guide takes the plug-in signal and treats surviving positions as independent.
    """
    n = problem.n_tokens
    gamma = problem.gamma_for(ks)
    rate = rate_for(n, ks, problem.power)
    if problem.attacked_power is not None:
        share = max(problem.edits.surviving_share(n), 1e-12)
        attacked = rate_for(n, ks, problem.attacked_power)
        rate = np.maximum(rate, (attacked - (1.0 - share) * gamma) / share)
    reachable = rate < 1.0
    rate = np.where(reachable, rate, 0.5)
    if problem.delta is not None:
        # the largest gamma gives the most power; a smaller one may cost less (Lemma 3.9)
        reachable &= token_green_rate(gamma, problem.delta) >= rate
        least = token_green_rate(1.0 - rate, problem.delta)  # red mirror of the token lemma
        lower = np.where(reachable, 1.0 - least, 0.5)
        costs = np.minimum(
            problem.signal.kl(np.clip(lower, GAMMA_MIN, 1.0 - 1e-9), problem.delta),
            problem.signal.kl(gamma, problem.delta),
        )
    else:
        costs = bernoulli_kl(rate, gamma)
    return np.where(reachable, costs, np.inf)


def _descend(problem: Problem, ks: Array, guide: Array) -> Candidate:
    """Evaluate critical counts exactly: the guide's best, a coarse net, then downhill.

    Counts are compared on some texts of a profile, and then the best of each valley and its
    neighbours on all. Where these are unlike the few, so that the best count costs far more on them
    or is out of reach, all counts are compared on them.
    """
    n, some = problem.n_tokens, replace(problem, signal=problem.signal.representative())
    few = _search(some, ks, guide)
    best = few.valleys()[0]
    if some.signal is not problem.signal:
        costs, step = _Costs(problem, few, _ROUGHLY), max(1, n // 50)
        starts = (each.critical_count for each in few.valleys())
        found = costs.tried[downhill(costs, starts, int(ks[0]), n, step, finest=max(1, step // 2))]
        unlike = found.kl > UNLIKE * best.kl
        best = _search(problem, ks, guide).valleys()[0] if unlike else found
    return _cheapest(problem, best.critical_count, near=best.delta)


def _search(problem: Problem, ks: Array, guide: Array) -> _Costs:
    """Look for the best critical count; return the costs of those that were tried."""
    n = problem.n_tokens
    padded = np.concatenate([[np.inf], guide, [np.inf]])
    valleys = np.flatnonzero((guide <= padded[:-2]) & (guide <= padded[2:]))
    net, step = ks[valleys[np.argsort(guide[valleys])[:3]]], max(1, n // 128)
    if not problem.well_guided:
        net, step = np.append(net, problem.starts(ks)), max(1, n // 16)
    costs, all_over = _Costs(problem), ks[:: max(1, ks.size // 24)]
    downhill(costs, map(int, net), int(ks[0]), n, step, spare=map(int, all_over))
    return costs


class _Costs:
    """The costs of critical counts, to a precision of delta."""

    def __init__(
        self, problem: Problem, few: _Costs | None = None, precision: float = _COMPARING
    ) -> None:
        self.problem, self.precision = problem, precision
        self.known = [] if few is None else [*few.tried.values()]
        self.tried: dict[int, Candidate] = {}

    def __call__(self, k: int) -> float:
        """Return the least KL of a count; inf where it costs much more on few texts."""
        if self.known:
            least = min(each.kl for each in self.known)
            if min(self.known, key=lambda other: abs(other.critical_count - k)).kl > _WORSE * least:
                return inf
        gamma = float(self.problem.gamma_for(k))
        near = self._near(k)
        self.tried[k] = _tune(self.problem, k, gamma, near=near, precision=self.precision)
        return self.tried[k].kl

    def _near(self, k: int) -> float:
        """Return the bias of the nearest count of those that were tried, here or on few texts."""
        some = [*self.tried.values(), *self.known]
        nearest = min(some, key=lambda other: abs(other.critical_count - k), default=None)
        return 1.0 if nearest is None else nearest.delta

    def valleys(self) -> list[Candidate]:
        """Return the counts that cost less than both neighbours and little more than the best."""
        ks = sorted(self.tried)
        kls = np.array([inf, *(self.tried[k].kl for k in ks), inf])
        low = (kls[1:-1] <= kls[:-2]) & (kls[1:-1] <= kls[2:]) & (kls[1:-1] <= _CLOSE * kls.min())
        found = [self.tried[k] for k, here in zip(ks, low, strict=True) if here]
        return sorted(found, key=lambda each: each.kl)[:_VALLEYS]


def downhill(
    cost: Callable[[int], float],
    starts: Iterable[int],
    low: int,
    high: int,
    step: int,
    spare: Iterable[int] = (),
    finest: int = 1,
) -> int:
    """Return the count in [low, high] with the least cost: the best start, then downhill from it.

    The step is halved where neither neighbour is better, down to ``finest``. No count is evaluated
    twice. ``spare`` are further starts, for the case that none of the first has a finite cost.
    """
    tried: dict[int, float] = {}

    def look_at(several: Iterable[int]) -> int:
        """Evaluate counts that were not yet, in order, and return the best of all."""
        for k in sorted({min(max(k, low), high) for k in several} - tried.keys()):
            tried[k] = cost(k)
        return min(tried, key=tried.__getitem__)

    best = look_at(starts)
    if not np.isfinite(tried[best]):
        best = look_at(spare)
    while True:
        before, best = best, look_at([best - step, best + step])
        if best == before:
            if step <= finest:
                return best
            step //= 2


def _candidate(problem: Problem, k: float, gamma: float, delta: float) -> Candidate:
    kl = float(problem.signal.kl(gamma, delta))
    return Candidate(gamma=gamma, delta=delta, critical_count=int(k), kl=kl)


def _tune(
    problem: Problem, k: float, gamma: float, *, near: float = 1.0, precision: float = 1e-12
) -> Candidate:
    """Return the cheapest design with critical count k and gamma at most the one given.

    ``near`` is where to look for delta first.
    """
    unreached = Candidate(gamma=gamma, delta=1.0, critical_count=int(k), kl=inf)
    if problem.delta is not None:
        cheapest = _tune_gamma(problem, k, gamma, problem.delta)
        return unreached if cheapest is None else _candidate(problem, k, cheapest, problem.delta)
    if problem.closed_form:
        rate = float(rate_for(problem.n_tokens, k, problem.power))
        delta = problem.signal.delta_for_rate(gamma, rate) if rate < 1.0 else inf
        return _candidate(problem, k, gamma, delta) if delta < inf else unreached

    @cache
    def surplus(delta: float) -> float:
        """Logits of power above what was asked: nearly linear in delta, so roots are found soon."""
        reached = problem.power + problem.margin(k, gamma, delta)
        return float(special.logit(np.clip(reached, 1e-300, _BELOW_ONE)) - wanted)

    wanted = special.logit(problem.power)
    found = least_enough(surplus, near, precision)
    return unreached if found is None else _candidate(problem, k, gamma, found[0])


def least_enough(
    surplus: Callable[[float], float], near: float, precision: float
) -> tuple[float, float] | None:
    """Return about the least bias with a surplus, and one near it that surely has one.

    None if even the largest bias has no surplus.
    """
    around = _bracket(surplus, near)
    if around is None:
        return None
    low, high = around
    if low == high:  # the least bias; overdispersion alone may pass a low power
        return around
    return float(optimize.brentq(surplus, low, high, xtol=precision)), high


def _bracket(surplus: Callable[[float], float], near: float) -> tuple[float, float] | None:
    """Return biases on both sides of the least that is enough, looking around ``near`` first.

    The first stride is the longer the further the surplus, in logits, is from 0.
    """
    low = high = min(max(near, _WEAKEST), MAX_DELTA)
    stride = 1.0 + min(max(abs(surplus(near)) / _STEEP, 1e-6), 0.2)
    if surplus(near) >= 0.0:
        while low > _WEAKEST:
            low = max(low / stride, _WEAKEST)
            if surplus(low) < 0.0:
                return low, high
            high, stride = low, stride**2
        return low, high
    while high < MAX_DELTA:
        high = min(high * stride, MAX_DELTA)
        if surplus(high) >= 0.0:
            return low, high
        low, stride = high, stride**2
    return None


def _tune_gamma(problem: Problem, k: float, most: float, delta: float) -> float | None:
    """Return the cheapest gamma at a fixed delta; None where no gamma reaches the power.

    The power rises with gamma, while the KL rises and then falls (Lemma 3.9). So the cheapest gamma
    is the largest that keeps alpha or the least that has the power. The latter is only looked for
    where small gammas are the cheaper ones.
    """
    if problem.margin(k, most, delta) < 0.0:
        return None
    least = min(GAMMA_MIN, most)
    if problem.signal.kl(least, delta) >= problem.signal.kl(most, delta):
        return most
    if problem.margin(k, least, delta) < 0.0:
        least = optimize.brentq(lambda g: problem.margin(k, g, delta), least, most, xtol=1e-13)
        least = min(most, least * (1.0 + 1e-9))
    cheaper = problem.signal.kl(least, delta) < problem.signal.kl(most, delta)
    return float(least) if cheaper else most


def _at_gamma(problem: Problem, gamma: float) -> Candidate:
    """Solve with gamma given by the user: the critical count follows, delta is left."""
    n, alpha = problem.n_tokens, problem.alpha
    k = int(problem.count_for(gamma))
    if k > n:
        needed = int(np.ceil(np.log(alpha) / np.log(gamma)))
        raise Infeasible(
            f"no test of level alpha = {alpha:g} exists at gamma = {gamma:g}, n_tokens = {n}: all "
            f"{n} tokens are green by chance with probability {gamma**n:.3g}.",
            hint=f"plan for at least {needed} scored tokens, or gamma at most "
            f"{alpha ** (1 / n):.4g}.",
        )
    return _cheapest(problem, k)


def _cheapest(problem: Problem, k: float, near: float = 1.0) -> Candidate:
    """Return the cheapest design with critical count k; raise Infeasible where there is none."""
    most = problem.gamma or float(problem.gamma_for(k))
    found = _tune(problem, k, most, near=near)
    if found.kl == inf:
        raise Infeasible(
            _unreachable(problem), hint="allow fewer edits, more tokens or less power."
        )
    return found


def _unreachable(problem: Problem) -> str:
    """Return the sentence for a power that no design reaches."""
    asked = f"power {problem.power:g}"
    if problem.attacked_power is not None:
        share = problem.edits.surviving_share(problem.n_tokens)
        asked += f" and attacked_power {problem.attacked_power:g} with {share:.0%} surviving"
    fixed = "" if problem.gamma is None else f" at gamma = {problem.gamma:g}"
    fixed += "" if problem.delta is None else f" at delta = {problem.delta:g}"
    return (
        f"no design{fixed} reaches {asked} with n_tokens = {problem.n_tokens}, "
        f"alpha = {problem.alpha:g}."
    )
