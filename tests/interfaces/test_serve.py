"""``powermark serve`` as a process: it answers, bears slow clients and ends in good order."""

import contextlib
import http.client
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from powermark.interfaces.server import run as running
from powermark.interfaces.server.access import is_loopback
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.telemetry import Log
from tests.conftest import Run
from tests.interfaces.server import Ready, make_ready, running_on, served, text_of


def test_it_does_not_let_strangers_in(run: Run, tmp_path: Path) -> None:
    code, _, err = run("serve", "--host", "0.0.0.0")
    assert code == 2
    assert "others could reach 0.0.0.0" in err
    assert "must be above 0" in run("serve", "--rate", "0")[2]
    assert "--connections must be at least 10; got 9." in run("serve", "--connections", "9")[2]
    assert "cannot read the tokens" in run("serve", "--tokens", str(tmp_path / "none"))[2]
    for host, own in (
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("a.example", False),
    ):
        assert is_loopback(host) is own


def test_it_says_what_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "powermark.interfaces.server.app", None)
    assert "pip install 'powermark[server]'" in run("serve")[2]


def test_it_serves_what_a_demo_left(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ready = make_ready(tmp_path)
    ready.folder.rename(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    served: list[Any] = []
    opened: list[str] = []
    monkeypatch.setattr(running, "run", lambda app, listener, *_: served.append((app, listener)))
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("powermark.models.load_model", lambda name: f"model {name}")
    options = ("--port", "0", "--open", "--tokenizer", str(tmp_path / "words"))
    code, _, err = run("serve", *options, "--model", "tiny", "--threads", "1")
    assert code == 0, err
    app, listener = served[0]
    port = listener.getsockname()[1]
    assert f"http://127.0.0.1:{port}/ (1 specs, 0 profiles" in err
    assert opened == [f"http://127.0.0.1:{port}/"]
    assert app.state.service.writer.model == "model tiny"
    code, _, err = run("serve", *options[2:], "--port", str(port))
    assert code == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in err
    assert "--port must be" in run("serve", *options[2:], "--port", "99999")[2]
    listener.close()
    code, _, err = run("serve", "--host", "::1", *options[:2], *options[3:])
    assert "http://[::1]:" in err or "cannot listen on ::1" in err
    if len(served) > 1:
        served[1][1].close()


def test_running_requests_get_time_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: seen.append((self, sockets)))
    with running.listen("127.0.0.1", 0) as listener:
        running.run(FastAPI(), listener, Limits(), Log())
        [(server, sockets)] = seen
        assert sockets == [listener]
    assert server.config.timeout_graceful_shutdown == 30
    assert server.config.timeout_keep_alive > Limits().client_seconds
    assert server.config.access_log is False


HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
def port() -> Iterator[int]:
    """A server that waits half a second for headers, and longer between requests."""
    app = FastAPI(openapi_url=None)
    app.add_api_route("/", lambda: "here")
    with served(app, Limits(client_seconds=0.5)) as url:
        yield int(url.rstrip("/").rpartition(":")[2])


def connection(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def is_cut_off(client: socket.socket) -> bool:
    """Send a header now and then, as a client does that only wants to hold a connection."""
    with contextlib.suppress(ConnectionError):
        for number in range(100):
            client.settimeout(0.1)
            try:
                return client.recv(1) == b""
            except TimeoutError:
                client.sendall(b"X-%d: y\r\n" % number)
        return False
    return True


def answer_of(client: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b'"here"'):
        found += client.recv(65_536)
    return found


def test_headers_that_do_not_end_are_cut_off(port: int) -> None:
    with connection(port) as silent, connection(port) as dripping:
        dripping.sendall(HEAD)
        with connection(port) as other:  # is served meanwhile
            other.sendall(HEAD + b"\r\n")
            assert b"200 OK" in answer_of(other)
        assert is_cut_off(dripping)
        assert silent.recv(1) == b""


def test_between_requests_there_is_more_time(port: int) -> None:
    with connection(port) as client:
        for _ in range(2):
            client.sendall(HEAD + b"\r\n")
            assert b"200 OK" in answer_of(client)
            time.sleep(1)  # longer than headers may take
        client.sendall(HEAD)
        assert is_cut_off(client)


def test_it_ends_in_good_order(tmp_path: Path) -> None:
    """A request that has begun when the server is told to stop is answered."""
    ready = make_ready(tmp_path)
    body = json.dumps({"spec": "demo", "text": text_of(ready.marked)}).encode()
    with running_on(ready) as server, connection(server.port) as client:
        head = f"POST /v1/detect HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body[:50])
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        client.sendall(body[50:])
        answer = b""
        while chunk := client.recv(65_536):
            answer += chunk
        assert server.process.wait(60) in (0, -signal.SIGTERM)
    assert b"200 OK" in answer
    assert b'"watermarked"' in answer
    assert b"connection: close" in answer.lower()


def test_clients_that_keep_connections_lose_no_request_at_the_end(ready: Ready) -> None:
    """Each is told by its last answer that the connection ends, and sends nothing after it."""
    lost, told = [], []

    def client(port: int) -> None:
        http_ = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while True:
            try:
                http_.request("GET", "/readyz")
                answer = http_.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                lost.append(error)
                return
            if answer.headers.get("connection") == "close":
                told.append(answer.status)
                return

    with running_on(ready) as server:
        clients = [threading.Thread(target=client, args=(server.port,)) for _ in range(16)]
        for thread in clients:
            thread.start()
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        for thread in clients:
            thread.join(30)
        assert server.process.wait(30) in (0, -signal.SIGTERM)
    assert lost == []
    assert told == [200] * 16


def test_it_answers_to_the_address_that_it_listens_on(ready: Ready) -> None:
    with running_on(ready, "--host", "127.0.0.2") as server:
        status, _ = server.get("/healthz", host="127.0.0.2")
        assert status == 200
