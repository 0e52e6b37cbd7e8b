"""A server in a process of its own, and texts to ask it about."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from powermark import new_key, plan
from powermark.models import load_tokenizer
from powermark.watermark.spec import WatermarkSpec, digest_of

_MIB = 2**20


class Server(NamedTuple):
    """A server in a process of its own."""

    url: str
    process: psutil.Popen
    log: Path

    def memory(self) -> float:
        """Return the resident memory of it and of its children in MiB."""
        family = [self.process, *self.process.children(recursive=True)]
        return sum(float(each.memory_info().rss) for each in family) / _MIB

    def seconds(self) -> float:
        """Return the CPU time that it has used."""
        used = self.process.cpu_times()
        return float(used.user + used.system)

    def answered(self) -> int:
        """Return how many texts it says that it has answered."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()[1:]]
        return sum(
            line.get("route") == "/v1/detect" and line.get("status") == 200 for line in lines
        )


@contextmanager
def serving(
    folder: Path, log: Path, *options: str, descriptors: int | None = None
) -> Iterator[Server]:
    """Start a server on a free port, with so many file descriptors at most."""

    def limit() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    command = [sys.executable, "-m", "powermark", "serve", str(folder), "--port", "0", *options]
    with log.open("w") as stream:
        process = psutil.Popen(command, stderr=stream, preexec_fn=limit)
    try:
        while not (said := log.read_text().partition("\n")[0]):
            time.sleep(0.1)
        yield Server(said.split()[1], process, log)
    finally:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
        process.wait()


def prepare(folder: Path) -> list[bytes]:
    """Write a spec and its key for the embedded tokenizer; return requests of many lengths."""
    tokenizer, rng = load_tokenizer(), np.random.default_rng(0)
    key = new_key(folder / "bench.key")
    WatermarkSpec.from_plan(
        plan(n_tokens=200, alpha=0.01, power=0.95, edit_rate=0.1),
        vocab_size=len(tokenizer),
        tokenizer_digest=digest_of(tokenizer),
        key_fingerprint=key.fingerprint,
    ).save(folder / "bench.json")
    lengths = np.geomspace(50, 2000, 200).astype(int)
    texts = [tokenizer.decode(rng.integers(1000, 40_000, n).tolist()) for n in lengths]
    return [json.dumps({"spec": "bench", "text": text}).encode() for text in texts]
