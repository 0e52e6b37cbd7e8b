"""``powermark reproduce``: figures and tables, data first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    for name, content in _made(target, scale, data, corpora, work, model, profile):
        write_file(folder / name, content)
        print(folder / name)


def _made(
    target: str,
    scale: str,
    data: Path | None,
    corpora: str | None,
    work: Path,
    model: str | None,
    profile: Path | None,
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file of a target, as soon as it is there."""
    if target in _EXPERIMENTS:
        rows = _experiment(target)(_lab(data, work, model, needs_data=True))
        yield f"{target}.csv", csv_bytes(rows)
    elif target == "fig-steering":
        yield from _steering(profile)
    elif target in _FORMULAS:
        yield from _files(target, _by_formula(target))
    else:
        study = _study(scale, data, corpora, work, model)
        if target != "all":
            yield from _studied(target, study)
        else:
            study.check()
            yield from _all(scale, study)


def _studied(target: str, study: Study) -> Iterator[tuple[str, bytes]]:
    from powermark.evaluation.reproduction.targets import BY_STUDY

    return _files(target, BY_STUDY[target](study))


def _all(scale: str, study: Study) -> Iterator[tuple[str, bytes]]:
    """Yield the files of every target of the paper, and the page with all of them."""
    from powermark.evaluation.reproduction.claims import claims
    from powermark.evaluation.reproduction.page import reproduction_page

    pictures: dict[str, bytes] = {}
    for target in (*_FORMULAS, *_STUDIES):
        typer.echo(target, err=True)
        files = (
            _files(target, _by_formula(target)) if target in _FORMULAS else _studied(target, study)
        )
        for name, content in files:
            yield name, content
            if name.endswith(".svg"):
                pictures[name] = content
    corpora, seed = ",".join(study.corpora), study.lab.seed
    about = {
        "model": f"{study.lab.model.name} ({study.lab.model.digest[:8]})",
        "corpora": ", ".join(study.corpora),
        "scale": f"{scale}: {study.scale.few} texts a cell of a search, {study.scale.many} a "
        f"plan, {study.scale.final} a finalist",
        "signature": signature(
            "reproduction", scale=scale, model=study.lab.model.digest, corpora=corpora, seed=seed
        ),
    }
    yield "reproduction.html", reproduction_page(claims(study), pictures, about).encode()


def _files(name: str, found: Artefact) -> Iterator[tuple[str, bytes]]:
    """Yield a target's tables as CSV and its figure as SVG."""
    from powermark.evaluation.figures.canvas import render

    for part, rows in found.tables.items():
        yield f"{name}{part}.csv", csv_bytes(rows)
    if found.figure is not None:
        yield f"{name}.svg", render(found.figure, Path(f"{name}.svg"))


def _by_formula(target: str) -> Artefact:
    from powermark.evaluation.reproduction.targets import BY_FORMULA

    return BY_FORMULA[target](None)


def _steering(profile: Path | None) -> Iterator[tuple[str, bytes]]:
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
