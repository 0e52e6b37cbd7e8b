"""All cores of one machine: threads that tokenise and score, one that reads and writes.

Tokenizer, kernels and NumPy release the interpreter's lock, so threads share one tokenizer and one
set of keys, and a killed scan leaves no process behind. Memory holds a few batches a thread and the
rows of one partition, whatever the size of the corpus.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby

from powermark.corpus.batches import Batch, Wanted
from powermark.corpus.output import Output
from powermark.corpus.readers import read
from powermark.corpus.scanner import Scanned, Scanner
from powermark.corpus.sources import Source

PART = 64  # batches of a partition
_AHEAD = 2  # batches in memory for each thread, one being scanned and one waiting

Step = Callable[[Scanned], object]  # told of every batch that is done


def parts(number: int, unit: Sequence[Source], wanted: Wanted) -> Iterator[tuple[str, Batch]]:
    """Yield a unit's batches, each with the name of its partition."""
    for index, batch in enumerate(read(unit, wanted)):
        yield f"{number:05d}-{index // PART:05d}", batch


def scan_local(
    portions: Sequence[Sequence[Source]],
    scanner: Scanner,
    output: Output,
    *,
    wanted: Wanted,
    workers: int,
    on_batch: Step = lambda _: None,
) -> None:
    """Scan what is not done yet and write it, partition by partition."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # each thread tokenises its own batch
    done = output.finished()
    work = (
        (part, batch)
        for number, unit in enumerate(portions)
        for part, batch in parts(number, unit, wanted)
        if part not in done
    )
    with ThreadPoolExecutor(workers, "scan") as pool:
        try:
            write(_in_order(pool, scanner, work, workers * _AHEAD), output, on_batch)
        finally:
            pool.shutdown(cancel_futures=True)


def write(scanned: Iterator[tuple[str, Scanned]], output: Output, on_batch: Step) -> None:
    """Gather batches into their partitions, which come one after the other, and write each."""
    for part, group in groupby(scanned, key=lambda each: each[0]):
        tables, rejects = [], []
        for _, found in group:
            tables.append(found.table)
            rejects += found.rejects
            on_batch(found)
        output.write_part(part, tables, rejects)


def _in_order(
    pool: ThreadPoolExecutor, scanner: Scanner, work: Iterator[tuple[str, Batch]], ahead: int
) -> Iterator[tuple[str, Scanned]]:
    waiting: deque[tuple[str, Future[Scanned]]] = deque()
    for part, batch in work:
        waiting.append((part, pool.submit(scanner.scan, batch)))
        if len(waiting) >= ahead:
            name, future = waiting.popleft()
            yield name, future.result()
    for name, future in waiting:
        yield name, future.result()
