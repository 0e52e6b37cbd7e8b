"""The workers of a scan: threads of this machine, or processes of a Ray cluster.

Both scan the batches of each portion in order and write the same partitions.

**Threads.** Tokenizer, kernels and NumPy release the interpreter's lock, so threads share one
tokenizer and one set of keys, and a killed scan leaves no process behind. Memory holds a few
batches a thread and the rows of one partition, whatever the size of the corpus; at its end, some
60 bytes a document.

**Ray.** Each worker takes whole portions. If a worker is lost, Ray gives its portion to another,
which finds the finished partitions and continues after them. Every worker must see the input, the
output and the key files: no key is sent.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, groupby

from powermark.cluster import cluster, need
from powermark.corpus.batches import Batch
from powermark.corpus.job import ReadOptions, ScanJob
from powermark.corpus.output import Output
from powermark.corpus.readers import read
from powermark.corpus.rejects import Listing
from powermark.corpus.scanner import Scanned, Scanner
from powermark.corpus.sources import Portion

PART = 64  # batches of a partition
KEPT_EVERY = 5.0  # seconds after which the batches of an unfinished partition are saved
_AHEAD = 2  # batches in memory for each thread, one being scanned and one waiting

Progress = Callable[[int, int], object]  # called with the documents and tokens of a batch


def scan_local(
    portions: Sequence[Portion],
    scanner: Scanner,
    output: Output,
    *,
    options: ReadOptions,
    workers: int,
    on_progress: Progress = lambda *_: None,
) -> None:
    """Scan the portions on threads of this machine."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # each thread tokenises its own batch
    done = output.batches_done()
    batches = chain.from_iterable(
        _batches(number, portion, options, done) for number, portion in enumerate(portions)
    )
    with ThreadPoolExecutor(workers, "scan") as pool:
        try:
            found = _scanned(pool, scanner, batches, workers)
            write_partitions(found, portions, output, on_progress)
        finally:
            pool.shutdown(cancel_futures=True)


def _scanned(
    pool: ThreadPoolExecutor, scanner: Scanner, batches: Iterable[tuple[str, Batch]], workers: int
) -> Iterator[tuple[str, Scanned]]:
    """Yield the scanned batches in order."""
    waiting: deque[tuple[str, Future[Scanned]]] = deque()
    for part, batch in batches:
        waiting.append((part, pool.submit(scanner.scan, batch)))
        if len(waiting) >= workers * _AHEAD:
            name, future = waiting.popleft()
            yield name, future.result()
    for name, future in waiting:
        yield name, future.result()


def scan_ray(
    portions: Sequence[Portion],
    job: ScanJob,
    output: Output,
    *,
    workers: int | None,
    address: str | None,
    on_progress: Progress,
) -> None:
    """Scan the portions on a Ray cluster, by default one on this machine."""
    data = need("ray.data")
    with cluster(workers, address) as cores:
        numbers = [{"number": number} for number in range(len(portions))]
        work = data.from_items(numbers, override_num_blocks=len(numbers)).map(
            PortionScanner,
            fn_constructor_args=(portions, job, output),
            concurrency=min(cores, len(portions)),
            num_cpus=1,
        )
        for size in work.iter_rows():
            on_progress(size["documents"], size["tokens"])


class PortionScanner:
    """A Ray worker: made once in its process, then called with one portion after another."""

    def __init__(self, portions: Sequence[Portion], job: ScanJob, output: Output) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # Ray counts on one core a worker
        self._portions, self._job, self._output = portions, job, output
        self._scanner = job.scanner()

    def __call__(self, row: dict[str, int]) -> dict[str, int]:
        """Scan the rest of a portion; return its number of documents and tokens."""
        number, done = row["number"], self._output.batches_done()
        scanned = (
            (part, self._scanner.scan(batch))
            for part, batch in _batches(number, self._portions[number], self._job, done)
        )
        sizes: list[tuple[int, int]] = [(0, 0)]
        write_partitions(scanned, self._portions, self._output, lambda *size: sizes.append(size))
        documents, tokens = map(sum, zip(*sizes, strict=True))
        return {"documents": documents, "tokens": tokens}


def _batches(
    number: int, portion: Portion, options: ReadOptions, done: Mapping[str, float]
) -> Iterator[tuple[str, Batch]]:
    """Yield a portion's batches that are not done, each with the name of its partition."""
    for index, batch in enumerate(read(portion, options)):
        part = f"{number:05d}-{index // PART:05d}"
        if index % PART >= done.get(part, 0):
            yield part, batch


def write_partitions(
    scanned: Iterable[tuple[str, Scanned]],
    portions: Sequence[Portion],
    output: Output,
    on_progress: Progress,
) -> None:
    """Write batches, in order, as partitions; save the batches of an unfinished one now and then.

    A run that is killed loses only the batches since the last save.
    """
    done, listings = output.batches_done(), _Listings(portions, output)
    for part, group in groupby(scanned, key=lambda each: each[0]):
        old, first, new = output.kept(part), int(done.get(part, 0)), list[Scanned]()
        listing = listings.until(part)
        listing.resume(reject for each in old for reject in each.rejects)
        kept_at = time.monotonic()
        for _, found in group:
            if new and time.monotonic() - kept_at >= KEPT_EVERY and not _has_unreached(new):
                output.keep(part, first, new)
                old, first, new = old + new, first + len(new), []
                kept_at = time.monotonic()
            new.append(found._replace(rejects=listing.bounded(found.rejects)))
            on_progress(found.documents, found.tokens)
        output.write_part(part, old + new)
        output.remove_kept(part)


class _Listings:
    """The listing of each portion, as partition after partition is written."""

    def __init__(self, portions: Sequence[Portion], output: Output) -> None:
        self._portions, self._output = portions, output
        self._written = output.finished_rejects()
        self._number, self._listing = "", Listing(portions[0])

    def until(self, part: str) -> Listing:
        """Return the listing of a partition's portion, with all rejects of earlier partitions."""
        number = part.partition("-")[0]
        if number != self._number:
            self._number, self._listing = number, Listing(self._portions[int(number)])
        for each in [each for each in self._written if f"{number}-" <= each < part]:
            self._listing.resume(self._output.rejects_of(self._written.pop(each)))
        return self._listing


def _has_unreached(batches: Sequence[Scanned]) -> bool:
    """Whether a file could not be reached, which the next run reads again."""
    return any(reject.again for each in batches for reject in each.rejects)
