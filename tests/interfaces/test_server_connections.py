"""What one client can do to a server's connections: little, and never to a health check."""

import asyncio
import io
import json
import logging
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi import FastAPI
from fastapi.responses import Response

from powermark.errors import InvalidInput
from powermark.interfaces.server import run as running
from powermark.interfaces.server.access import Tokens, new_token
from powermark.interfaces.server.app import create_app
from powermark.interfaces.server.connections import BoundedProtocol, Connections, _network
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.service import new_service
from powermark.interfaces.server.telemetry import Log, LogHandler
from proof import crowd
from tests.interfaces.server import Ready, Running, running_on, served, text_of

FEW, MANY = 256, 300  # descriptors, for 64 connections, 32 from one address; clients


@pytest.fixture(scope="module")
def small(ready: Ready) -> Iterator[Running]:
    """A server with few descriptors that wants a token."""
    new_token(ready.folder.parent / "tokens", "all", "inspect")
    options = ("--tokens", str(ready.folder.parent / "tokens"))
    with running_on(ready, *options, descriptors=FEW) as server:
        yield server


class Near(NamedTuple):
    """A server in this process."""

    port: int


@pytest.fixture
def near(ready: Ready, tokens: tuple[Tokens, dict[str, str]]) -> Iterator[Near]:
    """The whole application, which wants a token and has patience."""
    service = new_service(ready.library, tokens=tokens[0], threads=1, log=Log(io.StringIO()))
    with served(create_app(service), Limits(client_seconds=60)) as url:
        yield Near(port_of(url))


def port_of(url: str) -> int:
    return int(url.rstrip("/").rpartition(":")[2])


def checks(server: Running, number: int = 5) -> list[float]:
    """Return how long health checks take."""
    took = []
    for _ in range(number):
        start = time.monotonic()
        assert server.get("/healthz", patience=5)[0] == 200
        took.append(time.monotonic() - start)
    return took


def connected(server: Running | Near) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def log_lines(server: Running) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.log.read_text().splitlines()[1:]]


def test_idle_connections_keep_nobody_out(small: Running) -> None:
    with crowd.idle(("127.0.0.1", small.port), MANY):
        assert max(checks(small)) < 2
    assert not [line for line in log_lines(small) if line["event"] == "error"]


def test_readers_that_never_read_keep_nobody_out(small: Running) -> None:
    with crowd.slow(("127.0.0.1", small.port), MANY):
        assert max(checks(small)) < 2
    lines = log_lines(small)
    assert not [line for line in lines if line["event"] == "error"], lines[-3:]
    assert checks(small, 1)


def test_tokens_come_before_bodies(small: Running) -> None:
    """The answer does not wait for a body that has not been sent."""
    head = b"POST /v1/detect HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with connected(small) as client:
        client.sendall(head + b"Content-Length: 1000000\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 401 ")


def test_what_follows_a_refusal_is_read_to_a_limit(near: Near) -> None:
    """A client that sends on and on after its answer is cut off."""
    head = b"POST /v1/detect HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    sent = 0
    with connected(near) as client:
        client.sendall(head + b"Content-Length: 999999999999\r\n\r\n")
        assert b"413" in client.recv(100)
        with suppress(ConnectionError):
            while sent < 200 << 20:
                client.sendall(bytes(1 << 20))
                sent += 1 << 20
    assert sent < 100 << 20


