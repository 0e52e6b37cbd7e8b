"""A server to ask: specs, keys and texts in a folder, on a tokenizer of 600 words."""

from __future__ import annotations

import io
import json
import threading
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
    (folder / "marked.txt").write_text(text_of(marked) + "\n")
    return Ready(folder, tokenizer, load_library(folder, [tokenizer]), marked)


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
def served(app: FastAPI) -> Iterator[str]:
    """Run an application on a real socket, and yield its address."""
    server, listener = server_of(app), listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def lines_of(logged: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in logged.getvalue().splitlines()]
