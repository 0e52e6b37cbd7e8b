"""Many clients at once: throughput, latency, lost answers, and what the time goes into.

Run with ``python -m benchmarks.serve --seconds 60``. A server is started on loopback and 64 clients
send texts of 50 to 2,000 tokens to ``/v1/detect``, each as soon as its last answer has come, while
another asks ``/healthz`` ten times a second. Promised: no error, no lost answer.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2
import numpy as np
import psutil

from powermark import new_key, plan
from powermark.models import load_tokenizer
from powermark.watermark.spec import WatermarkSpec, digest_of


def prepare(folder: Path) -> list[str]:
    """Write a spec and its key for the embedded tokenizer; return texts of many lengths."""
    tokenizer, rng = load_tokenizer(), np.random.default_rng(0)
    key = new_key(folder / "bench.key")
    WatermarkSpec.from_plan(
        plan(n_tokens=200, alpha=0.01, power=0.95, edit_rate=0.1),
        vocab_size=len(tokenizer),
        tokenizer_digest=digest_of(tokenizer),
        key_fingerprint=key.fingerprint,
    ).save(folder / "bench.json")
    lengths = np.geomspace(50, 2000, 40).astype(int)
    return [tokenizer.decode(rng.integers(1000, 40_000, n).tolist()) for n in lengths]


async def load(url: str, texts: list[str], clients: int, seconds: float) -> dict[str, list[float]]:
    """Return the seconds of every answer, and those of the health checks."""
    took: dict[str, list[float]] = {"detect": [], "healthz": [], "errors": []}
    end = time.perf_counter() + seconds

    async def client(http: httpx2.AsyncClient, number: int) -> None:
        rng = np.random.default_rng(number)
        while time.perf_counter() < end:
            text, start = texts[int(rng.integers(len(texts)))], time.perf_counter()
            try:
                answer = await http.post("/v1/detect", json={"spec": "bench", "text": text})
                good = answer.status_code == 200 and "verdict" in answer.json()
            except httpx2.HTTPError:
                good = False
            took["detect" if good else "errors"].append(time.perf_counter() - start)

    async def watch(http: httpx2.AsyncClient) -> None:
        while time.perf_counter() < end:
            start = time.perf_counter()
            await http.get("/healthz")
            took["healthz"].append(time.perf_counter() - start)
            await asyncio.sleep(0.1)

    limits = httpx2.Limits(max_connections=clients + 1)
    async with httpx2.AsyncClient(base_url=url, timeout=60, limits=limits) as http:
        await http.post("/v1/detect", json={"spec": "bench", "text": texts[0]})
        await asyncio.gather(watch(http), *(client(http, i) for i in range(clients)))
        told = (await http.get("/metrics")).text
    for name in ("tokenising", "detecting"):
        found = re.search(rf"^powermark_{name}_seconds_total (\S+)", told, re.M)
        took[name] = [float(found[1]) if found else 0.0]
    return took


def main() -> None:
    """Print what was measured; fail where an answer was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        texts = prepare(folder)
        code = "import sys; from powermark.interfaces.cli import main; main(sys.argv[1:])"
        with (folder / "log").open("w+") as log:
            server = subprocess.Popen(
                [sys.executable, "-c", code, "serve", place, "--port", "0"], stderr=log
            )
            try:
                while not (line := (folder / "log").read_text().partition("\n")[0]):
                    time.sleep(0.1)
                url, process = line.split()[1], psutil.Process(server.pid)
                before = process.memory_info().rss
                took = asyncio.run(load(url, texts, given.clients, given.seconds))
                grown = (process.memory_info().rss - before) / 2**20
            finally:
                server.terminate()
                server.wait()
    seconds = np.array(took["detect"])
    p50, p99 = 1000 * np.percentile(seconds, [50, 99])
    work = took["tokenising"][0] + took["detecting"][0]
    print(f"{given.clients} clients for {given.seconds:g} s, texts of 50 to 2,000 tokens:")
    print(f"  {seconds.size} answers, {seconds.size / given.seconds:.0f} a second; "
          f"median {p50:.1f} ms, p99 {p99:.1f} ms; {len(took['errors'])} errors")  # fmt: skip
    print(f"  of the work {took['tokenising'][0] / work:.0%} is tokenising")
    print(f"  /healthz p99 {1000 * np.percentile(took['healthz'], 99):.1f} ms; "
          f"memory grew by {grown:.0f} MiB")  # fmt: skip
    if took["errors"]:
        sys.exit(f"{len(took['errors'])} answers were lost")


if __name__ == "__main__":
    main()
