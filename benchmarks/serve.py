"""Many clients at once: throughput, latency, lost answers, memory, and an end under load.

Run with ``python -m benchmarks.serve``. A server is started on loopback and 64 clients send texts
of 50 to 2,000 tokens to ``/v1/detect``, each as soon as its last answer has come: for a minute,
while another asks ``/healthz`` ten times a second; then until 100,000 more are answered, with the
server's memory on record; then until it is told to stop; then :mod:`benchmarks.pressure` puts it
under pressure. Promised: no error, no lost answer,
``/healthz`` within a second, memory within a tenth of what it was after a warm-up, and at the end
an answer to every request that was begun.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from benchmarks.pressure import pressed
from benchmarks.serving import Server, prepare, serving
from powermark.interfaces.server.access import new_token

Beside = Callable[[httpx2.AsyncClient], Coroutine[Any, Any, None]]
_JSON = {"content-type": "application/json"}


class Clients:
    """Clients that send a request as soon as the last one is answered, and keep count."""

    def __init__(self, server: Server, bodies: list[bytes], number: int) -> None:
        self._server, self._bodies, self._number = server, bodies, number
        self.took: list[float] = []
        self.lost: list[float] = []

    async def run(self, more: Callable[[], bool], beside: Beside) -> None:
        """Ask while there is more to ask, and do something else beside."""
        limits = httpx2.Limits(max_connections=self._number + 1)
        async with httpx2.AsyncClient(
            base_url=self._server.url, timeout=120, limits=limits
        ) as http:
            other = asyncio.create_task(beside(http))
            await asyncio.gather(*(self._client(http, i, more) for i in range(self._number)))
            other.cancel()
            await asyncio.wait([other])

    async def _client(self, http: httpx2.AsyncClient, seed: int, more: Callable[[], bool]) -> None:
        rng = np.random.default_rng(seed)
        while more():
            body, start = self._bodies[int(rng.integers(len(self._bodies)))], time.perf_counter()
            try:
                answer = await http.post("/v1/detect", content=body, headers=_JSON)
                good = answer.status_code == 200 and "verdict" in answer.json()
            except httpx2.HTTPError:
                good = False
            (self.took if good else self.lost).append(time.perf_counter() - start)


def bear(server: Server, bodies: list[bytes], clients: int, seconds: float) -> dict[str, str]:
    """Load the server for some time."""
    asked, checks = Clients(server, bodies, clients), [0.0]

    async def watch(http: httpx2.AsyncClient) -> None:
        while True:
            start = time.perf_counter()
            (await http.get("/healthz")).raise_for_status()
            checks.append(time.perf_counter() - start)
            await asyncio.sleep(0.1)

    httpx2.post(f"{server.url}v1/detect", content=bodies[0], headers=_JSON, timeout=120)
    used, end = server.seconds(), time.perf_counter() + seconds
    asyncio.run(asked.run(lambda: time.perf_counter() < end, watch))
    used = server.seconds() - used
    told = httpx2.get(f"{server.url}metrics").text
    found = re.search(r"^powermark_tokenising_seconds_total (\S+)", told, re.M)
    tokenising = float(found[1]) / used if found else np.nan
    p50, p99 = 1000 * np.percentile(asked.took, [50, 99])
    health = float(np.percentile(checks, 99))
    _promise(not asked.lost, f"{len(asked.lost)} answers were lost or wrong")
    _promise(health < 1.0, "/healthz took more than a second")
    return {
        f"{clients} clients for {seconds:g} s": f"{len(asked.took):,} answers, "
        f"{len(asked.took) / seconds:.0f} a second; {len(asked.lost)} lost or wrong",
        "time of an answer": f"median {p50:.0f} ms, p99 {p99:.0f} ms",
        "tokenising": f"{tokenising:.0%} of the server's CPU time",
        "`/healthz` meanwhile": f"p99 {1000 * health:.0f} ms",
    }


def last(server: Server, bodies: list[bytes], clients: int, requests: int) -> dict[str, str]:
    """Send many requests and watch the server's memory."""
    asked = Clients(server, bodies, clients)
    seen: list[tuple[int, float]] = []
    left = iter(range(requests))

    async def watch(_: httpx2.AsyncClient) -> None:
        while True:
            seen.append((len(asked.took), server.memory()))
            await asyncio.sleep(0.5)

    asyncio.run(asked.run(lambda: next(left, None) is not None, watch))
    done, memory = np.array([*seen, (requests, server.memory())]).T
    warm, end = float(memory[done >= 0.1 * requests][0]), float(memory[-1])
    _promise(not asked.lost, f"{len(asked.lost)} answers were lost or wrong")
    _promise(end <= 1.1 * warm, f"memory grew from {warm:.0f} to {end:.0f} MiB")
    return {
        f"memory over {requests:,} requests": f"{warm:.0f} MiB after a tenth of them, "
        f"{end:.0f} at the end, {memory.max():.0f} at most"
    }


def stop(folder: Path, bodies: list[bytes], clients: int, seconds: float) -> dict[str, str]:
    """Tell a loaded server to stop, and start it again."""
    with serving(folder, folder / "first.log") as server:
        asked = Clients(server, bodies, clients)
        before = httpx2.get(f"{server.url}v1/specs").json()
        told: list[float] = []

        async def end(_: httpx2.AsyncClient) -> None:
            await asyncio.sleep(seconds)
            told.extend((time.perf_counter(), len(asked.took)))
            server.process.send_signal(signal.SIGTERM)

        asyncio.run(asked.run(lambda: not asked.lost, end))
        if not told:
            sys.exit("an answer was lost before the end")
        code = server.process.wait(60)
        took, after = time.perf_counter() - told[0], len(asked.took) - int(told[1])
        missing = server.answered() - len(asked.took)
    with serving(folder, folder / "second.log") as server:
        same = httpx2.get(f"{server.url}v1/specs").json() == before
    _promise(missing == 0, f"{missing} requests that the server had begun were not answered")
    _promise(code in (0, -signal.SIGTERM), f"the server ended with {code}")
    _promise(same, "a restart lost configuration")
    return {
        "`SIGTERM` under load": f"{after} requests answered after it, {missing} lost; ended in "
        f"{took:.1f} s",
        "after a restart": "the same specs" if same else "other specs",
    }


_broken: list[str] = []


def _promise(kept: bool, otherwise: str) -> None:
    if not kept:
        _broken.append(otherwise)


def _show(rows: dict[str, str]) -> None:
    for name, value in rows.items():
        print(f"| {name} | {value} |", flush=True)


def main() -> None:
    """Print what was measured; fail where a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bodies = prepare(folder)
        print("| texts of 50 to 2,000 tokens | |\n|---|---|")
        with serving(folder, folder / "load.log") as server:
            _show(bear(server, bodies, given.clients, given.seconds))
            _show(last(server, bodies, given.clients, given.requests))
        _show(stop(folder, bodies, given.clients, min(5.0, given.seconds)))
        tokens = folder / "tokens"
        both = [new_token(tokens, name, "inspect") for name in ("bench", "other")]
        options = ("--tokens", str(tokens), "--rate", "1000000")
        with serving(folder, folder / "pressed.log", *options, descriptors=1024) as server:
            _show(dict(pressed(server, both, bodies, given.seconds / 3)))
    if _broken:
        sys.exit("; ".join(_broken))


if __name__ == "__main__":
    main()
