"""Running the application: the socket, the patience with slow clients, the end."""

from __future__ import annotations

import ipaddress
import socket
from asyncio import TimerHandle
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from powermark.errors import FileProblem, InvalidInput

_GRACE = 30  # seconds that running requests get when the server is told to stop
_IDLE = 75  # seconds between requests; longer than a proxy keeps a connection, so that it ends it
_CONNECTIONS = 1_000


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_exposure(host: str, *, has_tokens: bool) -> None:
    """Refuse to let strangers in without tokens."""
    if not is_loopback(host) and not has_tokens:
        raise InvalidInput(
            f"others could reach {host}: a server beyond this machine needs --tokens FILE.",
            hint="make one with `powermark token FILE NAME`.",
        )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any free one."""
    if not 0 <= port < 2**16:
        raise InvalidInput(f"--port must be from 0 to 65535; got {port}.")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise FileProblem(
            f"cannot listen on {host} port {port}: {error.strerror}.",
            hint="choose another --port.",
        ) from None


class PatientProtocol(H11Protocol):
    """HTTP with an end to patience: headers that have begun and do not end in time are cut off.

    uvicorn bounds how long a connection may be idle between requests, not how long the first one,
    or one that has begun, may take to arrive. The body has a bound of its own in the guard.
    """

    patience = 10.0
    _timer: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start waiting for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Start waiting for the end of the headers, and stop when it has come."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._timer is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._stop_waiting()

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.patience, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def server_of(app: FastAPI) -> uvicorn.Server:
    """Return a server that finishes the requests that are running when it is told to stop."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_GRACE,
    )
    return uvicorn.Server(config)


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serve until a signal says stop."""
    server_of(app).run(sockets=[listener])
