"""``plan``: give all but one of length, level, power and distortion; get the best design."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Self, get_args

from powermark import fields
from powermark.errors import Infeasible, InvalidInput
from powermark.fields import Check, check_fields
from powermark.planning import coverage as coverages
from powermark.planning import design as designs
from powermark.planning import for_evalue, for_windows, paper_method, solver
from powermark.planning.design import (
    Design,
    all_green_note,
    check_limit,
    edit_parts,
    evaluate,
    fields_of,
    notes_on,
)
from powermark.planning.lengths import Lengths
from powermark.planning.request import PRECISION, Answer, Detector, Method, Request, Steering
from powermark.planning.steered import beside_constant, kl_cap_for, solve_steered
from powermark.planning.steered_coverage import covered_fields, solve_steered_coverage
from powermark.signals.edits import Edits
from powermark.signals.signal import MAX_DELTA, SignalModel
from powermark.signature import signature
from powermark.tables import table
from powermark.theory.bounds import gamma_star, information_limit
from powermark.theory.distortion import gamma_roots, gamma_zero, kl_divergence, largest_kl
from powermark.theory.required_length import required_length

_TARGETS = (0.5, 0.8, 0.95, 0.99)
_SHORT = {
    "n_tokens": "n",
    "alpha": "a",
    "power": "pi",
    "kl": "kl",
    "gamma": "g",
    "delta": "d",
    "attacked_power": "pi_attacked",
    "coverage": "coverage",
}
_BOUNDS = {"gamma_star", "gamma_zero", "gamma_l", "gamma_h"}  # not in all plans of 0.1
_OF_WINDOWS = ("window_size", "window_power", "window_attacked_power")
_OF_COVERAGE = ("coverage", "attacked_coverage", "lengths", "power_by_length")
_OPTIONAL = ("draws", "bet", "least_tokens", *_OF_COVERAGE)  # left out of JSON where None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Design):
    """The design that answers a request, with the request and where the design lies.

    ``size``, ``power`` and ``attacked_power`` are those of ``detector``. ``solved_for`` names the
    quantity that was left out and ``asked`` holds what was given. ``gamma_l`` and ``gamma_h`` are
    the two green shares that cost this design's plug-in KL at its delta. ``tokens_needed`` maps a
    power to the first length at which the count reaches it on untouched text; None beyond ten
    million tokens, or beyond a steered plan's length. ``points`` are the authors' designs, for
    their method only.

    A steered plan has its schedule in ``steering``, the largest bias as ``delta``, and in
    ``constant`` the best constant bias and its numbers; ``gamma_zero``, ``gamma_l`` and ``gamma_h``
    are that constant bias's. ``kl_cap`` is the most that any of its steps can cost, in nats; None
    without a cap.

    The powers of a plan for windows are shares of ``draws`` simulated texts; its ``critical_count``
    is the count's. The powers of a plan for the e-value are those of rejecting within ``n_tokens``:
    ``critical_count`` greens are enough after all of them, and fewer may be after fewer tokens.
    ``least_tokens``, all green, are the shortest text that it finds, and ``bet`` is the green rate
    that it bets on.

    ``coverage`` is the share of answers that is found, each at its own length, and
    ``attacked_coverage`` that after edits. ``lengths`` are the mean and quantiles of the tokens
    that count in answers, and ``power_by_length`` has the power at some lengths, after edits if
    there are any. A plan for a coverage has the median length as ``n_tokens``; a steered one, the
    horizon of its schedule.
    """

    method: Method = "exact"
    solved_for: str = "kl"
    asked: dict[str, float] = field(default_factory=dict)
    gamma_star: float
    gamma_zero: float
    gamma_l: float
    gamma_h: float
    tokens_needed: dict[str, int | None] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    points: tuple[Design, ...] = ()
    steering: dict[str, Any] | None = None
    constant: dict[str, float] | None = None
    kl_cap: float | None = None
    detector: Detector = "count"
    draws: int | None = None
    bet: float | None = None
    least_tokens: int | None = None
    coverage: float | None = None
    attacked_coverage: float | None = None
    lengths: dict[str, float] | None = None
    power_by_length: dict[str, float] | None = None

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], steering: dict[str, Any] | None = None) -> Self:
        """Read a plan as specs hold it, of this version or an older one.

        A spec has ``steering`` in a field of its own, and no ``points``.
        """
        check_fields(found, FIELDS, "design.")
        known = {name: found[name] for name in FIELDS if name in found}
        if known.keys() & {*_OF_WINDOWS}:  # until 0.1 the names without "window_" were the count's
            known = _of_windows(known)
        if missing := [name for name in _REQUIRED if name not in known]:
            raise InvalidInput(
                f"design has no {missing[0]}.", hint="make the plan anew with `powermark plan`."
            )
        edited = any(known[name] is not None for name in ("edit_rate", "survival", "removal"))
        if edited and known["attacked_power"] is None:
            raise InvalidInput("design is for edits, and has no attacked_power.")
        if known.get("bet") is not None:
            fields.number(known["gamma"], 1.0, closed="neither")("design.bet", known["bet"])
        if known.get("detector", "count") == "evalue" and known.get("bet") is None:
            raise InvalidInput("design is for the e-value, and has no bet.")
        if not known.keys() >= _BOUNDS:
            bounds = _place(known["gamma"], known["delta"], known["n_tokens"], known["alpha"])
            known = bounds | known
        known["warnings"] = tuple(known.get("warnings", ()))
        return cls(**known, steering=steering)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints and the web answers with."""
        found = dataclasses.asdict(self)
        return {k: v for k, v in found.items() if v is not None or k not in _OPTIONAL}

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (name, value, remark) for people to read."""
        rows = {row[0]: row for row in Design.rows(self)}
        if self.constant is not None:
            most = f"a step costs at most {float(largest_kl(self.delta)):.2f} nats"
            remark = f"largest bias; it follows the count, {most}"
            rows["delta"] = ("delta", f"{self.delta:.3f}", remark)
            mine = getattr(self, self.solved_for)
            rows["constant"] = beside_constant(self.solved_for, mine, self.constant)
        if self.coverage is not None:
            said = "of all answers are found, each at its own length"
            rows["coverage"] = ("coverage", f"{self.coverage:.4f}", said)
        if self.attacked_coverage is not None:
            said = f"{self.attacked_coverage:.4f}"
            rows["attacked_coverage"] = ("attacked_coverage", said, "of all answers, after edits")
        if self.detector == "count":
            return [*rows.values()]
        n, rate = self.n_tokens, rows.pop("gamma_prime")
        exact, remarks = "exact; ", {"critical_count": f"green of {n} scored tokens are enough"}
        remarks["power"] = f"of the e-value within {n} tokens"
        if self.draws is not None:
            del rows["critical_count"]
            exact, remarks = "", {"attacked_power": f"with a share of {self.removal:g} replaced"}
            remarks["power"] = f"of {self.detector}, {self.draws:,} texts simulated"
        else:
            found = "all green: the shortest text that is found"
            rows["least_tokens"] = ("least_tokens", f"{self.least_tokens}", found)
            rows["bet"] = ("bet", f"{self.bet:.4f}", "green rate that the evidence bets on")
        remarks["size"] = f"{exact}at most alpha = {self.alpha:g}"
        changed = [(name, value, remarks.get(name, said)) for name, value, said in rows.values()]
        return [*changed, rate]

    def __str__(self) -> str:
        rows = self.rows()
        if self.detector == "count":
            lengths = [f"{p}: {'-' if n is None else n}" for p, n in self.tokens_needed.items()]
            bounds = f"gamma_star {self.gamma_star:.4f}"
            bounds += "" if self.steering else f", gamma_zero {self.gamma_zero:.4f}"
            rows.append(("tokens_needed", "", "untouched, for power " + "  ".join(lengths)))
            rows.append(("bounds", "", bounds))
            if self.power_by_length is not None:
                powers = "  ".join(f"{n}: {p:.2f}" for n, p in self.power_by_length.items())
                rows.append(("power_by_length", "", f"by tokens that count  {powers}"))
        points = [
            f"weaker point: gamma {point.gamma:.4f}, delta {point.delta:.3f}, kl {point.kl:.4f}, "
            f"power {point.power:.4f}, size {point.size:.3g}"
            for point in self.points[1:]
        ]
        notes = [f"note: {warning}" for warning in self.warnings]
        title = f"{self.method} plan"
        if self.detector != "count":
            title = f"plan for {'the e-value' if self.detector == 'evalue' else self.detector}"
        title += f", solved for {self.solved_for}"
        return "\n".join([title, table(rows), *points, *notes, self.signature])


def _of_windows(found: dict[str, Any]) -> dict[str, Any]:
    """Return a plan for windows of 0.1 with the detector's numbers under the plain names."""
    names = [name.removeprefix("window_") for name in _OF_WINDOWS]
    errors = dict(found.get("standard_errors") or {})
    errors |= {name: errors.pop(f"window_{name}") for name in names if f"window_{name}" in errors}
    renamed = {name: found[f"window_{name}"] for name in names if f"window_{name}" in found}
    kept = {name: value for name, value in found.items() if not name.startswith("window_")}
    return kept | renamed | {"normal_power": None, "standard_errors": errors or None}


