"""Limits on requests, and the threads that compute answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from powermark.interfaces.server.refusals import Refusal

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that keep one client from blocking the others.

    Parameters
    ----------
    body_bytes
        Size of one request.
    n_tokens
        Length of one text.
    seconds
        Time to compute one answer.
    client_seconds
        Seconds that a client may take to send its request, and to read each 64 kB of the answer.
    waiting
        Requests that may wait for a thread or a process.
    connections
        Open connections, at most half of them from one address.
    idle
        Seconds that a connection may be idle between requests; longer than a proxy's limit, so that
        the proxy closes it.
    rate
        Texts a second for each access token, twice as many at once; a design counts as a text.
    """

    body_bytes: int = 1 << 20
    n_tokens: int = 100_000
    seconds: float = 60.0
    client_seconds: float = 10.0
    waiting: int = 200
    connections: int = 1_000
    idle: float = 75.0
    rate: float = 20.0


def too_slow(limits: Limits) -> Refusal:
    """Return the refusal of a request that takes too long."""
    return Refusal(503, "too-slow", f"this takes more than {limits.seconds:g} seconds.")


class Workers:
    """Threads with a bounded queue and a time limit for each answer.

    Python cannot end a thread: one that takes too long keeps running and stays busy. Unlike those
    of an executor, these threads do not keep a stopped process alive.
    """

    def __init__(self, threads: int, limits: Limits) -> None:
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._limits, self._threads = limits, threads
        self.busy = 0
        for _ in range(threads):
            threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while (given := self._waiting.get()) is not None:
            future, work = given
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            del given, future, work  # or a text would stay in memory until the next request

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` on a thread and return its result."""
        if self.busy >= self._limits.waiting:
            raise Refusal(503, "busy", "too many requests are waiting.", retry_after=1)
        self.busy += 1
        loop = asyncio.get_running_loop()
        future: Future[T] = Future()
        future.add_done_callback(lambda _: self._free(loop))
        self._waiting.put((future, work))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._limits.seconds)
        except TimeoutError:
            raise too_slow(self._limits) from None

    def _free(self, loop: asyncio.AbstractEventLoop) -> None:
        def free() -> None:
            self.busy -= 1

        with suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(free)

    def close(self) -> None:
        """End the threads when they are idle, without waiting for them."""
        for _ in range(self._threads):
            self._waiting.put(None)
