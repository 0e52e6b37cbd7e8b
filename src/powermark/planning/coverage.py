"""Plans for answers of any length: the share of all of them that is found.

A text is tested at its own number n of tokens that count, by the exact count at level alpha. The
*coverage* of a mark is the mean of its power over the lengths of answers,

    coverage = sum_n share(n) P(S_n >= k_n),   k_n the critical count at n.

With a profile the lengths can be those of its own texts; each text is then judged by its own rates
at its own length, so that short and certain answers count as what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from powermark.checks import Array
from powermark.errors import Infeasible, InvalidInput
from powermark.planning.design import Design
from powermark.planning.lengths import Lengths
from powermark.planning.request import Answer, Request
from powermark.planning.solver import on_grid
from powermark.signals.counts import poisson_binomial_tail, tails_by_length
from powermark.signals.edits import Edits
from powermark.signals.profile import Profile
from powermark.signals.signal import MAX_DELTA, SignalModel
from powermark.signals.text_mixture import TextMixture
from powermark.theory.power import critical_count

SHOWN = (25, 50, 100, 200, 400, 800)  # lengths of the table of powers
_LOGITS = np.linspace(-3.0, 3.0, 13)  # of the green shares that are compared, .05 to .95
_PRECISION = 1e-3  # of delta


def lengths_of(profile: Profile) -> Lengths:
    """Return the numbers of tokens that count in a profile's unmarked answers, empty ones too."""
    of = profile.texts
    counted = [seen.size for seen, level in zip(of.seen, of.level, strict=True) if not level]
    found = Lengths.of(counted)
    if of.answered == 1.0:
        return found
    shares = (1.0 - of.answered, *(of.answered * share for share in found.shares))
    return Lengths((0, *found.counted), shares)


def scored_share(signal: SignalModel) -> float:
    """Return the share of generated tokens that count: the profile's, or 1 without one."""
    return signal.scored_share() if isinstance(signal, Profile) else 1.0


@dataclass(frozen=True, slots=True)
class Covered:
    """The share of answers that is found, as they are and after edits.

    ``errors`` are the standard errors of the two, where a profile's own texts are judged.
    """

    clean: float
    attacked: float
    errors: tuple[float, float] | None = None


def coverage(
    signal: SignalModel,
    gamma: float,
    delta: float,
    *,
    alpha: float,
    lengths: Lengths | None = None,
    edits: Edits | None = None,
) -> Covered:
    """Return the share of answers that the exact count finds, each at its own length.

    Parameters
    ----------
    lengths
        Of answers; those of a profile's own texts if left out.
    edits
        What happens to texts before they are tested.
    """
    if lengths is None:
        return _of_own_texts(signal, gamma, delta, alpha, edits)
    ns, shares = np.array(lengths.counted), np.array(lengths.shares)
    ns, shares = ns[ns > 0], shares[ns > 0]
    powers = [_powers(signal, gamma, delta, alpha, ns, edits=None)]
    powers.append(_powers(signal, gamma, delta, alpha, ns, edits) if edits else powers[0])
    clean, attacked = (float(shares @ each) for each in powers)
    return Covered(clean, attacked)


def _powers(
    signal: SignalModel,
    gamma: float,
    delta: float,
    alpha: float,
    ns: NDArray[np.int64],
    edits: Edits | None,
) -> Array:
    """Return the power at each of some lengths; of a profile's texts in one pass over each."""
    rate = 0.0 if not edits else edits.edit_rate
    if isinstance(signal, TextMixture) and rate is not None:
        longest = int(ns.max(initial=1))
        needed = critical_count(np.arange(1, longest + 1), gamma, alpha)
        rows = signal.texts.rows(longest, gamma, delta)
        width = 0 if not edits else edits.context_width
        tails = tails_by_length(rows, needed, gamma=gamma, edit_rate=rate, context_width=width)
        return np.asarray((signal.text_weights(gamma, delta) @ tails)[ns - 1])
    found = np.zeros(ns.size)
    for place, n in enumerate(ns.tolist()):
        k = _critical_count(n, gamma, alpha)
        if k <= n:
            found[place] = (
                signal.attacked_power(edits, n, k, gamma, delta)
                if edits
                else signal.power(n, k, gamma, delta)
            )
    return found


def _critical_count(n: int, gamma: float, alpha: float) -> int:
    return int(critical_count(n, gamma, alpha)) if n else 1