def plan(
    *,
    n_tokens: int | None = None,
    alpha: float | None = None,
    power: float | None = None,
    kl: float | None = None,
    detector: Detector = "count",
    method: Method = "exact",
    signal: SignalModel | None = None,
    gamma: float | None = None,
    delta: float | None = None,
    edits: Edits | None = None,
    edit_rate: float | None = None,
    survival: float | None = None,
    removal: float | None = None,
    context_width: int | None = None,
    attacked_power: float | None = None,
    variance_inflation: float = 1.0,
    precision: float = PRECISION,
    steer: Steering | bool = False,
    checkpoints: Sequence[int] = (),
    delta_cap: float | None = None,
    kl_cap: float | None = None,
    coverage: float | None = None,
    lengths: Lengths | Sequence[int] | None = None,
) -> Plan:
    """Solve for the one of ``n_tokens, alpha, power, kl`` that is left out, with the best design.

    Without ``kl``: the least KL that reaches ``power`` (the paper's dual form). Without ``power``:
    the most power for a KL budget (its primal form, Eq. 2). Without ``n_tokens`` or ``alpha``: the
    shortest text or the strictest level for that power and budget. With ``coverage`` in place of
    ``n_tokens`` and ``power``: the least KL that finds this share of answers of any length.

    Parameters
    ----------
    n_tokens
        Tokens scored by the detector; up to 400 for windows, 2,000 for the e-value or with
        ``steer``.
    alpha
        Level; the size of an exact plan never exceeds it.
    power
        Power on untouched text; on edited text too where edits are given without
        ``attacked_power``.
    kl
        Budget of KL(watermarked || original), nats per token.
    detector
        The test that the plan is for. ``"count"``: the number of green tokens. ``"winmax-c"`` or
        ``"winmax"``: the text without its least green block, or its greenest window; these need
        ``n_tokens``, ``alpha``, ``power`` and ``removal``. ``"evalue"``: evidence that may be
        looked at after every token; a marked text is found within ``n_tokens``.
    method
        ``"exact"``; ``"paper"`` for Eq. (1) searched down from gamma_star; ``"authors"`` for their
        published grid, which needs ``n_tokens`` and ``alpha`` alone.
    signal
        What the mark does on your model; the plug-in by default.
    gamma, delta
        Fix one of them.
    edits
        What happens to texts before they are tested.
    edit_rate, survival, removal, context_width
        Shorthands for the fields of :class:`~powermark.Edits`; one of the rates at most.
    attacked_power
        Power to keep on edited text.
    variance_inflation
        Overdispersion c of green counts.
    precision
        How far a profile may leave the power uncertain (95 %) before the plan warns of it.
    steer
        Let the bias follow the count (:mod:`powermark.steering.recursion`): the same detector,
        less KL. True, or :class:`~powermark.Steering` with options.
    checkpoints, delta_cap, kl_cap
        Shorthands for the fields of :class:`~powermark.Steering`, with ``steer=True``.
    coverage
        Share of all answers to find, each at its own length; after edits too, if there are any.
    lengths
        How long answers are: :class:`~powermark.Lengths`, or the scored tokens of some answers;
        with a profile, those of its texts if left out. A plan for one length then says its
        coverage.

    Examples
    --------
    >>> best = plan(n_tokens=50, alpha=0.05, power=0.95)
    >>> best.critical_count, round(best.gamma, 4), round(best.delta, 2), round(best.kl, 4)
    (50, 0.9418, 4.1, 0.0547)

    A fifth of each text may be replaced; WinMax-C needs less KL for it than the count's 0.17:

    >>> found = plan(n_tokens=50, alpha=0.05, power=0.95, removal=0.2, detector="winmax-c")
    >>> round(found.gamma, 2), round(found.kl, 2)
    (0.88, 0.12)
    """
    return plan_for(
        Request.of(
            n_tokens=n_tokens,
            alpha=alpha,
            power=power,
            kl=kl,
            detector=detector,
            method=method,
            signal=signal,
            gamma=gamma,
            delta=delta,
            edits=edits,
            edit_rate=edit_rate,
            survival=survival,
            removal=removal,
            context_width=context_width,
            attacked_power=attacked_power,
            variance_inflation=variance_inflation,
            precision=precision,
            steer=steer,
            checkpoints=checkpoints,
            delta_cap=delta_cap,
            kl_cap=kl_cap,
            coverage=coverage,
            lengths=lengths,
        )
    )


