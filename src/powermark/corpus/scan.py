"""``scan``: find the files, scan what is not done, summarise."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any, Literal, get_args

from powermark.corpus.job import ReadOptions, ScanJob
from powermark.errors import FileProblem, InvalidInput, MissingExtra

Engine = Literal["local", "ray"]


def scan(
    paths: Sequence[str],
    job: ScanJob,
    output: str,
    *,
    input_format: str | None = None,
    output_format: str = "parquet",
    fdr: float = 0.05,
    engine: Engine = "local",
    workers: int | None = None,
    address: str | None = None,
    on_progress: Callable[[int, int], object] = lambda *_: None,
) -> dict[str, Any]:
    """Scan a corpus and return its summary; an interrupted scan resumes.

    Parameters
    ----------
    paths
        Files, folders, globs or fsspec URLs; ``-`` for standard input.
    job
        What to read and look for.
    output
        Folder, or URL of one, for the rows and the summary.
    input_format
        ``jsonl``, ``parquet``, ``csv`` or ``text``, for files whose names do not tell.
    output_format
        ``parquet`` or ``jsonl``.
    fdr
        False-discovery rate of the calls.
    engine, address
        ``"local"``, or ``"ray"`` on the cluster at an address (by default this machine's).
    workers
        Threads, or Ray processes; by default one a core.
    on_progress
        Called with the documents and tokens of each batch; with Ray, of each portion of the files,
        except those of a worker that was lost.
    """
    try:
        from powermark.corpus import batches, sources
        from powermark.corpus import workers as pool
        from powermark.corpus.copies import Copies
        from powermark.corpus.output import Output
        from powermark.corpus.sketches import VERSION
        from powermark.corpus.summary import summarise, to_dict, write_calls, write_copies
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"scanning needs {error.name}, which is not installed.",
            hint="pip install 'powermark[corpus]'",
        ) from None
    if engine not in get_args(Engine):
        raise InvalidInput(f"engine must be one of {get_args(Engine)}; got {engine!r}.")
    if workers is not None and workers < 1:
        raise InvalidInput(f"workers must be 1 or more; got {workers}.")
    files = sources.find_sources(paths, input_format)
    folder = Output(output, output_format)
    scanner = job.scanner()
    portions = sources.portions(files)
    manifest = {
        **scanner.identity,
        "fields": {field.name: getattr(job, field.name) for field in fields(ReadOptions)},
        "batches": [batches.ROWS, batches.WEIGHT],
        "partitions": [pool.PART, sources.PORTION_BYTES],
        "sketches": VERSION,
        "sources": [asdict(source) for source in files],
    }
    with folder.opened(manifest):
        stdin = any(source.url == sources.STDIN for source in files)
        if stdin and (engine == "ray" or folder.batches_done()):
            raise InvalidInput(
                "standard input can be scanned once, from its start, and not by ray."
            )
        if engine == "ray":
            pool.scan_ray(
                portions, job, folder, workers=workers, address=address, on_progress=on_progress
            )
        else:
            pool.scan_local(
                portions,
                scanner,
                folder,
                options=job,
                workers=workers or os.cpu_count() or 1,
                on_progress=on_progress,
            )
        copies = Copies.of(folder.sketches())
        marks = summarise(
            folder, fdr, copies, dict(zip(scanner.labels, scanner.marks, strict=True))
        )
        if not marks:
            first = next(folder.rejects(), None)
            why = f"; the first reject: {first.place}: {first.reason}" if first else ""
            folder.discard()
            raise FileProblem(
                f"the corpus has no document{why}.",
                hint="name the field of the text with `field`." if "no field" in why else None,
            )
        write_copies(folder, marks[0].mark, copies)
        write_calls(folder, marks, copies)
        found = to_dict(marks, folder.rejects())
        folder.write("summary.json", (json.dumps(found, indent=2) + "\n").encode())
    return found
