"""Run the application: socket, file descriptors, log, shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import time
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.flow_control import CLOSE_HEADER

from powermark.errors import FileProblem, InvalidInput
from powermark.interfaces.server.access import is_loopback
from powermark.interfaces.server.connections import BoundedProtocol, Connections
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.telemetry import Log, LogHandler

_GRACE = 30  # seconds for running requests to finish after a stop signal
_FAREWELL = 1.0  # seconds to announce the end of kept connections to their clients
_BACKLOG = 1024  # connections that the system keeps until they are accepted
_AT_ONCE = 64  # connections accepted before the first of them is counted
_DESCRIPTORS = 4096  # to ask the system for
_OTHERS = 128  # descriptors not for connections, including those accepted at once


def check_exposure(host: str, *, has_tokens: bool) -> None:
    """Refuse to serve other machines without tokens."""
    if not is_loopback(host) and not has_tokens:
        raise InvalidInput(
            f"others could reach {host}: a server beyond this machine needs --tokens FILE.",
            hint="make one with `powermark token FILE NAME`.",
        )


def connections_for(wanted: int) -> int:
    """Return how many connections the system allows; each may need a second descriptor."""
    try:
        import resource
    except ImportError:  # Windows, where sockets are not files
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < more:
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        soft = more
    room = wanted if soft == resource.RLIM_INFINITY else (soft - _OTHERS) // 2
    if room < 10:
        raise InvalidInput(
            f"{soft} file descriptors are too few for a server.", hint="raise `ulimit -n`."
        )
    return min(wanted, room)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any free one."""
    if not 0 <= port < 2**16:
        raise InvalidInput(f"--port must be from 0 to 65535; got {port}.")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        plain = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise FileProblem(
            f"cannot listen on {host} port {port}: {error.strerror}.",
            hint="choose another --port.",
        ) from None
    # asyncio sets TCP_NODELAY only on sockets declared as TCP; without it the client's delayed
    # acknowledgement delays each answer on a kept connection
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, plain.detach())


class Server(uvicorn.Server):
    """uvicorn's server with limits on connections, and a shutdown that loses no request."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; asyncio uses the backlog as its number of accepts too, so set it again after."""
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(_BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        """End the connections of slow readers, ten times a second."""
        self._connections.check()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections; announce the end of open ones in their last answer."""
        for server in self.servers:
            server.close()
        state, end = self.server_state, time.monotonic() + _FAREWELL
        state.default_headers = [*state.default_headers, CLOSE_HEADER]
        for connection in list(state.connections):
            connection.say_goodbye()  # type: ignore[union-attr]
        while state.connections and time.monotonic() < end:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)


def server_of(app: FastAPI, limits: Limits | None = None) -> Server:
    """Return a server that finishes running requests before it stops."""
    limits = limits or Limits()
    connections = Connections(limits)
    protocol: Any = partial(BoundedProtocol, connections=connections)
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_AT_ONCE,
        timeout_keep_alive=int(limits.idle),
        timeout_graceful_shutdown=_GRACE,
    )
    return Server(config, connections)


def run(app: FastAPI, listener: socket.socket, limits: Limits, log: Log) -> None:
    """Serve until a stop signal."""
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [LogHandler(log)], False
        logger.setLevel(logging.WARNING)
    gc.collect()
    gc.freeze()  # or a large answer makes the collector walk all loaded objects, for 200 ms
    server_of(app, limits).run(sockets=[listener])