def plan_for(request: Request) -> Plan:
    """Return the plan for a request."""
    answer = _answer(request)
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
    found = Plan(
        **fields_of(design) | {"signature": _signature(request, "plan")},
        **_place(design.gamma, design.delta, design.n_tokens, design.alpha),
        method=request.method,
        detector=request.detector,
        solved_for=request.solved_for,
        asked=request.asked,
        points=tuple(_point(request, design, *pair) for pair in answer.points),
    )
    if request.detector == "evalue":
        found = _changed(found, for_evalue.evalue_fields(request, design))
    elif request.detector != "count":
        found = _changed(found, for_windows.window_fields(request, design))
    elif request.steer is not None:
        return _steer(request, found, request.steer)
    else:
        needed = {f"{power:g}": _tokens(design, power) for power in _TARGETS}
        found = dataclasses.replace(found, tokens_needed=needed)
        if request.coverage is not None or request.lengths is not None:
            covered = coverages.coverage_fields(request, design)
            found = _limited(dataclasses.replace(found, **covered))
    return dataclasses.replace(found, warnings=(*answer.notes, *_notes(found, request)))


def _answer(request: Request) -> Answer:
    """Solve a request, by the solver of its method and detector."""
    if request.method == "authors":
        return paper_method.solve_authors(request)
    if request.method == "paper":
        return paper_method.solve_paper(request)
    if request.detector == "evalue":
        return for_evalue.solve(request)
    if request.coverage is not None:
        return coverages.solve_coverage(request)
    if request.detector == "count":
        return solver.solve(request)
    return for_windows.solve(request)


