"""What a server must bear: the right status, no 5xx, no hang, and silence about secrets."""

import asyncio
import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from powermark.interfaces.server.access import Tokens, new_token
from powermark.interfaces.server.guard import Guard
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.schemas import DetectRequest
from powermark.interfaces.server.telemetry import Log, Metrics
from tests.interfaces.server import SECRET, Asked, Ready, asking, lines_of, text_of

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def asked(ready: Ready) -> Iterator[Asked]:
    with asking(ready.library, limits=Limits(body_bytes=20_000)) as found:
        yield found


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", JSON, 400),
        (b"", JSON, 422),
        (b"null", JSON, 422),
        (b"[" * 10_000, JSON, 400),
        (b'{"spec": "demo", "text": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", JSON, 400),
        (b'{"spec": "demo", "text": "\xff"}', JSON, 400),
        (b'{"spec": "demo", "text": "\\ud800"}', JSON, 422),
        (b'{"spec": "demo", "text": "w1", "alpha": NaN}', JSON, 422),
        (b'{"spec": "demo", "text": "w1", "alpha": 1e999}', JSON, 422),
        (b'{"spec": "demo", "text": "w1", "alpha": "0.5"}', JSON, 422),
        (b'{"spec": "demo", "text": "w1", "alpha": -1}', JSON, 422),
        (b'{"spec": "demo", "text": "w1", "other": 1}', JSON, 422),
        (b'{"spec": "demo", "text": "w1", "token_ids": [1]}', JSON, 422),
        (b'{"spec": "demo", "token_ids": [-1]}', JSON, 422),
        (b'{"spec": "demo", "token_ids": [' + b"9" * 5_000 + b"]}", JSON, 400),
        (b'{"spec": "demo"}', JSON, 422),
        (b'{"spec": "../demo", "text": "w1"}', JSON, 404),
        (b'{"spec": "/etc/passwd", "text": "w1"}', JSON, 404),
        (b'{"spec": "demo\\u0000", "text": "w1"}', JSON, 404),
        (b'{"spec": "", "text": "w1"}', JSON, 422),
        (b"x" * 30_000, JSON, 413),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"{}", {}, 415),
        (b"{}", {"content-type": "multipart/form-data; boundary=x"}, 415),
        (b"{}", JSON | {"content-length": "x"}, 413),
        (b"{}", JSON | {"host": "evil.example"}, 421),
        (b"{}", JSON | {"host": "127.0.0.1.evil.example:8000"}, 421),
        (b"{}", JSON | {"host": ""}, 421),
    ],
)
def test_what_is_wrong_is_refused(
    asked: Asked, content: bytes, headers: dict[str, str], status: int
) -> None:
    answer = asked.http.post("/v1/detect", content=content, headers=headers)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/", "/x"])
def test_only_the_pages_files_are_served(asked: Asked, path: str) -> None:
    assert asked.http.get(path).status_code == 404


def test_a_text_may_not_grow_beyond_the_limit(asked: Asked) -> None:
    """NFKC makes eighteen characters of one."""
    body = {"spec": "demo", "text": "\ufdfa" * 3_000}
    assert asked.post("/v1/detect", body)[0] == 200
    status, found = asked.post("/v1/detect", body | {"normalise": True})
    assert (status, found["error"]["code"]) == (413, "too-large")
    assert "too long when it is normalised" in found["error"]["message"]


@pytest.mark.parametrize(
    "fields", [{"token_ids": [""] * 2_000}, {"text": "w1", **{f"f{i}": 0 for i in range(1_000)}}]
)
def test_a_flood_of_errors_ends_at_the_first(fields: dict[str, Any]) -> None:
    """An error for each of a million values would hold the interpreter's lock for seconds."""
    with pytest.raises(ValidationError) as refused:
        DetectRequest.model_validate({"spec": "demo", **fields})
    assert refused.value.error_count() == 1


def test_other_methods_are_refused(asked: Asked) -> None:
    assert asked.http.get("/v1/detect").status_code == 405
    assert asked.http.request("BREW", "/healthz").status_code == 405
    assert asked.http.get("/healthz", headers={"host": "localhost:9"}).status_code == 200
    assert asked.http.get("/healthz", headers={"host": "[::1]:9"}).status_code == 200


def test_bodies_without_a_length_are_counted(asked: Asked) -> None:
    def pieces() -> Iterator[bytes]:
        yield from [b"x" * 8_000] * 5

    answer = asked.http.post("/v1/detect", content=pieces(), headers=JSON)
    assert answer.status_code == 413