def test_refused_bodies_are_read_slowly(near: Near) -> None:
    """Many clients without a token would keep the event loop busy with what nobody wants."""
    head = b"POST /v1/detect HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with connected(near) as client:
        client.sendall(head + b"Content-Length: 900000\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}}"):
            answer += client.recv(1_000)
        assert answer.startswith(b"HTTP/1.1 401 ")
        start = time.monotonic()
        client.sendall(bytes(900_000) + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        assert time.monotonic() - start > 0.2


def test_answers_on_kept_connections_come_at_once(ready: Ready) -> None:
    """Without TCP_NODELAY every answer waits 40 ms for the client's acknowledgement."""
    body = json.dumps({"spec": "demo", "text": text_of(ready.marked)}).encode()
    head = f"POST /v1/detect HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    request = f"{head}Content-Type: application/json\r\n\r\n".encode() + body
    took = []
    with running_on(ready) as server, connected(server) as client:
        for _ in range(30):
            start = time.monotonic()
            client.sendall(request)
            answer = b""
            while not answer.endswith(b"}"):
                answer += client.recv(65_536)
            took.append(time.monotonic() - start)
    assert sorted(took)[10] < 0.03  # a third at least; 2 ms on a machine that does nothing else


def test_marks_do_not_stop_the_server(ready: Ready) -> None:
    """A text of a million bytes of combining marks, normalised: it took five minutes."""
    text = "\u0301\u0316" * 250_000
    body = json.dumps({"spec": "demo", "text": text, "normalise": True}, ensure_ascii=False)
    head = f"POST /v1/detect HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body.encode())}"
    request = f"{head}\r\nContent-Type: application/json\r\n\r\n{body}".encode()
    with running_on(ready) as server, connected(server) as client:
        client.sendall(request)
        assert max(checks(server, 20)) < 1
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.fixture
def impatient() -> Iterator[tuple[str, int]]:
    """A server with an answer of 16 MB that must be read within half a second a part."""
    app = FastAPI(openapi_url=None)
    app.add_api_route("/", lambda: Response(bytes(16 << 20)), response_class=Response)
    with served(app, Limits(client_seconds=0.5)) as url:
        yield "127.0.0.1", port_of(url)


def test_an_answer_that_is_not_read_is_given_up(impatient: tuple[str, int]) -> None:
    with socket.create_connection(impatient, timeout=30) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(2)
        read = 0
        with suppress(ConnectionError):
            while part := client.recv(1 << 20):
                read += len(part)
    assert 0 < read < 16 << 20


def test_an_end_of_an_answer_that_is_not_read_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So little of it is left that asyncio never says that the client does not keep up."""

    def small_buffer(host: str, port: int) -> socket.socket:
        listener = running.listen(host, port)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        return listener

    monkeypatch.setattr("tests.interfaces.server.listen", small_buffer)
    app = FastAPI(openapi_url=None)
    app.add_api_route("/", lambda: Response(bytes(60_000)), response_class=Response)
    read = 0
    with served(app, Limits(client_seconds=0.5)) as url, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.settimeout(30)
        client.connect(("127.0.0.1", port_of(url)))
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(2)
        with suppress(ConnectionError):
            while part := client.recv(1 << 16):
                read += len(part)
    assert 0 < read < 60_000


def test_an_answer_that_is_read_slowly_but_steadily_is_not(impatient: tuple[str, int]) -> None:
    read = 0
    with socket.create_connection(impatient, timeout=30) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while read < 16 << 20:
            part = client.recv(1 << 20)
            assert part
            read += len(part)
            time.sleep(0.02)


class _Client:
    """As much of a connection as the count of connections looks at."""

    def __init__(self, address: str, since: float | None, *, answered: bool = False) -> None:
        self.address, self.waiting_since, self.answered = address, since, answered
        self.ended = False

    def end(self) -> None:
        self.ended = True


def test_room_is_made_by_the_connection_that_waits_longest() -> None:
    connections = Connections(Limits(connections=8))

    def admit(*clients: _Client) -> list[bool]:
        found = [connections.admit(client) for client in clients]  # type: ignore[arg-type]
        for client in clients:
            if client.ended:
                connections.remove(client)  # type: ignore[arg-type]
        return found

    kept = _Client("a", 1.0, answered=True)
    first, second, busy = _Client("a", 2.0), _Client("a", 3.0), _Client("a", None)
    assert admit(kept, second, first, busy) == [True] * 4
    assert admit(_Client("a", 4.0)) == [True]  # half of eight: one address may have no more
    assert (first.ended, second.ended, kept.ended) == (True, False, False)
    connections.remove(first)  # type: ignore[arg-type]
    others = [_Client(name, None) for name in "bcde"]
    assert admit(*others) == [True] * 4
    assert admit(_Client("f", None)) == [True]
    assert second.ended
    connections.remove(second)  # type: ignore[arg-type]
    workers = Connections(Limits(connections=2))
    assert workers.admit(_Client("a", None))  # type: ignore[arg-type]
    assert not workers.admit(_Client("a", 1.0))  # type: ignore[arg-type]


def test_whose_address_is_whose() -> None:
    assert _network("192.0.2.7") == "192.0.2.7"
    assert _network("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64"
    assert _network("fe80::1%eth0") == "fe80::/64"
    assert _network("::ffff:192.0.2.7") == "::ffff:c000:207"
    assert _network("") == ""


def test_a_connection_too_many_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connections, "admit", lambda *_: False)
    with served(FastAPI(openapi_url=None)) as url:
        address = ("127.0.0.1", port_of(url))
        with socket.create_connection(address, timeout=10) as one, suppress(ConnectionError):
            assert one.recv(1) == b""


def test_an_answer_that_has_not_begun_says_that_the_server_ends() -> None:
    app, begun = FastAPI(openapi_url=None), threading.Event()

    async def last() -> str:
        """Answer once the server listens no more."""
        begun.set()
        while True:
            with socket.socket() as another:
                if another.connect_ex(address):
                    return "here"
            await asyncio.sleep(0.02)

    app.add_api_route("/", last)
    with served(app) as url:
        address = ("127.0.0.1", port_of(url))
        silent, client = (socket.create_connection(address, timeout=30) for _ in range(2))
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert begun.wait(30)
    with silent, client:
        assert silent.recv(1) == b""
        answer = b"".join(iter(lambda: client.recv(1_000), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nconnection: close\r\n" in answer


def test_connections_follow_from_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    endless, raised = resource.RLIM_INFINITY, []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    for limits, connections in (
        ((1024, 1024), 448),
        ((1024, 20_000), 1_000),
        ((1024, endless), 1_000),
        ((endless, endless), 1_000),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        assert running.connections_for(1_000) == connections
    assert raised == [(4096, 20_000), (4096, endless)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (130, 130))
    with pytest.raises(InvalidInput, match="130 file descriptors are too few"):
        running.connections_for(1_000)
    monkeypatch.setitem(sys.modules, "resource", None)
    assert running.connections_for(1_000) == 1_000


def test_every_line_of_the_log_is_json(small: Running) -> None:
    with connected(small) as client:
        client.sendall(b"no HTTP at all\r\n\r\n")
        assert b"400" in client.recv(100)
    said = [line for line in log_lines(small) if line["event"] == "warning"]
    assert said[-1]["message"] == "Invalid HTTP request received."


def test_a_message_is_logged_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log").open("w+") as stream:
        logger = logging.Logger("test")
        logger.addHandler(LogHandler(Log(stream)))
        now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        for _ in range(1_000):
            logger.error("again\nTraceback and more")
        now = 101.5
        logger.error("again")
        for number in range(200):
            logger.warning("number %d", number)
        try:
            raise KeyError("private")
        except KeyError:
            logger.exception("it broke")
        stream.seek(0)
        lines = [json.loads(line) for line in stream]
    assert [line["message"] for line in lines[:2]] == ["again", "again"]
    assert len(lines) == 203
    assert lines[-1] | {"time": ""} == lines[-1] | {"time": "", "event": "error"}
    assert (lines[-1]["kind"], lines[-1]["message"]) == ("KeyError", "it broke")
    assert "private" not in str(lines)


def test_a_body_that_is_awaited_is_the_clients_turn() -> None:
    """While the server works nobody may end a connection; while it waits it may be ended."""

    class Cycle:
        response_complete, more_body = False, True

    protocol = BoundedProtocol.__new__(BoundedProtocol)
    protocol._since, protocol._unsent_since = 7.0, None
    protocol.cycle = None  # type: ignore[assignment]
    assert protocol.waiting_since == 7.0
    protocol.cycle = Cycle()  # type: ignore[assignment]
    assert protocol.waiting_since == 7.0
    Cycle.more_body = False
    assert protocol.waiting_since is None
    protocol._unsent_since = 8.0
    assert protocol.waiting_since == 8.0