def _changed(found: Plan, numbers: dict[str, Any]) -> Plan:
    """Return a plan with the numbers of another detector or of a steered bias."""
    return _limited(dataclasses.replace(found, **numbers, normal_power=None))


def _limited(found: Plan) -> Plan:
    """Return a plan with the information limit of its promise: for one length, or for answers.

    A mark that finds a share of all answers spends on an answer, on average, what the limit says of
    that share; the limit per token is that by the mean number of tokens.
    """
    tokens, power = float(found.n_tokens), found.power
    if "coverage" in found.asked and found.lengths is not None:
        tokens, power = found.lengths["mean"], found.coverage or 0.0
    limit = float(information_limit(1, found.alpha, power)) / tokens
    check_limit(limit, found.kl)
    return dataclasses.replace(found, information_limit=limit, efficiency=limit / found.kl)


def _steer(request: Request, constant: Plan, options: Steering) -> Plan:
    """Turn the constant plan for a request into the steered one."""
    kl_cap = kl_cap_for(request, constant) if options.kl_cap is None else options.kl_cap
    solve = solve_steered if request.coverage is None else solve_steered_coverage
    found = solve(request, constant, options, kl_cap)
    needed, numbers = found.schedule.tokens_needed, found.fields(request, constant)
    if request.lengths is not None and request.coverage is None:
        numbers |= covered_fields(request, found.schedule, found.alpha)
    steered = dataclasses.replace(
        _changed(constant, numbers),
        kl_cap=kl_cap if kl_cap < inf else None,
        tokens_needed={f"{power:g}": needed(found.alpha, power) for power in _TARGETS},
        signature=_signature(
            request,
            "plan|steered",
            cap=options.delta_cap if options.delta_cap != MAX_DELTA else None,
            kl_cap=kl_cap,
            at=",".join(map(str, options.checkpoints)) or None,
        ),
    )
    warnings = (*_notes(steered, request), *found.notes(request, options.checkpoints))
    return dataclasses.replace(steered, warnings=warnings)


