"""What one client may ask of the server, and the threads that do the asking's work."""

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
    """Bounds that keep one request from being everybody's problem.

    Parameters
    ----------
    body_bytes
        Of one request.
    n_tokens
        Of one text.
    seconds
        To compute one answer.
    patience
        Seconds that a client may take to send its request.
    waiting
        Requests that may wait for a thread.
    rate
        Texts a second of one access token, twice as many at once; a design counts as a text.
    """

    body_bytes: int = 1 << 20
    n_tokens: int = 100_000
    seconds: float = 60.0
    patience: float = 10.0
    waiting: int = 256
    rate: float = 20.0


class Workers:
    """A few threads, a bounded queue before them, and a bound on the time of each answer.

    Python cannot end a thread: one that takes too long runs on, and its place stays taken. Unlike
    those of an executor, these threads do not keep the process alive when it is told to stop.
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
            del given, future, work  # else a text stays in memory until the next one comes

    async def run(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, computed off the event loop."""
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
            raise Refusal(
                503, "too-slow", f"this takes more than {self._limits.seconds:g} seconds."
            ) from None

    def _free(self, loop: asyncio.AbstractEventLoop) -> None:
        def free() -> None:
            self.busy -= 1

        with suppress(RuntimeError):  # the server has ended meanwhile
            loop.call_soon_threadsafe(free)

    def close(self) -> None:
        """Let threads end that have nothing more to do; nobody waits for the others."""
        for _ in range(self._threads):
            self._waiting.put(None)
