"""``powermark reproduce``: the figures and tables of the paper, and of our experiments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from powermark.errors import InvalidInput
from powermark.files import make_folder, write_file
from powermark.interfaces.cli import options
from powermark.interfaces.cli.files import csv_bytes
from powermark.signature import signature

if TYPE_CHECKING:
    from powermark.paper.report import Artefact
    from powermark.paper.study import Study
    from powermark.paper.workspace import Workspace

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
_EXPERIMENTS = (
    "table-prediction",
    "table-promise",
    "table-rivals",
    "table-steering",
    "table-steered-lengths",
)
_NAMES = ("all", *_FORMULAS, *_STUDIES, "records", "fig-steering", *_EXPERIMENTS)
_FETCHED = ("wikitext-2", "openwebtext")  # corpora if no folder of data is given


class Place(NamedTuple):
    """Options of experiments: data, model, folder, engine."""

    data: Path | None
    work: Path
    model: str | None
    engine: str
    workers: int | None
    address: str | None


def reproduce_command(
    target: Annotated[str, typer.Argument(help=", ".join(_NAMES) + ".")],
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder to write into.")] = Path(),
    scale: Annotated[
        str,
        typer.Option(help="Size of the paper's experiments: smoke (minutes), small (hours), full."),
    ] = "small",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with c4.jsonl, lfqa.jsonl, wikipedia.jsonl; without it the paper's "
            f"experiments use {' and '.join(_FETCHED)}."
        ),
    ] = None,
    corpora: Annotated[
        str | None, typer.Option(help="Files of the folder to use, comma-separated. Default: all.")
    ] = None,
    work: Annotated[
        Path, typer.Option(help="For experiments: folder of texts, which are reused.")
    ] = Path("work"),
    model: options.Model = None,
    profile: options.ProfileFile = None,
    engine: Annotated[
        str, typer.Option(help="Engine of the paper's experiments: local or ray.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="For ray: the cluster. Default: a new one on this machine.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="For ray: cores. Default: all.")] = None,
) -> None:
    """Write the data of a figure or table as CSV, and the figure as SVG; "all" adds a page.

    "records" are the texts of the paper's experiments, with ids, colours and KL of every token, as
    Parquet. Interrupted experiments resume.
    """
    if target not in _NAMES:
        raise InvalidInput(f"target must be one of {', '.join(_NAMES)}; got {target!r}.")
    make_folder(folder)
    place = Place(data, work, model, engine, workers, address)
    for name, content in _made(target, scale, corpora, place, profile):
        write_file(folder / name, content)
        print(folder / name)


def _made(
    target: str, scale: str, corpora: str | None, place: Place, profile: Path | None
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file of a target, as soon as it is made."""
    if target in _EXPERIMENTS:
        rows = _experiment(target)(_workspace(place, needs_data=True))
        yield f"{target}.csv", csv_bytes(list(rows))
    elif target == "fig-steering":
        yield from _steering(profile)
    elif target in _FORMULAS:
        yield from _files(target, _by_formula(target))
    else:
        study = _study(scale, corpora, place)
        if target == "all":
            study.check()
            yield from _all(scale, study)
        elif target == "records":
            yield from _records(study)
        else:
            yield from _files(target, _by_study(target, study))


def _records(study: Study) -> Iterator[tuple[str, bytes]]:
    from powermark.generation.records import parquet

    for name, texts in (("search", study.compared), ("final", study.final)):
        yield f"records-{name}.parquet", parquet([row for _, rows in texts for row in rows])


def _all(scale: str, study: Study) -> Iterator[tuple[str, bytes]]:
    """Yield the files of every target of the paper, and the page with all of them."""
    from powermark.paper.report import CAPTIONS, Section, all_claims, reproduction_page

    begun, sections = time.monotonic(), []
    for target in (*_FORMULAS, *_STUDIES):
        typer.echo(target, err=True)
        made = _by_formula(target) if target in _FORMULAS else _by_study(target, study)
        files = dict(_files(target, made))
        yield from files.items()
        picture, rows = files.get(f"{target}.svg"), made.tables.get("") if made.small else None
        if picture or rows:
            caption = CAPTIONS[target]
            sections.append(Section(name=target, caption=caption, figure=picture, rows=rows or ()))
    found = all_claims(study)
    yield "claims.csv", csv_bytes([asdict(claim) for claim in found])
    about = _about(scale, study) | {"time": f"{(time.monotonic() - begun) / 60:.0f} min"}
    yield "reproduction.html", reproduction_page(found, sections, about).encode()