def _of_own_texts(
    signal: SignalModel, gamma: float, delta: float, alpha: float, edits: Edits | None
) -> Covered:
    """Judge each text of a profile by its own rates at its own length; empty ones are not found."""
    if not isinstance(signal, TextMixture):
        raise InvalidInput("`lengths` are needed without a profile.")
    weights, clean = signal.text_weights(gamma, delta), list[float]()
    attacked = list[float]()
    for rates in signal.rates_by_text(gamma, delta)[0]:
        n, row = rates.size, rates[None]
        k = _critical_count(n, gamma, alpha)
        clean.append(float(poisson_binomial_tail(row, k)[0]))
        if edits:
            attacked.append(0.0 if k > n else float(edits.tail(row, k, gamma)[0]))
    both = signal.texts.answered * np.array([clean, attacked if edits else clean])
    means = both @ weights
    errors = np.sqrt((both - means[:, None]) ** 2 @ weights**2)
    return Covered(float(means[0]), float(means[1]), (float(errors[0]), float(errors[1])))


def power_by_length(
    signal: SignalModel, gamma: float, delta: float, *, alpha: float, edits: Edits
) -> dict[str, float]:
    """Return the power at some lengths: after edits, where texts are edited."""
    powers = _powers(signal, gamma, delta, alpha, np.array(SHOWN), edits)
    return {f"{n}": min(float(power), 1.0) for n, power in zip(SHOWN, powers, strict=True)}


def solve_coverage(request: Request) -> Answer:
    """Return the design of least KL that finds the requested share of answers.

    Green shares are compared on a few texts and lengths; the bias at the best one is settled on
    all of them.
    """
    assert request.alpha is not None
    rough, lengths = request.signal.thinned(), own_lengths(request)
    costs = dict[float, float]()

    def compare(logits: Array) -> None:
        for gamma in on_grid(special.expit(logits)).tolist():
            delta = _least_delta(request, rough, gamma, lengths.some())
            if delta is not None:
                costs[gamma] = float(rough.kl(gamma, delta))

    if request.gamma is not None:
        costs[request.gamma] = 0.0
    else:
        compare(_LOGITS)
        if costs:
            best = special.logit(min(costs, key=costs.__getitem__))
            compare(best + np.diff(_LOGITS)[0] * np.array([-0.5, 0.5]))
    for gamma in sorted(costs, key=costs.__getitem__):  # others where the few texts misled
        delta = _least_delta(request, request.signal, gamma, request.lengths)
        if delta is not None:
            n = max(lengths.quantile(0.5), 1)
            return Answer(gamma=gamma, delta=delta, n_tokens=n, alpha=request.alpha)
    raise Infeasible(
        f"no mark finds a share {request.coverage:g} of these answers at alpha = "
        f"{request.alpha:g}: half of them have at most {lengths.quantile(0.5)} tokens that count, "
        f"a tenth at most {lengths.quantile(0.1)}.",
        hint="ask for less, or raise alpha.",
    )


def own_lengths(request: Request) -> Lengths:
    """Return the lengths of a request's answers: those given, or the profile's."""
    if request.lengths is not None:
        return request.lengths
    if not isinstance(request.signal, Profile):
        raise InvalidInput("`lengths` are needed without a profile.")
    return lengths_of(request.signal)


def _least_delta(
    request: Request, signal: SignalModel, gamma: float, lengths: Lengths | None
) -> float | None:
    """Return the least bias that reaches the coverage at a green share; None where none does."""
    assert request.alpha is not None
    assert request.coverage is not None
    alpha, wanted, edits = request.alpha, request.coverage, request.edits

    def margin(delta: float) -> float:
        found = coverage(signal, gamma, delta, alpha=alpha, lengths=lengths, edits=edits)
        return min(found.clean, found.attacked) - wanted

    high = 1.0
    while margin(high) < 0.0:
        high *= 2.0
        if high > MAX_DELTA:
            return None
    low = 0.0 if high == 1.0 else high / 2.0
    found = float(optimize.brentq(margin, low, high, xtol=_PRECISION))
    return float(np.float32(found if margin(found) >= 0.0 else found + _PRECISION))


def coverage_fields(request: Request, design: Design) -> dict[str, Any]:
    """Return the fields of a plan about answers of any length."""
    edits, signal = request.edits, request.signal
    gamma, delta, alpha = design.gamma, design.delta, design.alpha
    found = coverage(signal, gamma, delta, alpha=alpha, lengths=request.lengths, edits=edits)
    names = ("coverage", "attacked_coverage")[: 2 if edits else 1]
    errors = dict(zip(names, found.errors or (), strict=False))
    return {
        "coverage": found.clean,
        "attacked_coverage": found.attacked if edits else None,
        "lengths": own_lengths(request).to_dict(),
        "power_by_length": power_by_length(signal, gamma, delta, alpha=alpha, edits=edits),
        "standard_errors": {**(design.standard_errors or {}), **errors} or None,
    }
