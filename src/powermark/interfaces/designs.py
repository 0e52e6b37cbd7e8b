"""Designs as every interface asks for them: one function for the command line and the server.

Messages name a quantity as the command line's option; the server writes them its own way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from powermark.errors import Infeasible, InvalidInput, SpecMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from powermark.calibration.design import Design
    from powermark.calibration.plan import Plan
    from powermark.calibration.signal import SignalModel

# where a quantity is looked at if nobody says; for kl: what these powers cost
_RANGES = {
    "n_tokens": (20.0, 500.0),
    "power": (0.1, 0.999),
    "kl": (0.1, 0.999),
    "delta": (0.25, 8.0),
    "gamma": (0.05, 0.95),
}


class Curve(NamedTuple):
    """Designs as one quantity varies, the one that was chosen, and what was left out."""

    over: str
    designs: list[Design]
    chosen: Plan | None
    note: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints and the web answers with."""
        return {"over": self.over, "points": [design.to_dict() for design in self.designs]}


def signal_model(
    signal: str,
    vocab_size: int | None,
    concentration: float,
    mixture: str | None,
    profile: SignalModel | None = None,
) -> SignalModel:
    """Return the signal model that is meant by these."""
    from powermark.calibration.priors import BetaMixture, Dirichlet
    from powermark.calibration.signal import PlugIn

    if profile is not None and signal != "plug-in":
        raise InvalidInput("give either --profile or --signal.")
    sized = vocab_size is not None or concentration != 1.0
    if (sized and signal != "dirichlet") or (mixture is not None and signal != "mixture"):
        raise InvalidInput(
            "--vocab-size and --concentration need --signal dirichlet, "
            "--mixture needs --signal mixture."
        )
    if profile is not None:
        return profile
    if signal == "plug-in":
        return PlugIn()
    if signal == "dirichlet":
        if vocab_size is None:
            raise InvalidInput("--signal dirichlet needs --vocab-size.")
        return Dirichlet(vocab_size, concentration)
    if signal != "mixture":
        raise InvalidInput(f"--signal must be plug-in, dirichlet or mixture; got {signal!r}.")
    try:
        parts = [tuple(float(x) for x in part.split(":")) for part in (mixture or "").split(",")]
        weights, concentrations = zip(*parts, strict=True)
    except ValueError:
        raise InvalidInput(
            "--mixture must be WEIGHT:CONCENTRATION,... in numbers.",
            hint="for example --signal mixture --mixture .3:1,.7:90",
        ) from None
    return BetaMixture(weights, concentrations)


def steering_of(
    steer: bool,
    *,
    checkpoints: Sequence[int] | None,
    delta_cap: float | None,
    kl_cap: float | None,
    precision: float | None,
) -> dict[str, Any]:
    """Return what a plan is told beside its quantities; what nobody asked for is left out."""
    if not steer and (checkpoints or delta_cap is not None or kl_cap is not None):
        raise InvalidInput("--checkpoint, --delta-cap and --kl-cap are for --steer.")
    more = {"checkpoints": checkpoints, "delta_cap": delta_cap, "kl_cap": kl_cap}
    asked = {k: v for k, v in (more | {"precision": precision}).items() if v is not None}
    return asked | ({"steer": True} if steer else {})


def check_profile(
    signal: SignalModel, vocab_size: int | None, digest: str | None, model: str | None = None
) -> None:
    """Refuse a profile of another model or tokenizer than the spec's."""
    about = signal.origin
    if model is not None and about.get("model", model) != model:
        raise SpecMismatch(
            f"the profile is of {about['model']!r}; the spec would be for {model!r}.",
            hint="record a profile of the model that the spec is for.",
        )
    theirs = about.get("tokenizer_digest", digest)
    other_size = about.get("vocab_size", vocab_size) != vocab_size
    if other_size or (digest is not None and theirs != digest):
        raise SpecMismatch(
            f"the profile is of {about.get('model')!r}, whose tokenizer is not the spec's.",
            hint="record a profile of the model that the spec is for.",
        )


def plan_for(detector: str, request: dict[str, Any], signal: SignalModel) -> Design:
    """Return the plan for a request by a detector: the count, or one that looks at windows."""
    from powermark.calibration.plan import plan

    if detector == "count":
        return plan(**request, signal=signal)
    from powermark.detection.window_plan import plan_for_windows
    from powermark.detection.windows import Kind

    if detector not in get_args(Kind):
        windows = " or ".join(get_args(Kind))
        raise InvalidInput(f"--detector must be count, {windows}; got {detector!r}.")
    needed = ("n_tokens", "alpha", "power", "removal")
    taken = {*needed, "attacked_power", "context_width"}
    usual = {"method": "exact", "variance_inflation": 1.0}
    more = [k for k, v in request.items() if k not in taken and v not in (None, usual.get(k))]
    more = [name.removesuffix("s") if name == "checkpoints" else name for name in more]
    if more:
        raise InvalidInput(
            f"--detector {detector} takes no {_options(more)}.",
            hint="a plan for windows chooses a constant gamma and delta for a power.",
        )
    _require({name: request[name] for name in needed})
    asked = {name: request[name] for name in taken} | {"detector": detector}
    return plan_for_windows(**asked, signal=signal)