def _point(request: Request, design: Design, gamma: float, delta: float) -> Design:
    """Evaluate one of the authors' points."""
    return evaluate(
        gamma,
        delta,
        n_tokens=design.n_tokens,
        alpha=design.alpha,
        test="z",
        variance_inflation=request.variance_inflation,
    )


def _place(gamma: float, delta: float, n_tokens: int, alpha: float) -> dict[str, Any]:
    """Return where a design lies among the paper's bounds."""
    low, high = gamma_roots(delta, kl_divergence(gamma, delta))
    return {
        "gamma_star": float(gamma_star(n_tokens, alpha)),
        "gamma_zero": float(gamma_zero(delta)),
        "gamma_l": float(low),
        "gamma_h": float(high),
    }


def _notes(found: Plan, request: Request) -> tuple[str, ...]:
    """Return warnings; windows can leave red tokens out."""
    notes = notes_on(found, request.precision)
    return notes if found.draws is not None else (*notes, *all_green_note(found))


def _signature(request: Request, kind: str, **more: str | float | None) -> str:
    return signature(
        kind,
        **more,
        detector=request.detector if request.detector != "count" else None,
        method=request.method,
        solve=request.solved_for,
        signal=request.signal.name,
        **{_SHORT[name]: value for name, value in request.asked.items()},
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


FIELDS: dict[str, Check] = {
    **designs.FIELDS,
    **dict.fromkeys(("gamma_star", "gamma_zero", "gamma_l", "gamma_h"), fields.share),
    **dict.fromkeys(_OF_WINDOWS, fields.share),
    **dict.fromkeys(("draws", "least_tokens"), fields.or_none(fields.count)),
    "method": fields.one_of(*get_args(Method)),
    "solved_for": fields.text,
    "asked": fields.object_of(fields.not_negative),
    "tokens_needed": fields.object_of(fields.or_none(fields.count)),
    "warnings": fields.list_of(fields.text),
    "constant": fields.or_none(fields.object_of(fields.not_negative)),
    "kl_cap": fields.or_none(fields.positive),
    "detector": fields.one_of(*get_args(Detector)),
    "bet": fields.or_none(fields.open_unit),
    **dict.fromkeys(("coverage", "attacked_coverage"), fields.or_none(fields.share)),
    "lengths": fields.or_none(fields.object_of(fields.not_negative)),
    "power_by_length": fields.or_none(fields.shares),
}
_LATER = ("spread",)  # fields of a design that 0.1 did not write
_REQUIRED = [name for name in designs.FIELDS if name not in _LATER]
