"""What one client may ask of the server, and the threads that do the asking's work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

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
        Requests a second of one access token; twice as many at once.
    """

    body_bytes: int = 1 << 20
    n_tokens: int = 100_000
    seconds: float = 60.0
    patience: float = 10.0
    waiting: int = 256
    rate: float = 20.0


class Workers:
    """A few threads, a bounded queue before them, and a bound on the time of each answer.

    Python cannot end a thread: one that takes too long runs on, and its place stays taken.
    """

    def __init__(self, threads: int, limits: Limits) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._limits = limits
        self.busy = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, computed off the event loop."""
        if self.busy >= self._limits.waiting:
            raise Refusal(503, "busy", "too many requests are waiting.", retry_after=1)
        self.busy += 1
        loop = asyncio.get_running_loop()
        future = self._pool.submit(work)
        future.add_done_callback(lambda _: self._free(loop))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._limits.seconds)
        except TimeoutError:
            raise Refusal(
                503, "too-slow", f"this takes more than {self._limits.seconds:g} seconds."
            ) from None

    def _free(self, loop: asyncio.AbstractEventLoop) -> None:
        def free() -> None:
            self.busy -= 1

        loop.call_soon_threadsafe(free)

    def close(self) -> None:
        """Let running work end and take no more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
