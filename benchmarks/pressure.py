"""A server under pressure: how long detection and ``/healthz`` take beside greedy clients.

Run by ``python -m benchmarks.serve``, or alone with ``python -m benchmarks.pressure``. One client
with a token sends texts of 200 tokens over one connection, each as soon as the last is answered.
Another asks ``/healthz`` five times a second, over a new connection each time. They do so alone,
beside two steered plans, beside 16 clients without a token that post bodies of 1 MiB, with 1,000
idle connections open, and with 700 that ask for a large file and never read it. Everything stays on
loopback.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from benchmarks.serving import Server, prepare, serving
from powermark.interfaces.server.access import new_token
from proof import crowd
from proof.crowd import Address

IDLE, SLOW, TOKENLESS, CLIENTS = 1_000, 700, 16, 32
_STEERED = {"n_tokens": 1000, "alpha": 0.01, "power": 0.95, "edit_rate": 0.05, "steer": True}
_PATIENCE = 30.0  # seconds after which an answer counts as lost


class Times(NamedTuple):
    """Seconds that answers took, and how many never came."""

    took: list[float]
    lost: int

    def __str__(self) -> str:
        if not self.took:
            return f"no answer, {self.lost} lost"
        p50, p99 = 1000 * np.percentile(self.took, [50, 99])
        lost = f", {self.lost} lost" if self.lost else ""
        return f"median {p50:.1f} ms, p99 {p99:.0f} ms{lost}"


class Asking:
    """One kind of request, with a token, over one connection or over new ones."""

    def __init__(self, address: Address, token: str, body: bytes | None = None) -> None:
        self._address, self._body = address, body
        self._headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}

    def once(self, http_: http.client.HTTPConnection, path: str) -> bool:
        """Ask, and return whether the answer is good."""
        method = "GET" if self._body is None else "POST"
        http_.request(method, path, self._body, self._headers)
        answer = http_.getresponse()
        answer.read()
        return answer.status == 200

    def repeatedly(self, path: str, end: float, pause: float = 0.0) -> Times:
        """Ask until the end; over one connection, or with a pause over a new one each time."""
        took, lost, connection = [], 0, None
        while time.perf_counter() < end:
            start = time.perf_counter()
            try:
                if connection is None or pause:
                    connection = http.client.HTTPConnection(*self._address, timeout=_PATIENCE)
                good = self.once(connection, path)
            except (OSError, http.client.HTTPException):
                good, connection = False, None
            if good:
                took.append(time.perf_counter() - start)
            else:
                lost += 1
            if pause and connection is not None:
                connection.close()
            time.sleep(pause)
        return Times(took, lost)


def measured(address: Address, token: str, body: bytes, seconds: float) -> dict[str, Times]:
    """Return the times of detection and of health checks at once."""
    end, found = time.perf_counter() + seconds, {}

    def healthy() -> None:
        found["healthz"] = Asking(address, token).repeatedly("/healthz", end, pause=0.2)

    checks = threading.Thread(target=healthy)
    checks.start()
    found["detect"] = Asking(address, token, body).repeatedly("/v1/detect", end)
    checks.join()
    return found


def throughput(address: Address, token: str, bodies: list[bytes], seconds: float) -> str:
    """Return how many texts a second many clients get answered."""
    end, found = time.perf_counter() + seconds, []

    def client(number: int) -> None:
        asking = Asking(address, token, bodies[number % len(bodies)])
        found.append(asking.repeatedly("/v1/detect", end))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    all_ = Times([took for one in found for took in one.took], sum(one.lost for one in found))
    return f"{len(all_.took) / seconds:.0f} a second, {all_}"


@contextmanager
def steered_plans(address: Address, tokens: Sequence[str]) -> Iterator[None]:
    """Keep asking for a steered plan for each token; a client may have one at a time."""
    done = threading.Event()

    def ask(token: str) -> None:
        asking = Asking(address, token, json.dumps(_STEERED).encode())
        while not done.is_set():
            with suppress(OSError, http.client.HTTPException):
                asking.once(http.client.HTTPConnection(*address, timeout=120), "/v1/plan")

    threads = [threading.Thread(target=ask, args=(each,), daemon=True) for each in tokens]
    for thread in threads:
        thread.start()
    time.sleep(1)
    yield
    done.set()


@contextmanager
def tokenless(address: Address) -> Iterator[None]:
    """Let clients without a token post large bodies, in a process of their own."""
    child = multiprocessing.get_context("spawn").Process(target=_post_large, args=(address,))
    child.start()
    time.sleep(3)
    yield
    child.terminate()
    child.join()


def _post_large(address: Address) -> None:
    text = "The council met again. " * (2**20 // 24)
    body = json.dumps({"spec": "bench", "text": text[: 2**20 - 100]}).encode()

    def client() -> None:
        asking = Asking(address, "none", body)
        while True:
            asking.repeatedly("/v1/detect", time.perf_counter() + 60)

    threads = [threading.Thread(target=client) for _ in range(TOKENLESS)]
    for thread in threads:
        thread.start()


def pressed(
    server: Server, tokens: Sequence[str], bodies: list[bytes], seconds: float
) -> Iterator[Any]:
    """Yield a row for each kind of company; detection has the first of two tokens."""
    token = tokens[0]
    found = urlsplit(server.url)
    address = (found.hostname or "", found.port or 0)
    body = bodies[len(bodies) // 3]  # about 170 tokens
    company: dict[str, Callable[[], Any]] = {
        "alone": ExitStack,
        "beside two steered plans": lambda: steered_plans(address, tokens),
        f"beside {TOKENLESS} clients without a token, 1 MiB each": lambda: tokenless(address),
        f"under {IDLE:,} idle connections": lambda: crowd.idle(address, IDLE),
        f"under {SLOW:,} connections that never read": lambda: crowd.slow(address, SLOW),
    }
    measured(address, token, body, 2)  # compiles
    for name, others in company.items():
        with others():
            times = measured(address, token, body, seconds)
        yield f"detect {name}", f"{times['detect']}"
        yield f"`/healthz` {name}", f"{times['healthz']}"
        yield f"memory {name}", f"{server.memory():.0f} MiB in all"
        time.sleep(1)
    yield f"detect, {CLIENTS} clients", throughput(address, token, bodies[50:100], seconds)


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, tokens = Path(place, "folder"), Path(place, "tokens")
        folder.mkdir()
        bodies = prepare(folder)
        both = [new_token(tokens, name, "inspect") for name in ("bench", "other")]
        options = ("--tokens", str(tokens), "--rate", "1000000")
        with serving(folder, Path(place, "log"), *options, descriptors=1024) as server:
            for name, value in pressed(server, both, bodies, given.seconds):
                print(f"| {name} | {value} |", flush=True)


if __name__ == "__main__":
    main()
