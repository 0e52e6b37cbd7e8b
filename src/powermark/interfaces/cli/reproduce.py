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
from powermark.signature import signature

if TYPE_CHECKING:
    from powermark.evaluation.experiments.lab import Lab
    from powermark.evaluation.reproduction.study import Study
    from powermark.evaluation.reproduction.targets import Artefact

EXAMPLES = """\
Examples:

  powermark reproduce fig-roots -o figures

  powermark reproduce all --scale smoke -o figures

  powermark reproduce table-promise --data prompts/ --work work/ -o figures
"""
_FORMULAS = ("table-hypergeometric", "fig-roots", "fig-long-form")
_STUDIES = (
    "fig-qq",
    "fig-green-rate",
    "table-r2",
    "table-cells",
    "table-false-positives",
    "fig-pareto",
    "fig-gamma-zero",
    "fig-quality",
    "table-quality",
    "table-winmax-c",
    "fig-inflation",
)
_EXPERIMENTS = ("table-prediction", "table-promise", "table-rivals", "table-steering")
_NAMES = ("all", *_FORMULAS, *_STUDIES, "fig-steering", *_EXPERIMENTS)
_FETCHED = ("wikitext-2", "openwebtext")  # corpora where there is no folder of data


def reproduce_command(
    target: Annotated[str, typer.Argument(help=", ".join(_NAMES) + ".")],
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder to write into.")] = Path(),
    scale: Annotated[
        str, typer.Option(help="Of the paper's experiments: smoke (minutes), small (hours), full.")
    ] = "small",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with c4.jsonl, lfqa.jsonl, wikipedia.jsonl; without it the paper's "
            f"experiments take {' and '.join(_FETCHED)}."
        ),
    ] = None,
    corpora: Annotated[
        str | None, typer.Option(help="Files of the folder to use, comma-separated; all of them.")
    ] = None,
    work: Annotated[
        Path, typer.Option(help="For experiments: folder for texts; what is there is used.")
    ] = Path("work"),
    model: options.Model = None,
    profile: options.ProfileFile = None,
) -> None:
    """Write the data of a figure or table as CSV, and the figure as SVG; "all" adds a page.

    Experiments go on where they stopped.
    """
    if target not in _NAMES:
        raise InvalidInput(f"target must be one of {', '.join(_NAMES)}; got {target!r}.")
    make_folder(folder)
    if target in _EXPERIMENTS:
        rows = _experiment(target)(_lab(data, work, model, needs_data=True))
        files = {f"{target}.csv": csv_bytes(rows)}
    elif target == "fig-steering":
        files = _steering(profile)
    elif target in _FORMULAS:
        files = _files(target, _by_formula(target))
    else:
        files = _studied(target, scale, _study(scale, data, corpora, work, model))
    for name, content in files.items():
        write_file(folder / name, content)
        print(folder / name)


def _studied(target: str, scale: str, study: Study) -> dict[str, bytes]:
    """Return the files of one target, or of all with the page."""
    from powermark.evaluation.reproduction.targets import BY_STUDY

    if target != "all":
        return _files(target, BY_STUDY[target](study))
    from powermark.evaluation.reproduction.claims import claims
    from powermark.evaluation.reproduction.page import reproduction_page

    files: dict[str, bytes] = {}
    for name in _FORMULAS:
        files |= _files(name, _by_formula(name))
    for name in _STUDIES:
        typer.echo(name, err=True)
        files |= _files(name, BY_STUDY[name](study))
    about = {
        "model": f"{study.lab.model.name} ({study.lab.model.digest[:8]})",
        "corpora": ", ".join(study.corpora),
        "scale": f"{scale}: {study.scale.few} texts a cell of a search, {study.scale.many} a "
        "contender",
        "signature": signature("reproduction", scale=scale, model=study.lab.model.digest),
    }
    pictures = {name: content for name, content in files.items() if name.endswith(".svg")}
    page = reproduction_page(claims(study), pictures, about)
    return {**files, "reproduction.html": page.encode()}


def _files(name: str, found: Artefact) -> dict[str, bytes]:
    """Return a target's tables as CSV and its figure as SVG."""
    from powermark.evaluation.figures.canvas import render

    files = {f"{name}{part}.csv": csv_bytes(rows) for part, rows in found.tables.items()}
    if found.figure is not None:
        files[f"{name}.svg"] = render(found.figure, Path(f"{name}.svg"))
    return files


def _by_formula(target: str) -> Artefact:
    from powermark.evaluation.reproduction.targets import BY_FORMULA

    return BY_FORMULA[target](None)


def _steering(profile: Path | None) -> dict[str, bytes]:
    from powermark.calibration.profile_file import load_profile
    from powermark.evaluation.figures.steering import draw_steering, steering_curves
    from powermark.evaluation.reproduction.targets import Artefact

    rows = steering_curves(None if profile is None else load_profile(profile))
    return _files("fig-steering", Artefact({"": rows}, draw_steering(rows)))


def _experiment(target: str) -> Callable[[Lab], list[dict[str, Any]]]:
    from powermark.evaluation.experiments.prediction import prediction_table
    from powermark.evaluation.experiments.promises import promise_table, rivals_table
    from powermark.evaluation.experiments.steering import steering_table

    tables = (prediction_table, promise_table, rivals_table, steering_table)
    return dict(zip(_EXPERIMENTS, tables, strict=True))[target]


def _study(
    scale: str, data: Path | None, corpora: str | None, work: Path, model: str | None
) -> Study:
    from powermark.evaluation.reproduction.scales import scale_named
    from powermark.evaluation.reproduction.study import Study

    sizes = scale_named(scale)
    names = (_FETCHED if data is None else ("c4", "lfqa", "wikipedia"))[: sizes.corpora]
    chosen = names if corpora is None else tuple(corpora.split(","))
    return Study(_lab(data, work, model), sizes, chosen)


def _lab(data: Path | None, work: Path, model: str | None, *, needs_data: bool = False) -> Lab:
    from powermark.evaluation.experiments.lab import Lab
    from powermark.models import load_model
    from powermark.watermark.keys import SecretKey

    if data is None and needs_data:
        raise InvalidInput(
            "this experiment needs --data.",
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
