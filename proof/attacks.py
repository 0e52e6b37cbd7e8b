"""Attacks on a server: crowds of connections, texts of combining marks, secrets in its folder.

While an attack goes on, a client asks. An answer is **lost** where it differs from that of a server
left alone, or takes longer than :data:`LATE`; so is a health check.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from powermark.interfaces.server.access import new_token
from powermark.watermark.keys import PREFIX
from proof import crowd
from proof.crowd import Address
from proof.scenario import outcome
from proof.servers import ask, running, texts_to_ask
from proof.shop import CANARY, Shop

LATE = 5.0  # seconds; other work may share the machine
_FEW = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)); "
_MARKS = "\u0301\u0316" * 250_000  # a megabyte; by Python's own NFKC it takes minutes


def idle(*, folder: str, connections: int) -> dict[str, Any]:
    """Ask a server under connections that say nothing."""
    return _attacked(folder, "idle", lambda address: crowd.idle(address, connections))


def slow(*, folder: str, connections: int) -> dict[str, Any]:
    """Ask a server under connections that never read their answers."""
    return _attacked(folder, "slow", lambda address: crowd.slow(address, connections))


def marks(*, folder: str) -> dict[str, Any]:
    """Ask a server that normalises texts of a megabyte of combining marks."""
    return _attacked(folder, "marks", _posting_marks)


def _attacked(
    folder: str, name: str, attack: Callable[[Address], AbstractContextManager[Any]]
) -> dict[str, Any]:
    """Ask every text alone, then under an attack, each after a health check."""
    shop, texts = Shop(Path(folder)), texts_to_ask()
    place, took, lost = shop.place(f"{name}-{time.time_ns()}"), [], 0
    with running(shop, place / "log", _FEW) as port:
        alone = [ask(port, text) for text in texts]
        with attack(("127.0.0.1", port)):
            for text, wanted in zip(texts, alone, strict=True):
                start = time.monotonic()
                good = _is_healthy(port) and ask(port, text) == wanted
                took.append(time.monotonic() - start)
                lost += not good or not wanted or took[-1] > LATE
    said = f"the same answers, the slowest in {max(took):.1f} s"
    return outcome(len(texts), lost, shop.heard(place), said)


def _is_healthy(port: int) -> bool:
    try:
        return bool(_got(port, "/healthz", LATE))
    except (OSError, http.client.HTTPException):
        return False


def _got(port: int, path: str, patience: float = 60.0) -> bytes:
    """Return what a server answers over a new connection; nothing where that is an error."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=patience)) as asked:
        asked.request("GET", path)
        answer = asked.getresponse()
        return answer.read() if answer.status == 200 else b""


@contextmanager
def _posting_marks(address: Address) -> Iterator[None]:
    """Let a client post texts of marks, one after the other."""
    body = json.dumps({"spec": "canary", "text": _MARKS, "normalise": True}, ensure_ascii=False)
    headers, done = {"content-type": "application/json"}, threading.Event()

    def client() -> None:
        while not done.is_set():
            with closing(http.client.HTTPConnection(*address, timeout=600)) as asked:
                asked.request("POST", "/v1/detect", body.encode(), headers)
                asked.getresponse().read()

    thread = threading.Thread(target=client)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def secrets(*, folder: str) -> dict[str, Any]:
    """Put secrets where texts are served from: none may be served, and none may be printed."""
    shop, lost = Shop(Path(folder)), 0
    place = shop.place(f"served-secrets-{time.time_ns()}")
    with tempfile.TemporaryDirectory() as name:  # the search for the canary is not to find these
        shelf = Path(shutil.copytree(shop.shelf, Path(name, "shelf")))
        secret = _secrets(shelf)
        for file, write in secret.items():
            write(shelf / file)
        with running(shop, place / "log", "", shelf) as port:
            ask(port, texts_to_ask()[0])
            lost += json.loads(_got(port, "/v1/specs"))["examples"] != []
        (shelf / "examples").mkdir()
        for file, write in secret.items():
            write(shelf / "examples" / file)
            lost += not _is_refused(shop, shelf, place / f"log-{file}")
            (shelf / "examples" / file).unlink()
    return outcome(1 + len(secret), lost, shop.heard(place), "none served; refused where it would")


def _is_refused(shop: Shop, shelf: Path, log: Path) -> bool:
    """Whether a server says why it does not start."""
    options = ("--port", "0", "--tokenizer", str(shop.model))
    server = shop.begin(shop.command("serve", str(shelf), *options), log)
    try:
        return server.wait(60) == 2 and "every client would get it" in log.read_text()
    except subprocess.TimeoutExpired:
        return False
    finally:
        server.kill()
        server.wait()


def _secrets(shelf: Path) -> dict[str, Callable[[Path], object]]:
    """Return what may lie beside texts by mistake, and how to put it there."""
    digits = CANARY.hex()
    return {
        "backup.txt": lambda path: path.write_text(PREFIX + digits),
        "wide.txt": lambda path: path.write_text(PREFIX + digits, encoding="utf-16-le"),
        "bare.txt": lambda path: path.write_text(f"the key is {digits}"),
        "tokens.txt": lambda path: new_token(path, "alice", "detect"),
        "link.txt": lambda path: path.symlink_to(shelf / "canary.key"),
    }
