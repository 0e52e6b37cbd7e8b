"""Limits on connections, applied before any token is checked: their number, origin and slowness.

uvicorn limits how long a connection may be idle between requests. It does not limit how long the
first request, or headers that have started, may take to arrive, nor how long a client may take to
read an answer. Beyond its limit on connections it answers 503 to everyone, including health checks.
Here a new connection replaces the one that has waited longest for its client. The guard limits
bodies.
"""

from __future__ import annotations

import ipaddress
import time
from asyncio import TimerHandle
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from powermark.interfaces.server.limits import Limits

_SLOWLY = 0.1  # seconds between reads of a refused body


class Connections:
    """Every open connection."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: set[BoundedProtocol] = set()

    def admit(self, new: BoundedProtocol) -> bool:
        """Accept a connection; if there are too many, end a waiting one, or return False."""
        most = self.limits.connections
        own = [one for one in self._open if one.address == new.address]
        for crowd, limit in ((own, max(1, most // 2)), (self._open, most)):
            if len(crowd) >= limit and not _end_one(crowd):
                return False
        self._open.add(new)
        return True

    def remove(self, one: BoundedProtocol) -> None:
        """Forget a connection that has ended."""
        self._open.discard(one)

    def check(self) -> None:
        """End the connections of clients that read too slowly."""
        now = time.monotonic()
        for one in [one for one in self._open if one.reads_too_slowly(now)]:
            one.end()


def _end_one(crowd: Any) -> bool:
    """End the connection that has waited longest, unanswered ones first."""
    waiting = [one for one in crowd if one.waiting_since is not None]
    if not waiting:
        return False
    min(waiting, key=lambda one: (one.answered, one.waiting_since)).end()
    return True


class BoundedProtocol(H11Protocol):
    """HTTP on one connection, with limits on slow clients."""

    def __init__(self, *, connections: Connections, **more: Any) -> None:
        super().__init__(**more)
        self._connections, self._limits = connections, connections.limits
        self._timer: TimerHandle | None = None
        self._unsent_since: float | None = None
        self._since = time.monotonic()  # when the server began to wait for the client
        self._surplus = 0  # bytes received after their answer
        self.address, self.answered = "", False

    @property
    def waiting_since(self) -> float | None:
        """When the server began to wait for the client; None while the server is working."""
        if self._unsent_since is not None:
            return self._unsent_since
        at_work = self.cycle is not None and not self.cycle.response_complete
        return None if at_work and not self.cycle.more_body else self._since

    def connection_made(self, transport: Any) -> None:
        """Accept the connection, if there is room, and wait for the first request."""
        super().connection_made(transport)
        self.address = _network(self.client[0] if self.client else "")
        if self._connections.admit(self):
            self._wait()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Time the arrival of the headers."""
        if self._is_refused():
            self._surplus += len(data)
            if self._surplus > self._limits.body_bytes:
                self.end()
                return
        super().data_received(data)
        if self._is_refused():  # read the rest slowly, as it is discarded
            self.flow.pause_reading()
            self.loop.call_later(_SLOWLY, self.flow.resume_reading)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._timer is None:
            self._wait()

    def _is_refused(self) -> bool:
        """Whether a request was answered before all of its body arrived."""
        answered = self.cycle is not None and self.cycle.response_complete
        return answered and self.conn.their_state is h11.SEND_BODY

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.answered, self._since = True, time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Note when the client stopped reading."""
        super().pause_writing()
        self._unsent_since = time.monotonic()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        super().resume_writing()
        self._unsent_since = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer and forget the connection."""
        super().connection_lost(exc)
        self._stop_waiting()
        self._connections.remove(self)

    def reads_too_slowly(self, now: float) -> bool:
        """Whether any part of an answer has been unread for too long."""
        if self.transport.get_write_buffer_size() == 0:
            self._unsent_since = None
        elif self._unsent_since is None:
            self._unsent_since = now
        since = self._unsent_since
        return since is not None and now - since > self._limits.client_seconds

    def end(self) -> None:
        """Close the connection at once and discard what is not sent."""
        self._connections.remove(self)
        self.transport.abort()

    def say_goodbye(self) -> None:
        """Announce in an answer that has not started that the connection will close."""
        if self.cycle is not None and not self.cycle.response_started:
            self.cycle.default_headers = self.server_state.default_headers

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self._limits.client_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _network(host: str) -> str:
    """Return the network of an address: for IPv6 its first half, as a client owns all the rest."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
