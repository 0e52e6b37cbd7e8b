"""Crowds of connections on loopback: some say nothing, some ask for much and never read it."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

Address = tuple[str, int]
LARGE = "/swagger/swagger-ui-bundle.js"
_SPARE = 256  # descriptors beside the crowd's


def idle(address: Address, number: int) -> AbstractContextManager[list[socket.socket]]:
    """Open connections that say nothing."""
    return _crowd(address, number, b"")


def slow(address: Address, number: int) -> AbstractContextManager[list[socket.socket]]:
    """Ask for a large file over many connections, oftener than a socket's buffers can hold it."""
    head = f"GET {LARGE} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n\r\n"
    return _crowd(address, number, 4 * head.encode())


@contextmanager
def _crowd(address: Address, number: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Send the same over many connections, and read nothing; closed ones are opened again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, number + _SPARE)), hard))
    opened: list[socket.socket] = []
    done = threading.Event()

    def add() -> None:
        if (one := _open(address, sent)) is not None:
            opened.append(one)

    def keep() -> None:
        while not done.wait(0.01):
            if len(opened) < number:
                add()
            elif _is_closed(oldest := opened.pop(0)):
                oldest.close()
            else:
                opened.append(oldest)

    for _ in range(number):
        add()
    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        yield opened
    finally:
        done.set()
        keeper.join()
        for one in opened:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _open(address: Address, sent: bytes) -> socket.socket | None:
    """Open a connection and wait for the first byte of an answer; None where there is none."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.settimeout(1)
    try:
        one.connect(address)
        if sent:
            one.sendall(sent)
            one.recv(1, socket.MSG_PEEK)
    except OSError:
        one.close()
        return None
    return one


def _is_closed(one: socket.socket) -> bool:
    """Whether the server has ended a connection; nothing is taken from it."""
    one.setblocking(False)
    try:
        return one.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