def _about(scale: str, study: Study) -> dict[str, str]:
    """Return how a page was made."""
    corpora, seed = ",".join(study.corpora), study.workspace.seed
    model = study.workspace.model
    return {
        "model": f"{model.name} ({model.digest[:8]})",
        "corpora": ", ".join(study.corpora),
        "scale": f"{scale}: {study.scale.few} texts a cell of a search, {study.scale.many} a "
        f"plan, {study.scale.final} a finalist",
        "command": f"powermark reproduce all --scale {scale} --model {model.name} --corpora "
        f"{corpora}" + ("" if study.workspace.data is None else " --data DATA"),
        "signature": signature(
            "reproduction", scale=scale, model=model.digest, corpora=corpora, seed=seed
        ),
    }


def _files(name: str, found: Artefact) -> Iterator[tuple[str, bytes]]:
    """Yield a target's tables as CSV and its figure as SVG."""
    from powermark.plotting.canvas import render

    for part, rows in found.tables.items():
        yield f"{name}{part}.csv", csv_bytes(rows)
    if found.figure is not None:
        yield f"{name}.svg", render(found.figure, Path(f"{name}.svg"))


def _by_formula(target: str) -> Artefact:
    from powermark.paper.report import BY_FORMULA

    return BY_FORMULA[target](None)


def _by_study(target: str, study: Study) -> Artefact:
    from powermark.paper.report import BY_STUDY

    return BY_STUDY[target](study)


def _steering(profile: Path | None) -> Iterator[tuple[str, bytes]]:
    from powermark.paper.figures_formulas import draw_steering, steering_curves
    from powermark.paper.report import Artefact
    from powermark.signals.profile_file import load_profile

    rows = steering_curves(None if profile is None else load_profile(profile))
    return _files("fig-steering", Artefact({"": rows}, draw_steering(rows)))


def _experiment(target: str) -> Callable[[Workspace], Iterator[dict[str, Any]]]:
    from powermark.paper.experiments_plans import prediction_table, promise_table, rivals_table
    from powermark.paper.experiments_steering import lengths_table, steering_table

    tables = (prediction_table, promise_table, rivals_table, steering_table, lengths_table)
    return dict(zip(_EXPERIMENTS, tables, strict=True))[target]


def _study(scale: str, corpora: str | None, place: Place) -> Study:
    from powermark.paper.settings import scale_named
    from powermark.paper.study import Study

    sizes = scale_named(scale)
    names = (_FETCHED if place.data is None else ("c4", "lfqa", "wikipedia"))[: sizes.corpora]
    chosen = names if corpora is None else tuple(corpora.split(","))
    workspace = _workspace(place)
    return Study(replace(workspace, most=max(workspace.most, sizes.prompts)), sizes, chosen)


def _workspace(place: Place, *, needs_data: bool = False) -> Workspace:
    if place.data is None and needs_data:
        raise InvalidInput(
            "this experiment needs --data.",
            hint="give a folder with c4.jsonl, lfqa.jsonl and wikipedia.jsonl; their objects have "
            'a "prompt", or a "text" whose beginning is the prompt.',
        )
    if place.engine not in ("local", "ray"):
        raise InvalidInput(f"--engine must be local or ray; got {place.engine!r}.")
    make_folder(place.work)
    workspace = _own_workspace(place)
    if place.engine == "local":
        return workspace
    from powermark.paper.runner import over_ray

    many = over_ray(lambda: _own_workspace(place), workers=place.workers, address=place.address)
    return replace(workspace, spread=many)


def _own_workspace(place: Place) -> Workspace:
    """Return a workspace that writes in this process; each worker makes its own."""
    from powermark.models import load_model
    from powermark.models.prompt_cache import PromptCache
    from powermark.paper.workspace import Workspace
    from powermark.watermark.keys import SecretKey

    return Workspace(
        replace(load_model(options.named_model(place.model)), read=PromptCache()),
        place.data,
        place.work,
        SecretKey(bytes(range(32))),  # published: these marks protect nothing
        say=lambda line: typer.echo(line, err=True),
    )
