"""A whole scan, on either engine: begin or go on, work, sum up."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, get_args

from powermark.corpus import batches, local
from powermark.corpus import sources as files
from powermark.corpus.local import Step, scan_local
from powermark.corpus.output import Output
from powermark.corpus.recipe import Recipe
from powermark.corpus.sources import STDIN, Source, units
from powermark.corpus.summary import summarise, to_dict, write_calls
from powermark.errors import FileProblem, InvalidInput

Engine = Literal["local", "ray"]


def scan(
    sources: Sequence[Source],
    recipe: Recipe,
    output: Output,
    *,
    fdr: float = 0.05,
    engine: Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    on_batch: Step = lambda _: None,
) -> dict[str, Any]:
    """Scan a corpus and return its summary; a scan that was interrupted goes on.

    Parameters
    ----------
    sources
        The files, from :func:`powermark.corpus.sources.find_sources`.
    recipe
        What to read and look for.
    output
        Where the rows go.
    fdr
        False-discovery rate of the calls.
    engine, address
        ``"local"``, or ``"ray"`` on the cluster at an address (by default this machine's).
    workers
        Threads, or processes of Ray; by default as many as there are cores.
    on_batch
        Told of each batch that is done, by the local engine.
    """
    if engine not in get_args(Engine):
        raise InvalidInput(f"engine must be one of {get_args(Engine)}; got {engine!r}.")
    if workers is not None and workers < 1:
        raise InvalidInput(f"workers must be 1 or more; got {workers}.")
    scanner = recipe.scanner()
    stdin = any(source.url == STDIN for source in sources)
    portions = units(sources)
    job = {
        **scanner.identity,
        "fields": asdict(recipe.wanted),
        "batches": [batches.ROWS, batches.WEIGHT],
        "partitions": [local.PART, files.UNIT_BYTES],
        "sources": [asdict(source) for source in sources],
    }
    with output.opened(job):
        if stdin and (engine == "ray" or output.finished()):
            raise InvalidInput(
                "standard input can be scanned once, from its start, and not by ray."
            )
        if engine == "ray":
            from powermark.corpus.ray import scan_ray

            scan_ray(portions, recipe, output, workers=workers, address=address)
        else:
            scan_local(
                portions,
                scanner,
                output,
                wanted=recipe.wanted,
                workers=workers or os.cpu_count() or 1,
                on_batch=on_batch,
            )
        marks = summarise(output, fdr)
        if not marks:
            first = next(output.rejects(), None)
            why = f"; the first reject: {first.place}: {first.reason}" if first else ""
            raise FileProblem(f"the corpus has no document{why}.")
        write_calls(output, marks)
        found = to_dict(marks, output.rejects())
        output.write("summary.json", (json.dumps(found, indent=2) + "\n").encode())
    return found
