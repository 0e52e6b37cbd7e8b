"""A small OpenAI-compatible server that marks as an engine does."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from powermark.watermark.scheme import Scheme
from tests.conftest import VOCAB

END = 1


class Server(ThreadingHTTPServer):
    """Draws words uniformly, or by the mark, and streams them."""

    daemon_threads = True
    scheme: Scheme
    delta = 0.0
    tells_ids = True
    fault: str | None = None
    secret: str | None = None
    moved: str | None = None

    def words(self, body: dict[str, Any]) -> list[int]:
        rng, ids = np.random.default_rng(body["seed"]), [5, 6]
        marked = body.get("vllm_xargs", {}).get("powermark") != "off"
        for _ in range(body["max_tokens"] - 1):
            logits = rng.gumbel(size=(1, VOCAB)).astype(np.float32)
            logits[:, :2] = -np.inf  # never a special token
            self.scheme.add_bias(logits, [ids[-2:]], self.delta if marked else 0.0)
            ids.append(int(logits.argmax()))
        return [*ids[2:], END]

    def likeliest(self, ids: list[int], head: int) -> dict[str, Any]:
        """Name some words, and beside them the one that was drawn, as vLLM does."""
        each = -float(np.log(VOCAB - 2))
        some = [{f"token_id:{i}": each for i in {*range(2, 2 + head), drawn}} for drawn in ids]
        names = [f"token_id:{i}" for i in ids]
        return {
            "tokens": names if self.fault != "words" else ["w"] * len(ids),
            "top_logprobs": some,
        }


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ARG002
        return

    def do_GET(self) -> None:
        self.server.secret = self.headers["Authorization"]
        if self.server.moved and self.path != "/moved":
            self.send_response(302)
            self.send_header("Location", self.server.moved)
            self.end_headers()
            return
        models = [] if self.server.fault == "no model" else [{"id": "words"}]
        self._send(200, json.dumps({"data": models}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.secret = self.headers["Authorization"]
        assert (body["model"], body["stream"]) == ("words", True)
        assert self.path.endswith("/chat/completions") == ("messages" in body)
        if not (body.get("prompt") or body.get("messages")):
            self._send(400, json.dumps({"error": {"message": "the prompt is empty"}}))
        elif self.server.fault == "refused":
            self._send(400, json.dumps({"error": {"message": "no mark named 'x' here"}}))
        elif self.server.fault == "broken":
            self._send(500, "<html>")
        elif self.server.fault == "nonsense":
            self._send(200, 'data: {"x": 1}\n\n')
        elif self.server.fault == "stops":
            self._send(200, 'data: {"error": "out of memory"}\n\n')
        else:
            self._send(200, "".join(self._pieces(body)))

    def _pieces(self, body: dict[str, Any]) -> Iterator[str]:
        ids = self.server.words(body)
        yield ": hello\n\n"
        for part in (ids[:3], ids[3:]):
            text = "".join(f" w{i}" for i in part if i != END)
            chat = "messages" in body
            choice: dict[str, Any] = {"delta": {"content": text}} if chat else {"text": text}
            choice |= {"token_ids": part} if self.server.tells_ids else {}
            head = body.get("top_logprobs") if chat else body.get("logprobs")
            if self.server.tells_ids and head:
                found = self.server.likeliest(part, head)
                choice["logprobs"] = _of_chat(found) if chat else found
            yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        yield 'data: {"choices": []}\n\ndata: [DONE]\n\n'

    def _send(self, code: int, content: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(content.encode())


def _of_chat(found: dict[str, Any]) -> dict[str, Any]:
    """Return logprobs as a chat has them: an object for each token."""
    steps = [
        [{"token": name, "logprob": value} for name, value in step.items()]
        for step in found["top_logprobs"]
    ]
    pairs = zip(found["tokens"], steps, strict=True)
    return {"content": [{"token": token, "top_logprobs": step} for token, step in pairs]}


@contextmanager
def running() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()
