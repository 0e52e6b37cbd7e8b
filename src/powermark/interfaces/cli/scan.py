"""``powermark scan``: which documents of a corpus are marked, and what share of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import InvalidInput, MissingExtra
from powermark.files import write_file
from powermark.interfaces.cli import options
from powermark.tables import table

if TYPE_CHECKING:
    from powermark.corpus.scanner import Scanned

EXAMPLES = """\
Examples:

  powermark scan --spec s.json --key k.key corpus/ -o out

  powermark scan --spec s.json --key k.key 'data/*.jsonl.zst' --field body --id-field url -o out

  powermark scan --spec s.json --key k.key s3://bucket/docs -o s3://bucket/out --engine ray
"""


def scan_command(
    spec: Annotated[list[Path], typer.Option(help="Watermark spec; several may be given.")],
    paths: Annotated[
        list[str], typer.Argument(help="Files, folders, globs, fsspec URLs; - for stdin.")
    ],
    output: Annotated[str, typer.Option("-o", "--output", help="Folder, or URL, for the rows.")],
    key: Annotated[
        list[Path] | None,
        typer.Option(help="Key file, one for all specs or one for each; else POWERMARK_KEY."),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="Folder of *.key files to try, all of them.")
    ] = None,
    model: options.Model = None,
    field: Annotated[str, typer.Option(help="Column with the text or its ids.")] = "text",
    id_field: Annotated[
        str | None, typer.Option(help="Column with a document's id; its place if left out.")
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="The column holds token ids.")] = False,
    input_format: Annotated[
        str | None, typer.Option(help="jsonl, parquet, csv or text, where names do not tell.")
    ] = None,
    output_format: Annotated[str, typer.Option(help="parquet or jsonl.")] = "parquet",
    alpha: Annotated[float | None, typer.Option(help="Level; the plan's if left out.")] = None,
    fdr: Annotated[float, typer.Option(help="False-discovery rate of all calls.")] = 0.05,
    detector: Annotated[
        str | None,
        typer.Option(help="count, winmax, winmax-c or evalue; the plan's if left out."),
    ] = None,
    windows_above: Annotated[
        int | None,
        typer.Option(help="Tokens above which a document is searched by winmax-c, others counted."),
    ] = None,
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Undo look-alike and invisible characters.")
    ] = False,
    longest: Annotated[
        int, typer.Option(help="Characters, or token ids, above which a document is rejected.")
    ] = 1_000_000,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Ray cluster; one on this machine if left out.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Cores; all if left out.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the p-values to this file.")] = None,
    as_json: options.Json = False,
) -> None:
    """Look for a mark in every document of a corpus. Run it again to go on where it stopped.

    Exit code 2 where a file could not be read to its end; rejected rows are only counted.
    """
    try:
        from powermark.corpus.batches import Wanted
        from powermark.corpus.output import Output
        from powermark.corpus.recipe import Recipe
        from powermark.corpus.scan import scan
        from powermark.corpus.sources import find_sources
    except ImportError as error:
        raise MissingExtra(
            f"scanning needs {error.name}, which is not installed.",
            hint="pip install 'powermark[corpus]'",
        ) from None
    from powermark.watermark.spec import WatermarkSpec

    if longest < 1:
        raise InvalidInput(f"--longest must be 1 or more; got {longest}.")
    reads_ids = ids or field == "token_ids"
    recipe = Recipe(
        specs=tuple(WatermarkSpec.load(path) for path in spec),
        keys=tuple(map(str, key)) if key else (None,),
        key_folder=None if keys is None else str(keys),
        model=None if reads_ids and model is None else options.named_model(model),
        alpha=alpha,
        detector=detector or (None if windows_above is None else "winmax-c"),  # type: ignore[arg-type]
        windows_above=windows_above,
        normalise_text=normalise,
        wanted=Wanted(field, id_field, longest),
    )
    if recipe.model is None and any(mark.tokenizer_digest is not None for mark in recipe.specs):
        typer.echo("note: without --model special tokens count like any other.", err=True)
    sources = find_sources(paths, input_format)
    start = time.perf_counter()
    with _counter() as seen:
        found = scan(
            sources,
            recipe,
            Output(output, output_format),
            fdr=fdr,
            engine=engine,  # type: ignore[arg-type]  # checked there
            workers=workers,
            address=address,
            on_batch=seen.add,
        )
    seconds = time.perf_counter() - start
    speed = {"documents": seen.documents, "tokens": seen.tokens, "seconds": round(seconds, 3)}
    if plot is not None:
        from powermark.evaluation.figures.canvas import render
        from powermark.evaluation.figures.p_values import draw_p_values

        write_file(plot, render(draw_p_values(found["marks"]), plot))
    print(json.dumps({**found, "this_run": speed}, indent=2) if as_json else _shown(found, output))
    if engine == "local":
        typer.echo(
            f"{seen.documents} documents in {seconds:.1f} s: {seen.documents / seconds:.0f} "
            f"documents and {seen.tokens / seconds:.0f} tokens a second",
            err=True,
        )
    if found["files_not_read"]:
        typer.echo(f"powermark: {found['files_not_read']} files could not be read.", err=True)
        raise typer.Exit(2)


class _Counter:
    """Documents and tokens of this run, shown as they grow where stderr is a terminal."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self.documents = self.tokens = 0
        self._show, self._start = show, time.perf_counter()

    def add(self, scanned: Scanned) -> None:
        self.documents += scanned.documents
        self.tokens += scanned.tokens
        rate = self.documents / (time.perf_counter() - self._start)
        self._show(f"{self.documents:,} documents, {rate:,.0f} a second")


@contextmanager
def _counter() -> Iterator[_Counter]:
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("reading") as status:
        yield _Counter(status.update)


def _shown(found: dict[str, Any], output: str) -> str:
    """Return the summary as a table for each mark."""
    parts = []
    for mark in found["marks"]:
        rows = [
            ("mark", mark["mark"], f"of {len(found['marks'])}"),
            ("documents", f"{mark['documents']}", f"{mark['tokens']} tokens"),
            *((name, f"{count}", "") for name, count in mark["verdicts"].items()),
        ]
        at_least = f"at least {mark['share_at_least']:.4f} whatever the power"
        if mark["share"] is None:
            rows.append(("share", "-", f"too short to tell; {at_least}"))
        else:
            interval = f"95 % interval {mark['share_low']:.4f} to {mark['share_high']:.4f}"
            rows.append(("share", f"{mark['share']:.4f}", f"{interval}; {at_least}"))
        rate = f"{mark['level']:.3g} here, {mark['fdr']:g} in all"
        for name, method in (("bh", "false-discovery rate"), ("holm", "any false call")):
            limit = mark[f"{name}_threshold"]
            shown = "none" if limit is None else f"p <= {limit:.3g}"
            note = f"{shown}; {method} <= {rate}"
            rows.append((f"{name}_calls", str(mark[f"{name}_calls"]), note))
        parts.append("\n".join([table(rows), *mark["signatures"]]))
    rejected = f"{found['rejects']} rows or files rejected"
    return "\n\n".join([*parts, f"{rejected}; rows, calls and rejects are in {output}"])
