"""The door before a server: which bodies pass, unchanged, and which are answered."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from powermark.engines.gate import Gate, mark_fields
from powermark.errors import InvalidInput


def refuse(fields: Mapping[str, Any]) -> None:
    if found := mark_fields(fields, "inner"):
        raise InvalidInput(f"not here: {sorted(found)}.")


def ask(pieces: list[bytes], *, method: str = "POST", kind: str = "http") -> tuple[bytes, Any]:
    """Return what the application read, and the answer's status and body."""
    more = [True] * (len(pieces) - 1) + [False]
    waiting: list[dict[str, Any]] = [
        {"type": "http.request", "body": piece, "more_body": rest}
        for piece, rest in zip(pieces, more, strict=True)
    ]
    waiting.append({"type": "http.disconnect"})
    read, sent = [], []

    async def app(_: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            read.append(message["body"])
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(Gate(app, refuse)({"type": kind, "method": method}, receive, send))
    return b"".join(read), (sent[0]["status"], sent[-1].get("body"))


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "about powermark", "vllm_xargs": {"powermark": "a"}},
        {"messages": [{"content": '{"powermark": "a"}'}]},
        {"inner": ["powermark"]},
        ["powermark"],
        {"prompt": "about something else"},
    ],
)
def test_other_bodies_pass_as_they_are(body: Any) -> None:
    sent = json.dumps(body).encode()
    assert ask([sent[:7], sent[7:]]) == (sent, (200, None))


@pytest.mark.parametrize(
    "body",
    [
        b'{"powermark": "a", "prompt": "x"}',
        b'{"powermark_spec": 1}',
        b'{"inner": {"powermark": "off"}}',
        b'--x\r\nContent-Disposition: form-data; name="powermark"\r\n\r\na\r\n--x--',
    ],
)
def test_stray_wishes_are_answered_in_words(body: bytes) -> None:
    read, (status, answer) = ask([body])
    assert read == b""
    assert status == 400
    error = json.loads(answer)["error"]
    assert error["param"] == "powermark"
    assert error["message"].startswith("not here: ['powermark")


def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    """Nobody can know what it says of marks."""
    read, (status, answer) = ask([b'{"powermark": ' + b"[" * 100_000])
    assert (read, status) == (b"", 400)
    assert b"the body is nested too deeply to be read." in answer


def test_only_posts_are_read() -> None:
    stray = b'{"powermark": "a"}'
    assert ask([stray], method="GET") == (stray, (200, None))
    assert ask([stray], kind="websocket") == (stray, (200, None))
