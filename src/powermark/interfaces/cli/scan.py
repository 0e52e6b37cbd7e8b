"""``powermark scan``: which documents of a corpus are marked, and what share of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from powermark.files import write_file
from powermark.interfaces.cli import options
from powermark.tables import table

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
        typer.Option(help="Key file: one for all specs or one for each; or set POWERMARK_KEY."),
    ] = None,
    keys: Annotated[Path | None, typer.Option(help="Folder of *.key files, all tried.")] = None,
    model: options.Tokenizer = None,
    field: Annotated[str, typer.Option(help="Column with the text or its ids.")] = "text",
    id_field: Annotated[
        str | None, typer.Option(help="Column with a document's id; by default its place.")
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="The column holds token ids.")] = False,
    input_format: Annotated[
        str | None, typer.Option(help="jsonl, parquet, csv or text, if names do not tell.")
    ] = None,
    output_format: Annotated[str, typer.Option(help="parquet or jsonl.")] = "parquet",
    alpha: Annotated[float | None, typer.Option(help="Level; the plan's by default.")] = None,
    fdr: Annotated[float, typer.Option(help="False-discovery rate of all calls.")] = 0.05,
    detector: Annotated[
        str | None,
        typer.Option(help="count, winmax, winmax-c or evalue; the plan's by default."),
    ] = None,
    windows_above: Annotated[
        int | None,
        typer.Option(help="Use winmax-c for documents with more tokens, and count the others."),
    ] = None,
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Undo look-alike and invisible characters.")
    ] = False,
    longest: Annotated[
        int, typer.Option(help="Reject documents with more characters or token ids.")
    ] = 1_000_000,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Ray cluster; by default one on this machine.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Cores; all by default.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the p-values to this file.")] = None,
    as_json: options.Json = False,
) -> None:
    """Look for a mark in every document of a corpus. Run it again to resume an interrupted scan.

    The exit code is 2 if a file could not be read to its end; rejected rows are only counted.
    """
    from powermark.corpus.job import ScanJob
    from powermark.corpus.scan import scan
    from powermark.watermark.spec import WatermarkSpec

    reads_ids = ids or field == "token_ids"
    job = ScanJob(
        specs=tuple(WatermarkSpec.load(path) for path in spec),
        keys=tuple(map(str, key)) if key else (None,),
        key_folder=None if keys is None else str(keys),
        model=None if reads_ids and model is None else options.named_model(model),
        alpha=alpha,
        detector=detector or (None if windows_above is None else "winmax-c"),  # type: ignore[arg-type]
        windows_above=windows_above,
        normalise_text=normalise,
        field=field,
        id_field=id_field,
        longest=longest,
    )
    if job.model is None and any(mark.tokenizer_digest is not None for mark in job.specs):
        typer.echo("note: without --model special tokens count like any other.", err=True)
    notes = {note for mark in job.specs for note in job.notes(mark)}
    for note in sorted(notes):
        typer.echo(f"note: {note}", err=True)
    start = time.perf_counter()
    with _counter() as seen:
        found = scan(
            paths,
            job,
            output,
            input_format=input_format,
            output_format=output_format,
            fdr=fdr,
            engine=engine,  # type: ignore[arg-type]  # checked there
            workers=workers,
            address=address,
            on_progress=seen.add,
        )
    seconds = time.perf_counter() - start
    speed = {"documents": seen.documents, "tokens": seen.tokens, "seconds": round(seconds, 3)}
    if plot is not None:
        from powermark.plotting.canvas import render
        from powermark.plotting.p_values import draw_p_values

        write_file(plot, render(draw_p_values(found["marks"]), plot))
    print(json.dumps({**found, "this_run": speed}, indent=2) if as_json else _shown(found, output))
    typer.echo(
        f"{seen.documents} documents in {seconds:.1f} s: {seen.documents / seconds:.0f} "
        f"documents and {seen.tokens / seconds:.0f} tokens a second",
        err=True,
    )
    if found["files_not_read"]:
        typer.echo(f"powermark: {found['files_not_read']} files could not be read.", err=True)
        raise typer.Exit(2)


class _Counter:
    """Documents and tokens of this run, shown while they grow if stderr is a terminal."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self.documents = self.tokens = 0
        self._show, self._start = show, time.perf_counter()

    def add(self, documents: int, tokens: int) -> None:
        self.documents += documents
        self.tokens += tokens
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
            ("distinct", f"{mark['distinct']}", _merged(mark)),
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


def _merged(mark: dict[str, Any]) -> str:
    """Describe the merged documents, and the effective number of the rest."""
    return (
        f"{mark['merged']} near-identical ones merged, at most {mark['largest_group']} in a group; "
        f"they vary like {mark['effective']:.0f} independent ones"
    )
