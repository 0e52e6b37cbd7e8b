"""``powermark reproduce``: figures and tables, data first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import InvalidInput
from powermark.files import make_folder, write_file
from powermark.interfaces.cli import options
from powermark.interfaces.cli.files import csv_bytes

if TYPE_CHECKING:
    from powermark.evaluation.experiments.lab import Lab

EXAMPLES = """\
Examples:

  powermark reproduce fig-roots -o figures

  powermark reproduce table-prediction --data prompts/ --work work/ -o figures
"""
_BY_FORMULA = ("fig-roots", "fig-steering", "table-hypergeometric")
_BY_EXPERIMENT = ("table-prediction", "table-promise", "table-rivals", "table-steering")


def reproduce_command(
    target: Annotated[str, typer.Argument(help=", ".join((*_BY_FORMULA, *_BY_EXPERIMENT)) + ".")],
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder to write into.")] = Path(),
    data: Annotated[
        Path | None,
        typer.Option(help="For experiments: folder with c4.jsonl, lfqa.jsonl, wikipedia.jsonl."),
    ] = None,
    work: Annotated[
        Path, typer.Option(help="For experiments: folder for texts; what is there is used.")
    ] = Path("work"),
    model: options.Model = None,
    profile: options.ProfileFile = None,
) -> None:
    """Write the data of a figure or table as CSV, and the figure as SVG.

    Experiments take the better part of an hour on two cores. They go on where they stopped.
    """
    if target in _BY_FORMULA:
        files = _formula(target, profile)
    elif target in _BY_EXPERIMENT:
        files = {f"{target}.csv": csv_bytes(_experiment(target)(_lab(data, work, model)))}
    else:
        names = ", ".join((*_BY_FORMULA, *_BY_EXPERIMENT))
        raise InvalidInput(f"target must be one of {names}; got {target!r}.")
    for name, content in files.items():
        write_file(folder / name, content)
        print(folder / name)


def _formula(target: str, profile: Path | None) -> dict[str, bytes]:
    """Return the files of what follows from formulas, or from a profile."""
    if target == "table-hypergeometric":
        from powermark.evaluation.figures.hypergeometric import hypergeometric_table

        return {"table-hypergeometric.csv": csv_bytes(hypergeometric_table())}
    from powermark.evaluation.figures.canvas import render

    if target == "fig-steering":
        from powermark.calibration.profile_file import load_profile
        from powermark.evaluation.figures.steering import draw_steering, steering_curves

        rows = steering_curves(None if profile is None else load_profile(profile))
        figure = render(draw_steering(rows), Path("fig-steering.svg"))
        return {"fig-steering.csv": csv_bytes(rows), "fig-steering.svg": figure}
    from powermark.evaluation.figures.roots import draw_roots, panel_a, panel_b

    a, b = panel_a(), panel_b()
    return {
        "fig-roots-a.csv": csv_bytes(a),
        "fig-roots-b.csv": csv_bytes(b),
        "fig-roots.svg": render(draw_roots(a, b), Path("fig-roots.svg")),
    }


def _experiment(target: str) -> Callable[[Lab], list[dict[str, Any]]]:
    from powermark.evaluation.experiments.prediction import prediction_table
    from powermark.evaluation.experiments.promises import promise_table, rivals_table
    from powermark.evaluation.experiments.steering import steering_table

    tables = (prediction_table, promise_table, rivals_table, steering_table)
    return dict(zip(_BY_EXPERIMENT, tables, strict=True))[target]


def _lab(data: Path | None, work: Path, model: str | None) -> Lab:
    from powermark.evaluation.experiments.lab import Lab
    from powermark.models import load_model
    from powermark.watermark.keys import SecretKey

    if data is None:
        raise InvalidInput(
            "experiments need --data.",
            hint="a folder with c4.jsonl, lfqa.jsonl and wikipedia.jsonl; their objects have a "
            '"prompt", or a "text" to take the beginning of.',
        )
    make_folder(work)
    return Lab(
        load_model(options.named_model(model)),
        data,
        work,
        SecretKey(bytes(range(32))),  # published: these marks protect nothing
        say=lambda line: typer.echo(line, err=True),
    )
