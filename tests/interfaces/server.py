"""A server to ask: specs, keys and texts in a folder, on a tokenizer of 600 words."""

from __future__ import annotations

import http.client
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fastapi import FastAPI
from starlette.testclient import TestClient

from powermark import plan
from powermark.interfaces.server.access import Tokens
from powermark.interfaces.server.app import create_app
from powermark.interfaces.server.library import Library, load_library
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.run import listen, server_of
from powermark.interfaces.server.service import Service, new_service
from powermark.interfaces.server.telemetry import Log
from powermark.models.tokenizer import FileTokenizer
from powermark.watermark.keys import PREFIX, SecretKey
from powermark.watermark.spec import WatermarkSpec, digest_of
from tests.detection.marked import marked_ids

SECRET = bytes(range(32)).hex()
WORDS = 600


class Ready(NamedTuple):
    """A folder, what was read from it, and a marked text."""

    folder: Path
    tokenizer: Any
    library: Library
    marked: list[int]


class Asked(NamedTuple):
    """A client of a running application, its service, and what it logged."""

    http: TestClient
    service: Service
    logged: io.StringIO

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        answer = self.http.post(path, json=body, headers=headers)
        return answer.status_code, answer.json()


def text_of(ids: list[int]) -> str:
    return " ".join(f"w{i}" for i in ids)


def write_tokenizer(folder: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder.mkdir()
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save(str(folder / "tokenizer.json"))
    return folder


def write_key(path: Path) -> None:
    path.write_text(PREFIX + SECRET)
    path.chmod(0o600)


def make_ready(place: Path) -> Ready:
    """Write what a demo leaves behind, in little."""
    tokenizer = FileTokenizer(write_tokenizer(place / "words") / "tokenizer.json")
    folder = place / "shelf"
    folder.mkdir()
    key = SecretKey(bytes.fromhex(SECRET))
    best = plan(n_tokens=80, alpha=0.01, power=0.95, edit_rate=0.05)
    spec = WatermarkSpec.from_plan(
        best,
        vocab_size=WORDS,
        tokenizer_digest=digest_of(tokenizer),
        key_fingerprint=key.fingerprint,
    )
    spec.save(folder / "demo.json")
    write_key(folder / "demo.key")
    marked = marked_ids(spec, key, 120, np.random.default_rng(0))
    (folder / "examples").mkdir()
    (folder / "examples" / "marked.txt").write_text(text_of(marked) + "\n")
    return Ready(folder, tokenizer, load_library(folder, [tokenizer]), marked)


def copied(ready: Ready, place: Path) -> Path:
    """Return a copy of what is served, to change."""
    return Path(shutil.copytree(ready.folder, place / "shelf"))


class Running(NamedTuple):
    """``powermark serve`` in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def get(self, path: str, *, host: str = "127.0.0.1", patience: float = 10) -> tuple[int, bytes]:
        """Ask over a new connection."""
        http_ = http.client.HTTPConnection(host, self.port, timeout=patience)
        http_.request("GET", path)
        answer = http_.getresponse()
        found = answer.read()
        http_.close()
        return answer.status, found


@contextmanager
def running_on(ready: Ready, *options: str, descriptors: int | None = None) -> Iterator[Running]:
    """Serve a folder, with so many file descriptors at most, and wait until it answers."""

    def limit() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    code = "import sys; from powermark.interfaces.cli import main; main(sys.argv[1:])"
    words = str(ready.folder.parent / "words")
    command = ["serve", str(ready.folder), "--port", "0", "--tokenizer", words, *options]
    log = Path(tempfile.mkdtemp(dir=ready.folder.parent), "log")
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *command], stderr=stream, preexec_fn=limit,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    try:
        while not (said := log.read_text().partition("\n")[0]):
            assert process.poll() is None
            time.sleep(0.05)
        server = Running(process, int(said.split()[1].rstrip("/").rpartition(":")[2]), log)
        host = options[options.index("--host") + 1] if "--host" in options else "127.0.0.1"
        server.get("/healthz", host=host, patience=60)  # connections wait until it is ready
        yield server
    finally:
        process.kill()
        process.wait()


@contextmanager
def asking(
    library: Library,
    *,
    limits: Limits | None = None,
    tokens: Tokens | None = None,
    model: Any = None,
) -> Iterator[Asked]:
    logged = io.StringIO()
    service = new_service(
        library, limits=limits, tokens=tokens, threads=1, log=Log(logged), model=model
    )
    with TestClient(
        create_app(service), base_url="http://127.0.0.1:8000", raise_server_exceptions=False
    ) as http:
        yield Asked(http, service, logged)


@contextmanager
def served(app: FastAPI, limits: Limits | None = None) -> Iterator[str]:
    """Run an application on a real socket, and yield its address."""
    server, listener = server_of(app, limits), listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def lines_of(logged: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in logged.getvalue().splitlines()]
