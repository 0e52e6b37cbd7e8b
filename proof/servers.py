"""Faults of servers: killed under load, and with a clock that jumps."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import numpy as np

from proof.scenario import JUMPS, outcome
from proof.shop import Shop, words

_CLIENTS = 8
_PATIENCE = 120.0  # seconds in which a server must be there again
_PAUSE = 0.05


def kill(*, folder: str, kills: int) -> dict[str, Any]:
    """Kill a server under load and start it again; every question must be answered, and rightly."""
    shop = Shop(Path(folder))
    place = shop.place(f"kill-server-{time.time_ns()}")
    port, rng, texts = _free_port(), np.random.default_rng(0), texts_to_ask()
    answers: list[tuple[int, bytes]] = []
    ended = threading.Event()

    def client(number: int) -> None:
        while not ended.is_set():
            number = (number + 1) % len(texts)
            answers.append((number, ask(port, texts[number])))

    server = shop.begin(_command(shop, port), place / "log")
    wanted = [ask(port, text) for text in texts]
    clients = [threading.Thread(target=client, args=(number,)) for number in range(_CLIENTS)]
    for thread in clients:
        thread.start()
    for _ in range(kills):
        time.sleep(rng.uniform(0.0, 2.0))
        server.send_signal(signal.SIGKILL)
        server.wait()
        server = shop.begin(_command(shop, port), place / "log")
        ask(port, texts[0])
    ended.set()
    for thread in clients:
        thread.join()
    server.terminate()
    server.wait()
    lost = sum(answer != wanted[number] or not answer for number, answer in answers)
    (place / "answers").write_bytes(b"\n".join(wanted))
    said = f"{len(answers)} questions under load, all answered in the end"
    return outcome(kills, lost, shop.heard(place), said)


def clock_jumps(*, folder: str) -> dict[str, Any]:
    """Ask a server whose wall clock jumps by thirty years at every look."""
    shop, texts = Shop(Path(folder)), texts_to_ask()
    place = shop.place(f"clock-server-{time.time_ns()}")
    answers = []
    for before in ("", JUMPS):
        with running(shop, place / "log", before) as port:
            answers.append([ask(port, text) for text in texts])
    lost = sum(one != other or not one for one, other in zip(*answers, strict=True))
    return outcome(len(texts), lost, shop.heard(place), "the same answers")


@contextmanager
def running(shop: Shop, log: Path, before: str, shelf: Path | None = None) -> Iterator[int]:
    """Run a server, and end it at the end."""
    port = _free_port()
    server = shop.begin(_command(shop, port, before, shelf), log)
    try:
        yield port
    finally:
        server.terminate()
        server.wait()


def _command(shop: Shop, port: int, before: str = "", shelf: Path | None = None) -> list[str]:
    options = ("--port", str(port), "--tokenizer", str(shop.model))
    return shop.command("serve", str(shelf or shop.shelf), *options, before=before)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def texts_to_ask() -> list[str]:
    """Return texts of many lengths."""
    rng = np.random.default_rng(0)
    return [words(rng.integers(2, 200, n).tolist()) for n in rng.integers(20, 300, 50)]


def ask(port: int, text: str) -> bytes:
    """Ask until there is an answer; nothing if there is none in time, or if it is an error.

    A server that is starting refuses connections, or lets them wait; it never answers that it is
    not ready. So every error that it answers is an answer lost.
    """
    end = time.monotonic() + _PATIENCE
    body = json.dumps({"spec": "canary", "text": text}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/detect", body, {"content-type": "application/json"}
    )
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                return bytes(answer.read())
        except HTTPError as error:
            error.close()
            return b""
        except (OSError, HTTPException):
            time.sleep(_PAUSE)
    return b""
