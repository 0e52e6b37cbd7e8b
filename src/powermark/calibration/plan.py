"""``plan``: give all but one of length, level, power and distortion; get the best design."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from powermark.calibration import authors
from powermark.calibration.design import Design, edit_parts, evaluate, table
from powermark.calibration.edits import CONTEXT_WIDTH, Edits
from powermark.calibration.request import Answer, Method, Request
from powermark.calibration.signal import PlugIn, SignalModel
from powermark.checks import positive
from powermark.errors import Infeasible, InvalidInput
from powermark.signature import signature
from powermark.theory.bounds import gamma_star
from powermark.theory.distortion import gamma_roots, gamma_zero, kl_divergence
from powermark.theory.required_length import required_length

_TARGETS = (0.5, 0.8, 0.95, 0.99)
PRECISION = 0.03
_SHORT = {
    "n_tokens": "n",
    "alpha": "a",
    "power": "pi",
    "kl": "kl",
    "gamma": "g",
    "delta": "d",
    "attacked_power": "pi_attacked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Design):
    """The design that answers a request, with the request and where the design lies.

    ``solved_for`` names the quantity that was left out and ``asked`` holds what was given.
    ``gamma_l`` and ``gamma_h`` are the two green shares that cost this design's plug-in KL at its
    delta. ``tokens_needed`` maps a power to the first length at which this design reaches it on
    untouched text (None beyond ten million tokens). ``points`` are the authors' designs, for their
    method only.
    """

    method: Method
    solved_for: str
    asked: dict[str, float]
    gamma_star: float
    gamma_zero: float
    gamma_l: float
    gamma_h: float
    tokens_needed: dict[str, int | None]
    warnings: tuple[str, ...]
    points: tuple[Design, ...]

    def __str__(self) -> str:
        lengths = [f"{p}: {'-' if n is None else n}" for p, n in self.tokens_needed.items()]
        bounds = f"gamma_star {self.gamma_star:.4f}, gamma_zero {self.gamma_zero:.4f}"
        rows = [
            *self.rows(),
            ("tokens_needed", "", "untouched, for power " + "  ".join(lengths)),
            ("bounds", "", bounds),
        ]
        points = [
            f"weaker point: gamma {point.gamma:.4f}, delta {point.delta:.3f}, kl {point.kl:.4f}, "
            f"power {point.power:.4f}, size {point.size:.3g}"
            for point in self.points[1:]
        ]
        notes = [f"note: {warning}" for warning in self.warnings]
        title = f"{self.method} plan, solved for {self.solved_for}"
        return "\n".join([title, table(rows), *points, *notes, self.signature])


def plan(
    *,
    n_tokens: int | None = None,
    alpha: float | None = None,
    power: float | None = None,
    kl: float | None = None,
    method: Method = "exact",
    signal: SignalModel | None = None,
    gamma: float | None = None,
    delta: float | None = None,
    edit_rate: float | None = None,
    survival: float | None = None,
    removal: float | None = None,
    attacked_power: float | None = None,
    context_width: int = CONTEXT_WIDTH,
    variance_inflation: float = 1.0,
    precision: float = PRECISION,
) -> Plan:
    """Solve for the one of ``n_tokens, alpha, power, kl`` that is left out, with the best design.

    Without ``kl``: the least KL that reaches ``power`` (the paper's dual form). Without ``power``:
    the most power for a KL budget (its primal form, Eq. 2). Without ``n_tokens`` or ``alpha``: the
    shortest text or the strictest level for that power and budget.

    Parameters
    ----------
    n_tokens
        Tokens scored by the detector.
    alpha
        Level; the size of an exact plan never exceeds it.
    power
        Power on untouched text; on edited text too where edits are given without
        ``attacked_power``.
    kl
        Budget of KL(watermarked || original), nats per token.
    method
        ``"exact"``; ``"paper"`` for Eq. (1) searched down from gamma_star; ``"authors"`` for their
        published grid, which needs ``n_tokens`` and ``alpha`` alone.
    signal
        What the mark does on your model; the plug-in by default.
    gamma, delta
        Fix one of them.
    edit_rate, survival, removal
        What happens to texts, see :class:`~powermark.calibration.edits.Edits`; one at most.
    attacked_power
        Power to keep on edited text.
    context_width
        Tokens that seed a green list; matters for edits.
    variance_inflation
        Overdispersion c of green counts.
    precision
        How far a profile may leave the power uncertain (95 %) before the plan warns of it.

    Examples
    --------
    >>> best = plan(n_tokens=50, alpha=0.05, power=0.95)
    >>> best.critical_count, round(best.gamma, 4), round(best.delta, 2), round(best.kl, 4)
    (50, 0.9418, 4.1, 0.0547)
    """
    edits = Edits(
        edit_rate=edit_rate, survival=survival, removal=removal, context_width=context_width
    )
    request = Request(
        n_tokens=n_tokens,
        alpha=alpha,
        power=power,
        kl=kl,
        method=method,
        signal=signal or PlugIn(),
        gamma=gamma,
        delta=delta,
        edits=edits,
        attacked_power=attacked_power,
        variance_inflation=variance_inflation,
        precision=float(positive("precision", precision)),
    )
    request.check()
    return _authors_plan(request) if method == "authors" else _report(request, request.solve())


def _authors_plan(request: Request) -> Plan:
    n, alpha = request.n_tokens, request.alpha
    if n is None or alpha is None or request.kl is not None:
        raise InvalidInput(
            'method "authors" needs n_tokens and alpha, and chooses kl and power by itself.',
            hint='use method "exact" or "paper" to solve for another quantity.',
        )
    if not isinstance(request.signal, PlugIn) or request.gamma is not None:
        raise InvalidInput('method "authors" takes neither a signal model nor a fixed gamma.')
    pairs = authors.published_points(n, alpha, power=request.power or authors.POWER)
    c = request.variance_inflation
    designs = [
        evaluate(g, d, n_tokens=n, alpha=alpha, test="z", variance_inflation=c) for g, d in pairs
    ]
    gamma, delta = pairs[0]
    answer = Answer(solved_for="kl", gamma=gamma, delta=delta, n_tokens=n, alpha=alpha)
    return _report(request, answer, tuple(designs))


def _report(request: Request, answer: Answer, points: tuple[Design, ...] = ()) -> Plan:
    """Evaluate the chosen design and put the plan together."""
    design = evaluate(
        answer.gamma,
        answer.delta,
        n_tokens=answer.n_tokens,
        alpha=answer.alpha,
        signal=request.signal,
        edits=request.edits,
        variance_inflation=request.variance_inflation,
        test="exact" if request.method == "exact" else "z",
    )
    given = {name: getattr(request, name) for name in _SHORT}
    asked = {name: value for name, value in given.items() if value is not None}
    fields = {field.name: getattr(design, field.name) for field in dataclasses.fields(Design)}
    fields["signature"] = signature(
        "plan",
        method=request.method,
        solve=answer.solved_for,
        signal=request.signal.name,
        **{_SHORT[name]: value for name, value in asked.items()},
        c=request.variance_inflation if request.variance_inflation != 1.0 else None,
        **edit_parts(request.edits),
    )
    low, high = gamma_roots(design.delta, kl_divergence(design.gamma, design.delta))
    return Plan(
        **fields,
        method=request.method,
        solved_for=answer.solved_for,
        asked=asked,
        gamma_star=float(gamma_star(design.n_tokens, design.alpha)),
        gamma_zero=float(gamma_zero(design.delta)),
        gamma_l=float(low),
        gamma_h=float(high),
        tokens_needed={f"{power:g}": _tokens(design, power) for power in _TARGETS},
        warnings=(*answer.notes, *_warnings(design, request.precision)),
        points=points,
    )


def _doubts(design: Design, profile: dict[str, Any], precision: float) -> list[str]:
    """Say how sure the power is that a profile foretells, where that is less than was asked."""
    texts, steps = int(profile.get("texts", 1)), int(profile.get("steps", 1))
    if design.standard_errors is None:
        return ["the profile is of one text, which says nothing about others: record more of them."]
    error = 1.96 * design.standard_errors["power"]
    if error <= precision:
        return []
    needed = int(np.ceil(texts * (error / precision) ** 2))
    return [
        f"the profile's {texts} texts leave the power uncertain by {error:.3f}; for {precision:g} "
        f"record {needed} texts, about {-(-needed * steps // texts):,} positions."
    ]


def _tokens(design: Design, power: float) -> int | None:
    """First length with this power, under the design's inflation c and without any.

    Not more than the design's own length where that has the power: a profile's law is finer.
    """
    laws = {1.0, design.variance_inflation}
    try:
        length = max(
            required_length(design.gamma, design.gamma_prime, design.alpha, power, c) for c in laws
        )
    except Infeasible:
        return None
    return min(length, design.n_tokens) if design.power >= power else length


def _warnings(design: Design, precision: float) -> tuple[str, ...]:
    """Say what a reader of the numbers must know."""
    notes = []
    if design.profile is not None:
        notes += _doubts(design, design.profile, precision)
    if design.size > design.alpha:
        notes.append(
            f"the z-test has exact size {design.size:.4f}, which exceeds alpha = {design.alpha:g}: "
            f"it accuses more often than promised."
        )
    if design.critical_count == design.n_tokens:
        notes.append(
            f"all {design.n_tokens} scored tokens must be green: one edited token can undo the "
            f"mark, and a shorter text cannot be detected at all. Plan with an edit rate if "
            f"texts may be edited or cut."
        )
    return tuple(notes)
