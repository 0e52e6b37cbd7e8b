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
    """HTTP with an end to patience: a connection that sends no whole request in time is closed.

    uvicorn bounds how long a connection may be idle, not how long a request may take to arrive;
    the body has a bound of its own in the guard.
    """

    patience = 10.0

    def connection_made(self, transport: Any) -> None:
        """Start waiting for the first request."""
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        """Start waiting for the next request."""
        super().on_response_complete()
        self._wait()

    def _wait(self) -> None:
        timer: TimerHandle | None = getattr(self, "_timer", None)
        if timer is not None:
            timer.cancel()
        self._timer = self.loop.call_later(self.patience, self._give_up)

    def _give_up(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serve until a signal says stop; requests that are running are then finished."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_GRACE,
    )
    uvicorn.Server(config).run(sockets=[listener])