def test_scripts_stay_text(asked: Asked) -> None:
    text = '<script>alert("x")</script> <img src=x onerror=alert(1)>'
    _, found = asked.post("/v1/detect", {"spec": "demo", "text": text, "tokens": True})
    assert "".join(piece["text"] for piece in found["pieces"]) == text
    page = asked.http.post("/v1/report", json={"spec": "demo", "text": text}).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    "presented",
    [
        "Bearer",
        "Bearer ",
        "Bearer x y",
        "Bearer " + "x" * 10_000,
        "Bearer \xe9",
        "bearer null",
        "x",
    ],
)
def test_bad_tokens_are_refused(ready: Ready, tmp_path: Path, presented: str) -> None:
    new_token(tmp_path / "t", "alice", "inspect")
    with asking(ready.library, tokens=Tokens.load(tmp_path / "t")) as asked:
        answer = asked.http.get("/v1/specs", headers=[(b"authorization", presented.encode())])
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "token")


@pytest.mark.parametrize("signal", ["mixture", "topics"])
def test_a_mixture_is_not_repeated(asked: Asked, signal: str) -> None:
    body = {"n_tokens": 50, "alpha": 0.05, "power": 0.9, "signal": signal}
    for mixture in ("/etc/passwd", "<b>private</b>:1", "private", "1=private:1"):
        answer = asked.http.post("/v1/plan", json=body | {signal: mixture})
        assert answer.status_code == 422
        assert "passwd" not in answer.text
        assert "private" not in answer.text


def test_at_once_and_again_give_the_same(asked: Asked, ready: Ready) -> None:
    body = {"spec": "demo", "text": text_of(ready.marked)}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: asked.post("/v1/detect", body), range(24)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][1]["verdict"] == "watermarked"


def test_logs_hold_no_text_key_or_token(
    ready: Ready, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = new_token(tmp_path / "t", "alice", "inspect")
    headers = {"Authorization": f"Bearer {token}"}
    with asking(ready.library, tokens=Tokens.load(tmp_path / "t")) as asked:
        body = {"spec": "demo", "text": "w17 private words", "prompt": "private prompt"}
        answers = [
            asked.http.post("/v1/detect?private=query", json=body, headers=headers),
            asked.http.post("/v1/detect", json=body | {"spec": "private"}, headers=headers),
            asked.http.post("/v1/detect", json=body | {"private": 1}, headers=headers),
            asked.http.post("/v1/detect", json=body | {"alpha": "private"}, headers=headers),
            asked.http.post("/v1/detect", json=body, headers={"Authorization": "Bearer private"}),
            asked.http.post("/private", json=body),
        ]
        wrong = RuntimeError("private message")
        with pytest.MonkeyPatch.context() as patch:

            def broken(*_: object) -> None:
                raise wrong

            patch.setattr("powermark.interfaces.server.service.Service.detect", broken)
            answers.append(asked.http.post("/v1/detect", json=body, headers=headers))
    assert [answer.status_code for answer in answers] == [200, 404, 422, 422, 401, 404, 500]
    said = asked.logged.getvalue() + "".join(capsys.readouterr())
    said += "".join(answer.text for answer in answers[1:])
    for secret in ("private", "w17", token, SECRET):
        assert secret not in said
    errors = [line for line in lines_of(asked.logged) if line["event"] == "error"]
    assert errors[0]["kind"] == "RuntimeError"
    assert errors[0]["where"][-1].startswith("broken:")


def _scope(method: str = "POST") -> dict[str, Any]:
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    return {"type": "http", "method": method, "path": "/", "headers": headers}


def _through(app: Any, receive: Any, method: str = "POST") -> list[dict[str, Any]]:
    """Send one request through a guard and return what it sent."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    guard = Guard(
        app,
        limits=Limits(client_seconds=0.05, body_bytes=10),
        log=Log(io.StringIO()),
        metrics=Metrics(),
        local=True,
    )
    asyncio.run(guard(_scope(method), receive, send))
    return sent


async def _read(scope: Any, receive: Any, send: Any) -> None:
    del scope, send
    while True:
        await receive()


def test_slow_bodies_end() -> None:
    async def never() -> Any:
        await asyncio.sleep(5)

    sent = _through(_read, never)
    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["error"]["code"] == "too-slow"


def test_waiting_for_the_end_of_a_connection_is_not_slow() -> None:
    messages = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await asyncio.sleep(0.1)  # longer than the guard's patience
        raise KeyError

    assert _through(_read, receive)[0]["status"] == 500
    assert _through(_read, receive, "GET")[0]["status"] == 500


def test_an_answer_that_breaks_off_is_left_so() -> None:
    async def half(scope: Any, receive: Any, send: Any) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError

    async def receive() -> Any: ...

    assert [message["type"] for message in _through(half, receive)] == ["http.response.start"]


def test_what_is_no_request_passes(ready: Ready) -> None:
    seen: list[str] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        del receive, send
        seen.append(scope["type"])

    guard = Guard(inner, limits=Limits(), log=Log(), metrics=Metrics(), local=True)
    asyncio.run(guard({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]
    assert ready.marked
