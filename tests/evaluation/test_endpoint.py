"""verify --endpoint on a small server of our own, which marks as an engine does."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark.errors import EngineProblem, InvalidInput
from powermark.evaluation.endpoint import Answers, Endpoint
from powermark.watermark.embed import scheme_of
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Scheme
from powermark.watermark.spec import WatermarkSpec
from tests.evaluation.conftest import VOCAB
from tests.integrations.served import SECRETS, save_key
from tests.interfaces.test_cli import Run, run

__all__ = ["run"]  # a fixture
END = 1


class Server(ThreadingHTTPServer):
    """Draws words uniformly, or by the mark, and streams them."""

    daemon_threads = True
    scheme: Scheme
    delta = 0.0
    tells_ids = True
    fault: str | None = None
    secret: str | None = None

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
        models = [] if self.server.fault == "no model" else [{"id": "words"}]
        self._send(200, json.dumps({"data": models}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.secret = self.headers["Authorization"]
        assert (body["model"], body["stream"]) == ("words", True)
        if not body["prompt"]:
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
            choice: dict[str, Any] = {"text": text}
            choice |= {"token_ids": part} if self.server.tells_ids else {}
            if self.server.tells_ids and (head := body.get("logprobs")):
                choice["logprobs"] = self.server.likeliest(part, head)
            yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        yield 'data: {"choices": []}\n\ndata: [DONE]\n\n'

    def _send(self, code: int, content: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(content.encode())


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def job(
    run: Run, server: Server, writer_folder: Path, prompts_file: Path, tmp_path: Path
) -> tuple[str, ...]:
    """A plan for the writer's words, on the server and on disk."""
    key, mark = save_key(tmp_path / "k.key", SECRETS["old"]), tmp_path / "s.json"
    code, _, err = run("plan", "--n-tokens", "30", "--alpha", ".05", "--power", ".9", "--gamma",
                       ".5", "--model", str(writer_folder), "-o", str(mark))  # fmt: skip
    assert code == 0, err
    spec = WatermarkSpec.load(mark)
    server.scheme, server.delta = scheme_of(spec, SecretKey(SECRETS["old"])), spec.delta
    return (
        "verify", "--spec", str(mark), "--key", str(key), "--model", str(writer_folder),
        "--prompts", str(prompts_file), "--texts", "16", "--batch", "8",
        "--endpoint", f"http://127.0.0.1:{server.server_port}/v1",
    )  # fmt: skip


def test_a_server_that_keeps_its_promise(
    run: Run, job: tuple[str, ...], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    code, out, err = run(*job, "--mark", "s", "--served-model", "words", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert [check["name"] for check in found["checks"]] == ["gamma_prime", "power", "size"]
    assert (found["texts"], found["marked"], found["broken"]) == (16, 16, [])
    assert found["speed"].keys() == {"marked", "unmarked", "lost"}
    assert "of 16 marked requests" in " ".join(found["notes"])
    assert server.secret == "Bearer canary"
    assert "canary" not in out + err


def test_a_server_that_does_not_mark(
    run: Run, job: tuple[str, ...], server: Server, tmp_path: Path
) -> None:
    server.delta, server.tells_ids = 0.0, False
    code, out, _ = run(*job, "--no-compare", "--html", str(tmp_path / "page.html"))
    assert code == 1
    assert "The promise is broken" in out
    assert "unmarked requests" not in out
    assert "its texts were tokenised again" in out
    assert (tmp_path / "page.html").exists()


def test_without_prompts_it_is_asked_for_anything(run: Run, job: tuple[str, ...]) -> None:
    without = [word for word in job if word not in job[7:9]]
    code, out, err = run(*without, "--no-compare")
    assert code == 0, err
    assert "The promise holds" in out


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no model", "/v1/models names no model"),
        ("refused", "/v1/completions answers 400: no mark named 'x' here"),
        ("broken", "answers 500: Internal Server Error"),
        ("stops", "the server stopped: out of memory"),
        ("nonsense", "broke off in the middle of an answer (KeyError('choices'))"),
    ],
)
def test_faults_are_told_in_words(
    run: Run, job: tuple[str, ...], server: Server, fault: str, words: str
) -> None:
    server.fault = fault
    code, _, err = run(*job)
    assert code == 2
    assert words in err


def test_what_cannot_be_asked(run: Run, job: tuple[str, ...], tmp_path: Path) -> None:
    assert "-o does not keep" in run(*job, "-o", str(tmp_path / "t.jsonl"))[2]
    assert "are for --endpoint" in run(*job[:-2], "--mark", "s")[2]
    with pytest.raises(InvalidInput, match="an http or https address; got 'ftp://x'"):
        Endpoint("ftp://x")
    for odd in (
        "http://[",
        "http://127.0.0.1:x/v1",
        "http://127.0.0.1:0",
        "http:// x",
        "http://\n",
    ):
        with pytest.raises(InvalidInput, match="an http or https address"):
            Endpoint(odd)
    with pytest.raises(InvalidInput, match="holds no name or password") as caught:
        Endpoint("http://me:secret@127.0.0.1/v1")
    assert "secret" not in str(caught.value)
    with pytest.raises(EngineProblem, match="cannot reach"):
        Endpoint("http://127.0.0.1:1/v1", timeout=1.0).first_model()


def test_speed_is_compared_round_by_round() -> None:
    answers = Answers(speeds={"marked": [90.0, 40.0, 97.0], "unmarked": [100.0, 50.0, 100.0]})
    assert answers.speed() == {"marked": 90.0, "unmarked": 100.0, "lost": pytest.approx(0.1)}
    assert Answers(speeds={"marked": [3.0], "unmarked": []}).speed() == {"marked": 3.0}
    silent = Answers(speeds={"marked": [3.0], "unmarked": [0.0]}).speed()
    assert silent == {"marked": 3.0, "unmarked": 0.0}


def test_a_secret_that_no_header_can_carry_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Endpoint("http://127.0.0.1:1/v1", timeout=1.0)
    for secret in ("sk-12\n34", "sk-\u20ac", "sk-\x00"):
        monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": secret})
        with pytest.raises(InvalidInput, match="OPENAI_API_KEY holds what no") as caught:
            asked.first_model()
        assert "sk-" not in str(caught.value)
    monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": "sk-good\n"})  # as files end
    with pytest.raises(EngineProblem, match="cannot reach"):
        asked.first_model()


def test_what_is_no_http_server_is_told_in_words() -> None:
    for answer in (b"SSH-2.0\r\n", b""):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]

            def once(answer: bytes = answer, listener: socket.socket = listener) -> None:
                peer, _ = listener.accept()
                with peer:
                    peer.recv(1000)
                    peer.sendall(answer)

            thread = threading.Thread(target=once)
            thread.start()
            with pytest.raises(EngineProblem, match="cannot reach"):
                Endpoint(f"http://127.0.0.1:{port}/v1", timeout=5.0).first_model()
            thread.join()
