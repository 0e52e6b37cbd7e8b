"""``powermark curve``: a design, or the best one, as one quantity varies; table, JSON, picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import Infeasible, InvalidInput
from powermark.files import write_file
from powermark.interfaces.cli import options
from powermark.interfaces.cli.files import read_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from powermark.calibration.design import Design

EXAMPLES = """\
Examples:

  powermark curve --over kl --n-tokens 50 --alpha .05 --power .95 --plot tradeoff.svg

  powermark curve --over n-tokens --gamma .5 --delta 2 --alpha .01 --from 10 --to 100
"""

# where a quantity is looked at if --from and --to do not say; for kl: what these powers cost
_RANGES = {
    "n_tokens": (20.0, 500.0),
    "power": (0.1, 0.999),
    "kl": (0.1, 0.999),
    "delta": (0.25, 8.0),
    "gamma": (0.05, 0.95),
}
_COLUMNS = ("n_tokens", "gamma", "delta", "kl", "power", "size", "critical_count", "efficiency")


def curve_command(
    over: Annotated[str, typer.Option(help="What varies: n-tokens, kl, power, delta or gamma.")],
    start: Annotated[float | None, typer.Option("--from", help="First value.")] = None,
    stop: Annotated[float | None, typer.Option("--to", help="Last value.")] = None,
    points: Annotated[int, typer.Option(help="How many values.")] = 25,
    n_tokens: options.NTokens = None,
    alpha: options.Alpha = None,
    power: options.Power = None,
    kl: options.Kl = None,
    gamma: options.Gamma = None,
    delta: options.Delta = None,
    edit_rate: options.EditRate = None,
    survival: options.Survival = None,
    removal: options.Removal = None,
    attacked_power: options.AttackedPower = None,
    context_width: options.ContextWidth = options.CONTEXT_WIDTH,
    variance_inflation: options.VarianceInflation = 1.0,
    signal: options.Signal = "plug-in",
    vocab_size: options.VocabSize = None,
    concentration: options.Concentration = 1.0,
    mixture: options.Mixture = None,
    plan: options.PlanFile = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .svg, .png or .pdf.")] = None,
    as_json: options.Json = False,
) -> None:
    """Vary one quantity. With gamma and delta known: what they give; else the best design."""
    varied = over.replace("-", "_")
    if varied not in _RANGES:
        raise InvalidInput(f"--over must be n-tokens, kl, power, delta or gamma; got {over!r}.")
    if varied == "n_tokens" and n_tokens is not None:
        raise InvalidInput(
            "--over n-tokens varies it: leave --n-tokens out, or use --from and --to."
        )
    if points < 2:
        raise InvalidInput(f"--points must be at least 2; got {points}.")
    given: dict[str, Any] = {
        "n_tokens": n_tokens,
        "alpha": alpha,
        "power": power,
        "kl": kl,
        "gamma": gamma,
        "delta": delta,
    }
    if plan is not None:
        saved = read_plan(plan)
        for name in ("n_tokens", "alpha", "gamma", "delta"):
            given[name] = saved[name] if given[name] is None else given[name]
    shared = {
        "signal": options.signal_model(signal, vocab_size, concentration, mixture),
        "variance_inflation": variance_inflation,
    }
    edits = {
        "edit_rate": edit_rate,
        "survival": survival,
        "removal": removal,
        "context_width": context_width,
    }
    chosen = None
    if varied in ("kl", "power"):
        target, given["power"], given["kl"] = given["power"], None, None
        if target is not None:
            chosen = _plan(given | {"power": target}, shared | edits, attacked_power)
    known = {name for name in ("gamma", "delta") if given[name] is not None} | {varied}
    if known >= {"gamma", "delta"}:
        if power is not None or kl is not None or attacked_power is not None:
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
    curve = _walk(at, _values(varied, low, high, points))
    if plot is not None:
        _draw(curve, varied, chosen, plot)
    if as_json:
        rows = [design.to_dict() for design in curve]
        print(json.dumps({"over": varied, "points": rows}, indent=2, allow_nan=False))
    else:
        _print_table(curve)


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
    missing = sorted(
        f"--{name.replace('_', '-')}" for name, value in given.items() if value is None
    )
    if missing:
        raise InvalidInput(f"missing: {', '.join(missing)}.")


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


def _walk(at: Callable[[float], Design], values: list[float]) -> list[Design]:
    """Evaluate where a design exists; where none does, say so on stderr and go on."""
    curve, refused = [], None
    for value in values:
        try:
            curve.append(at(value))
        except Infeasible as error:
            refused = error
    if not curve and refused is not None:
        raise refused
    if refused is not None:
        left_out = f"{len(values) - len(curve)} of {len(values)} values left out"
        typer.echo(f"note: {left_out}: {refused}", err=True)
    return curve


def _draw(curve: list[Design], varied: str, chosen: Any, plot: Path) -> None:
    from powermark.evaluation.figures.canvas import render
    from powermark.evaluation.figures.tradeoff import draw_curve, draw_tradeoff

    tradeoff = varied in ("kl", "power")
    figure = draw_tradeoff(curve, chosen) if tradeoff else draw_curve(curve, varied)
    write_file(plot, render(figure, plot))


def _print_table(curve: list[Design]) -> None:
    names = [*_COLUMNS, *(["attacked_power"] if curve[0].attacked_power is not None else [])]
    rows = [[_cell(getattr(design, name)) for name in names] for design in curve]
    widths = [max(len(cell) for cell in column) for column in zip(names, *rows, strict=True)]
    for row in [names, *rows]:
        print("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)))
    print(curve[0].signature.split("|v:")[0] + "|...")


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"