def curve_of(
    over: str,
    *,
    start: float | None,
    stop: float | None,
    points: int,
    given: dict[str, Any],
    signal: SignalModel,
    variance_inflation: float,
    edits: dict[str, Any],
    attacked_power: float | None,
) -> Curve:
    """Vary one quantity. With gamma and delta known: what they give; else the best design.

    Parameters
    ----------
    over
        ``n-tokens``, ``kl``, ``power``, ``delta`` or ``gamma``.
    start, stop, points
        Which values of it; a usual range where None.
    given
        ``n_tokens``, ``alpha``, ``power``, ``kl``, ``gamma``, ``delta``; None where free.
    edits
        The fields of :class:`~powermark.calibration.edits.Edits`.
    """
    varied = over.replace("-", "_")
    if varied not in _RANGES:
        raise InvalidInput(f"--over must be n-tokens, kl, power, delta or gamma; got {over!r}.")
    if varied != "power" and given[varied] is not None:
        raise InvalidInput(
            f"--over {_options([varied])[2:]} varies it: leave {_options([varied])} out, or use "
            f"--from and --to."
        )
    if varied == "power" and given["kl"] is not None:
        raise InvalidInput("--over power finds the KL of each: leave --kl out.")
    if points < 2:
        raise InvalidInput(f"--points must be at least 2; got {points}.")
    shared = {"signal": signal, "variance_inflation": variance_inflation}
    known = {name for name in ("gamma", "delta") if given[name] is not None} | {varied}
    decided = [given["power"], given["kl"], attacked_power]
    chosen = None
    if varied in ("kl", "power"):
        target, given = given["power"], given | {"power": None, "kl": None}
        if target is not None:
            chosen = _plan(given | {"power": target}, shared | edits, attacked_power)
    if known >= {"gamma", "delta"}:
        if any(value is not None for value in decided):
            raise InvalidInput(
                "with gamma and delta both known there is nothing left for --power, --kl or "
                "--attacked-power to choose."
            )
        at = _forward(given, varied, shared, edits)
    else:
        at = _best(given, varied, shared | edits, attacked_power)
    low, high = _RANGES[varied]
    if varied == "kl" and (start is None or stop is None):
        low, high = (_plan(given | {"power": p}, shared | edits, None).kl for p in (low, high))
    low, high = low if start is None else start, high if stop is None else stop
    designs, note = _walk(at, _values(varied, low, high, points))
    return Curve(varied, designs, chosen, note)


def _forward(
    given: dict[str, Any], varied: str, shared: dict[str, Any], edits: dict[str, Any]
) -> Callable[[float], Design]:
    from powermark.calibration.design import evaluate
    from powermark.calibration.edits import Edits

    needed = {"gamma", "delta", "n_tokens", "alpha"}
    _require({name: given[name] for name in needed - {varied}})
    if varied not in needed:
        raise InvalidInput(
            f"--over {varied} needs gamma or delta free; both were given.",
            hint="leave one out, or vary n-tokens.",
        )

    def at(value: float) -> Design:
        now = {name: given[name] for name in needed} | {varied: value}
        return evaluate(now.pop("gamma"), now.pop("delta"), edits=Edits(**edits), **now, **shared)

    return at


def _best(
    given: dict[str, Any], varied: str, shared: dict[str, Any], attacked_power: float | None
) -> Callable[[float], Design]:
    _require({name: given[name] for name in {"n_tokens", "alpha"} - {varied}})
    if varied in ("n_tokens", "gamma", "delta") and given["power"] is None and given["kl"] is None:
        raise InvalidInput(
            f"--over {varied.replace('_', '-')} needs --power or --kl, or both --gamma and --delta."
        )
    return lambda value: _plan(given | {varied: value}, shared, attacked_power)


def _plan(given: dict[str, Any], shared: dict[str, Any], attacked_power: float | None) -> Any:
    from powermark.calibration.plan import plan

    return plan(**given, **shared, attacked_power=attacked_power)


def _require(given: dict[str, Any]) -> None:
    missing = sorted(name for name, value in given.items() if value is None)
    if missing:
        raise InvalidInput(f"missing: {_options(missing)}.")


def _options(names: Sequence[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def _values(varied: str, low: float, high: float, points: int) -> list[float]:
    """Return the values to look at; whole numbers for n_tokens."""
    import numpy as np

    if not 0.0 < low < high < np.inf:
        raise InvalidInput(f"--from must be above 0 and below --to; got {low:g} and {high:g}.")
    geometric = varied in ("n_tokens", "kl")
    values = np.geomspace(low, high, points) if geometric else np.linspace(low, high, points)
    if varied == "n_tokens":
        values = np.unique(np.round(values))
    return [int(v) if varied == "n_tokens" else float(v) for v in values]


def _walk(at: Callable[[float], Design], values: list[float]) -> tuple[list[Design], str | None]:
    """Evaluate where a design exists; where none does, say so and go on."""
    curve, refused = [], None
    for value in values:
        try:
            curve.append(at(value))
        except Infeasible as error:
            refused = error
    if not curve and refused is not None:
        raise refused
    if refused is None:
        return curve, None
    return curve, f"{len(values) - len(curve)} of {len(values)} values left out: {refused}"
