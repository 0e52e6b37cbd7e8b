"""``powermark curve``: a design, or the best one, as one quantity varies; table, JSON, picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.files import write_file
from powermark.interfaces.cli import options
from powermark.interfaces.cli.files import read_plan
from powermark.tables import table

if TYPE_CHECKING:
    from powermark.planning.curve import Curve
    from powermark.planning.design import Design

EXAMPLES = """\
Examples:

  powermark curve --over kl --n-tokens 50 --alpha .05 --power .95 --plot tradeoff.svg

  powermark curve --over n-tokens --gamma .5 --delta 2 --alpha .01 --from 10 --to 100
"""

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
    topics: options.Topics = None,
    profile: options.ProfileFile = None,
    like: options.Like = None,
    entropy: options.Entropy = None,
    plan: options.PlanFile = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .svg, .png or .pdf.")] = None,
    as_json: options.Json = False,
) -> None:
    """Vary one quantity. With gamma and delta known: what they give; else the best design."""
    from powermark.planning.curve import CurveRequest
    from powermark.signals.edits import Edits

    over = over.replace("-", "_")
    given: dict[str, Any] = {"n_tokens": n_tokens, "alpha": alpha, "gamma": gamma, "delta": delta}
    if plan is not None:
        saved = read_plan(plan)
        for name in given.keys() - {over}:
            given[name] = saved[name] if given[name] is None else given[name]
    found = CurveRequest(
        over=over,
        start=start,
        stop=stop,
        points=points,
        **given,
        power=power,
        kl=kl,
        signal=options.signal_model(
            signal,
            profile=profile,
            vocab_size=vocab_size,
            concentration=concentration,
            mixture=mixture,
            topics=topics,
            like=like,
            entropy=entropy,
        ),
        edits=Edits(
            edit_rate=edit_rate, survival=survival, removal=removal, context_width=context_width
        ),
        attacked_power=attacked_power,
        variance_inflation=variance_inflation,
    ).curve()
    if found.note is not None:
        typer.echo(f"note: {found.note}", err=True)
    if plot is not None:
        _draw(found, plot)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2, allow_nan=False))
    else:
        _print_table(found.designs)


def _draw(curve: Curve, plot: Path) -> None:
    from powermark.plotting.canvas import render
    from powermark.plotting.tradeoff import draw_curve, draw_tradeoff

    if curve.over in ("kl", "power"):
        figure = draw_tradeoff(curve.designs, curve.chosen)
    else:
        figure = draw_curve(curve.designs, curve.over)
    write_file(plot, render(figure, plot))


def _print_table(curve: list[Design]) -> None:
    names = [*_COLUMNS, *(["attacked_power"] if curve[0].attacked_power is not None else [])]
    rows = [[_cell(getattr(design, name)) for name in names] for design in curve]
    print(table([names, *rows], ">"))
    print(curve[0].signature.split("|v:")[0] + "|...")


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"
