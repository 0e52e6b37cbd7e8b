"""``plan``: give all but one of length, level, power and distortion; get the best design."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from powermark.calibration import authors
from powermark.calibration.design import Design, edit_parts, evaluate, fields_of
from powermark.calibration.edits import CONTEXT_WIDTH, Edits
from powermark.calibration.notes import notes_on
from powermark.calibration.request import Answer, Method, Request
from powermark.calibration.signal import MAX_DELTA, PlugIn, SignalModel
from powermark.calibration.steered import beside_constant, solve_steered
from powermark.checks import count, in_interval, positive
from powermark.errors import Infeasible, InvalidInput
from powermark.signature import signature
from powermark.tables import table
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
    untouched text; None beyond ten million tokens, or beyond a steered plan's length. ``points``
    are the authors' designs, for their method only. A steered plan has its schedule in
    ``steering``, the largest bias as ``delta``, and in ``constant`` what the best constant bias
    would do; ``gamma_zero``, ``gamma_l`` and ``gamma_h`` are that constant bias's.
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
    steering: dict[str, Any] | None
    constant: dict[str, float] | None

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (name, value, remark) for people to read."""
        rows = Design.rows(self)
        if self.constant is not None:
            rows[1] = ("delta", f"{self.delta:.3f}", "largest bias; it follows the count")
            mine = getattr(self, self.solved_for)
            rows.append(beside_constant(self.solved_for, mine, self.constant))
        return rows

    def __str__(self) -> str:
        lengths = [f"{p}: {'-' if n is None else n}" for p, n in self.tokens_needed.items()]
        bounds = f"gamma_star {self.gamma_star:.4f}"
        bounds += "" if self.steering else f", gamma_zero {self.gamma_zero:.4f}"
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
    steer: bool = False,
    checkpoints: Sequence[int] = (),
    delta_cap: float = MAX_DELTA,
    kl_cap: float = inf,
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
    steer
        Let the bias follow the count (:mod:`powermark.calibration.steering`): the same detector,
        less KL.
    checkpoints
        For a steered plan: shorter lengths at which texts should be found as well.
    delta_cap, kl_cap
        For a steered plan: the largest bias, and the most KL of a step, in whatever state, on
        average over the signal's steps.

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
    found = _authors_plan(request) if method == "authors" else _report(request, request.solve())
    if not steer:
        return found
    shorter = tuple(sorted(int(c) for c in count("checkpoints", checkpoints)))
    cap = float(in_interval("delta_cap", delta_cap, 0.0, MAX_DELTA, closed="high"))
    kl_cap = float(in_interval("kl_cap", kl_cap, 0.0, inf, closed="high"))
    return _steer(request, found, shorter, cap, kl_cap)


def _steer(
    request: Request, plain: Plan, checkpoints: tuple[int, ...], cap: float, kl_cap: float
) -> Plan:
    """Turn the constant plan for a request into the steered one."""
    found = solve_steered(request, plain, checkpoints=checkpoints, cap=cap, kl_cap=kl_cap)
    steered = dataclasses.replace(
        plain,
        **found.fields(request, plain),
        tokens_needed={
            f"{power:g}": found.schedule.tokens_needed(found.alpha, power) for power in _TARGETS
        },
        signature=_signature(
            request,
            "plan|steered",
            plain.solved_for,
            cap=cap if cap != MAX_DELTA else None,
            kl_cap=kl_cap if kl_cap != inf else None,
            at=",".join(map(str, checkpoints)) or None,
        ),
    )
    warnings = (*notes_on(steered, request.precision), *found.notes(request, checkpoints))
    return dataclasses.replace(steered, warnings=warnings)


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
    asked = _asked(request)
    fields = fields_of(design)
    fields["signature"] = _signature(request, "plan", answer.solved_for)
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
        warnings=(*answer.notes, *notes_on(design, request.precision)),
        points=points,
        steering=None,
        constant=None,
    )


def _asked(request: Request) -> dict[str, float]:
    """Return what was given of the quantities a plan is about."""
    given = {name: getattr(request, name) for name in _SHORT}
    return {name: value for name, value in given.items() if value is not None}


def _signature(request: Request, kind: str, solved_for: str, **more: str | float | None) -> str:
    return signature(
        kind,
        **more,
        method=request.method,
        solve=solved_for,
        signal=request.signal.name,
        **{_SHORT[name]: value for name, value in _asked(request).items()},
        c=request.variance_inflation if request.variance_inflation != 1.0 else None,
        **edit_parts(request.edits),
    )


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
