"""How fast a corpus is scanned, beside the tokenizer alone, and whether its answers hold.

Run with ``make bench`` or
``python -m benchmarks.scan --documents 200000 --model-documents 300 --repeats 20 --kills 20``;
by default it is small. Promised: 85 % of the bare tokenizer's speed on the same threads in the
same run, 5 million tokens a second and core from token ids, a peak of memory that grows by at most
a tenth from a quarter of the corpus to all of it, false discoveries at most 5 % and an interval
that covers the share of marked documents, and the same bytes after being killed at any moment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy import stats
from tokenizers import Tokenizer

from benchmarks.corpus import write_corpus
from powermark.corpus.job import ReadOptions, ScanJob
from powermark.corpus.readers import read
from powermark.corpus.scan import scan
from powermark.corpus.sources import find_sources
from powermark.models import load_tokenizer
from powermark.models.catalog import DEFAULT_MODEL
from powermark.models.store import model_folder
from powermark.statistics.p_values import green_rate_interval
from powermark.watermark.spec import WatermarkSpec

ROUNDS = 3
ENOUGH = 40_000  # documents that speed is measured on: some 12 million tokens
FDR = 0.05
QUIET: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Corpus:
    """A written corpus and the ways to scan it."""

    def __init__(self, folder: Path, documents: int, **given: int) -> None:
        self.folder = folder / "corpus"
        self.spec, self.key = write_corpus(self.folder, documents, **given)  # type: ignore[arg-type]
        self.files = sorted(map(str, self.folder.glob("*.parquet")))
        self.sizes = [pq.read_metadata(file).num_rows for file in self.files]
        self._outputs = 0

    def some(self, documents: float) -> list[str]:
        """Return as many of the files as have so many documents, at least one."""
        return self.files[: max(1, int(np.searchsorted(np.cumsum(self.sizes), documents, "right")))]

    def scan(self, files: Sequence[str], *, ids: bool, workers: int) -> tuple[dict[str, Any], Path]:
        """Scan some files into a new folder."""
        self._outputs += 1
        output = self.folder.parent / f"out-{self._outputs}"
        job = ScanJob(
            specs=(WatermarkSpec.load(self.spec),),
            keys=(str(self.key),),
            model=None if ids else DEFAULT_MODEL,
            field="token_ids" if ids else "text",
            id_field="id",
        )
        found = scan(files, job, str(output), fdr=FDR, workers=workers)
        return found, output

    def command(self, files: Sequence[str], output: Path, field: str = "token_ids") -> list[str]:
        """Return the command that scans some files."""
        mark = ["--spec", str(self.spec), "--key", str(self.key), "--field", field]
        start = [sys.executable, "-m", "powermark", "scan"]
        return [*start, *mark, *files, "-o", str(output), "--json"]


def bare(batches: list[list[str]], workers: int, tokenizer: Any) -> tuple[int, float]:
    """Tokenise texts that are in memory already; returns tokens and seconds.

    This is the least that anyone must do to get ids: the tokenizer's fastest call on batches of
    the same size in the same number of threads, and the list of ids of each text.
    """

    def work(texts: list[str]) -> int:
        found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return sum(len(one.ids) for one in found)

    with ThreadPoolExecutor(workers) as pool:
        start = time.perf_counter()
        tokens = sum(pool.map(work, batches))
        return tokens, time.perf_counter() - start


def speed(corpus: Corpus, workers: int) -> float:
    """Print the speed of the scan and of the tokenizer, in turn; the median of their ratios.

    The tokenizer is the file's, as anyone loads it. Beside it stands the one that scans use, whose
    cache of words is larger.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    files = corpus.some(ENOUGH)
    batches = [batch.content.to_pylist() for batch in read(find_sources(files), ReadOptions())]
    plain = Tokenizer.from_file(str(model_folder(DEFAULT_MODEL) / "tokenizer.json"))
    plain.no_truncation()
    plain.no_padding()
    ours = load_tokenizer()._inner
    corpus.scan(files[:1], ids=False, workers=workers)  # compiles what is compiled
    for tokenizer in (plain, ours):
        bare(batches[: len(batches) // 4 + 1], workers, tokenizer)  # fills its cache
    rates = []
    for _ in range(ROUNDS):
        tokens, alone = bare(batches, workers, plain)
        start = time.perf_counter()
        corpus.scan(files, ids=False, workers=workers)
        scanned = time.perf_counter() - start
        rates.append([tokens / scanned, tokens / alone, tokens / bare(batches, workers, ours)[1]])
    ratios = [scanned / alone for scanned, alone, _ in rates]
    scanned, alone, cached = np.median(rates, axis=0)
    print(f"text to verdict, {workers} threads, {tokens:,} tokens, median of {ROUNDS} rounds in "
          f"turn: {scanned:,.0f} tokens/s; the tokenizer alone {alone:,.0f}, with the cache that "
          f"scans give it {cached:,.0f}; ratio {np.median(ratios):.3f}, rounds "
          f"{', '.join(f'{ratio:.3f}' for ratio in ratios)} (promised .85)")  # fmt: skip
    return float(np.median(ratios))


def from_ids(corpus: Corpus) -> float:
    """Print the speed from token ids, in seconds of one core; the median of some rounds."""
    files, rates = corpus.some(ENOUGH), []
    for _ in range(ROUNDS):
        start = time.process_time()
        found, _ = corpus.scan(files, ids=True, workers=1)
        rates.append(found["marks"][0]["tokens"] / (time.process_time() - start))
    rate = float(np.median(rates))
    print(f"token ids to verdict: {rate / 1e6:.2f} million tokens/s and core (promised 5)")
    return rate


def growth(corpus: Corpus) -> float:
    """Print time and peak memory of commands that scan more and more text; how memory grows."""
    code = (
        "import resource, subprocess, sys;"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    print("documents   seconds   documents/s   peak memory, MB")
    peaks = []
    for part in (8, 4, 2, 1):
        files = corpus.some(sum(corpus.sizes) / part)
        output = corpus.folder.parent / f"growth-{part}"
        start = time.perf_counter()
        command = [sys.executable, "-c", code, *corpus.command(files, output, "text")]
        answer = subprocess.run(command, check=True, **{**QUIET, "stdout": subprocess.PIPE})
        seconds = time.perf_counter() - start
        peaks.append(int(answer.stdout) / 1024)
        documents = sum(corpus.sizes[: len(files)])
        print(f"{documents:>9,} {seconds:>9.1f} {documents / seconds:>13,.0f} {peaks[-1]:>17.0f}")
    print(f"memory from a quarter to all: {peaks[-1] / peaks[1]:.3f} (promised at most 1.1)")
    return peaks[-1] / peaks[1]


def false_calls(shares: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean share of false calls, an estimate of their rate, with its 95 % interval.

    Student's, over independent corpora. A rate above the promise is noticed when the lower end is
    above it: honest calls are accused in at most one run of forty.
    """
    mean, error = float(np.mean(shares)), float(stats.sem(shares)) if len(shares) > 1 else np.inf
    reach = float(stats.t.ppf(0.975, max(len(shares) - 1, 1))) * error
    return mean, mean - reach, mean + reach


def answers(folder: Path, documents: int, repeats: int) -> tuple[float, int]:
    """Print how many calls are false and how often the interval covers, over fresh corpora.

    Returns the lower limit of the rate of false calls, and the number that are covered.
    """
    shares, covered = [], 0
    for seed in range(repeats):
        place = folder / f"repeat-{seed}"
        corpus = Corpus(place, documents, seed=seed + 1, texts=False)
        found, output = corpus.scan(corpus.files, ids=True, workers=1)
        truth: dict[str, bool] = {}
        for file in corpus.files:
            truth.update(zip(*_columns(file, "id", "marked"), strict=True))
        (names,) = _columns(output / "calls.parquet", "id")
        called = [truth[name] for name in names]
        shares.append(called.count(False) / max(len(called), 1))
        mark = found["marks"][0]
        covered += mark["share_low"] <= np.mean(list(truth.values())) <= mark["share_high"]
        shutil.rmtree(place)
    mean, low, high = false_calls(shares)
    print(f"{repeats} corpora of {documents:,}: of the calls {mean:.4f} are false, 95 % interval "
          f"{low:.4f} to {high:.4f} (promised at most {FDR}); the interval of the share covers "
          f"the truth in {covered}")  # fmt: skip
    return low, covered


def _columns(file: str | Path, *names: str) -> list[list[Any]]:
    table = pq.read_table(file, columns=list(names))
    return [table[name].to_pylist() for name in names]


def kills(corpus: Corpus, times: int) -> bool:
    """Kill scans, each at a random moment, go on, and compare with one that was left alone."""
    place, files = corpus.folder.parent, corpus.some(sum(corpus.sizes) / 2)
    start = time.perf_counter()
    subprocess.run(corpus.command(files, place / "alone"), check=True, **QUIET)
    took = time.perf_counter() - start
    rng, wanted = np.random.default_rng(0), _contents(place / "alone")
    same = in_work = 0
    for number in range(times):
        output = place / f"killed-{number}"
        child = subprocess.Popen(corpus.command(files, output), **QUIET)
        time.sleep(rng.uniform(0.0, took))
        child.send_signal(signal.SIGKILL)
        child.wait()
        in_work += output.exists() and not (output / "summary.json").exists()
        subprocess.run(corpus.command(files, output), check=True, **QUIET)
        same += _contents(output) == wanted
        shutil.rmtree(output)
    print(f"killed {times} times, {in_work} of them between the first file and the last: then gone "
          f"on with, the same files and bytes in {same}")  # fmt: skip
    return same == times


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def main() -> None:
    """Print it all; fail where a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--model-documents", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        corpus = Corpus(folder, given.documents, model_documents=given.model_documents)
        print(f"{sum(corpus.sizes):,} documents, {given.model_documents} of them by the model, "
              f"written in {time.perf_counter() - start:.0f} s")  # fmt: skip
        ratio, ids = speed(corpus, given.workers), from_ids(corpus)
        memory = growth(corpus)
        same = kills(corpus, given.kills)
        shutil.rmtree(corpus.folder)
        false, covered = answers(folder, given.documents // 10, given.repeats)
    coverage = green_rate_interval(covered, given.repeats)[1]  # as far as so few can tell
    broken = [
        text
        for text, kept in (
            (f"the scan has only {ratio:.3f} of the tokenizer's speed", ratio >= 0.85),
            (f"{ids / 1e6:.2f} million tokens/s from token ids", ids >= 5e6),
            (f"memory grows by {memory:.3f}", memory <= 1.1),
            (f"false discoveries are above {FDR}: at least {false:.4f}", false <= FDR),
            (f"the interval covers in {covered} of {given.repeats} corpora", coverage >= 0.95),
            ("a killed scan ends otherwise", same),
        )
        if not kept
    ]
    if broken:
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main()
