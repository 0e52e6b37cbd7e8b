"""No network but this machine's own: whatever a fuzz draws, no other host hears of it."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch


def is_own(host: Any) -> bool:
    """Whether a host is this machine, by its address or name; None is an address to listen on."""
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextlib.contextmanager
def loopback_only() -> Iterator[None]:
    """Refuse to look up or reach other hosts, as a machine without a network would."""
    look_up, plain = socket.getaddrinfo, socket.socket

    def found(host: Any, *rest: Any, **more: Any) -> Any:
        if not is_own(host):
            raise socket.gaierror(socket.EAI_NONAME, "no other host is asked")
        return look_up(host, *rest, **more)

    def checked(name: str) -> Any:
        connect = getattr(plain, name)

        def reach(self: socket.socket, address: Any) -> Any:
            if isinstance(address, tuple) and not is_own(address[0]):
                raise OSError(f"no other host is reached: {address[0]}")
            return connect(self, address)

        return reach

    with (
        patch.object(socket, "getaddrinfo", found),
        patch.object(plain, "connect", checked("connect")),
        patch.object(plain, "connect_ex", checked("connect_ex")),
    ):
        yield
