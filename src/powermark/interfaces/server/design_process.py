"""The child processes that compute designs, seen from the server: start, ask, time out, restart."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from powermark.errors import PowermarkError
from powermark.interfaces.server.design_worker import MEMORY, Answer, Designs, Failure, Route
from powermark.interfaces.server.limits import Limits, Workers, too_slow
from powermark.interfaces.server.refusals import Refusal
from powermark.interfaces.server.telemetry import Log
from powermark.watermark.keys import ENVIRONMENT

_MAIN = "from powermark.interfaces.server.design_worker import main; main()"
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_PROCESSES = 2  # of a kind of design; one client holds at most one of them
_LATER = 5  # seconds after which a client with too many designs may ask again


@dataclass(slots=True)
class _Line:
    """A client's designs: how many there are, and the turn of the one that is computed."""

    size: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Designers:
    """Processes for one kind of design, which one client cannot keep from the others.

    A client's designs are computed one after another, so a process is left for other clients. The
    first process starts with the server, the second when the first is busy.

    Parameters
    ----------
    designs
        Specs and profiles that requests may name.
    limits
        ``seconds`` limits the time of an answer, including the time in the queue.
    kind
        What is computed, for messages.
    most
        Designs of one client that may wait or be computed.
    """

    def __init__(self, designs: Designs, limits: Limits, log: Log, *, kind: str, most: int) -> None:
        self._processes = [Designer(designs, limits, log) for _ in range(_PROCESSES)]
        self._limits, self._kind, self._most = limits, kind, most
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)

    async def ask(self, route: Route, request: Any, client: str) -> bytes:
        """Return the JSON of a design; refuse a client that has too many already."""
        deadline = time.monotonic() + self._limits.seconds
        line = self._lines[client]
        if line.size >= self._most:
            raise Refusal(
                429,
                "busy",
                f"too many {self._kind} of this client at a time; the limit is {self._most}.",
                hint="ask again when an earlier one is answered.",
                retry_after=_LATER,
            )
        line.size += 1
        try:
            await asyncio.wait_for(line.turn.acquire(), self._limits.seconds)
            try:
                idle = min(self._processes, key=lambda process: process.busy)
                return await idle.ask(route, request, deadline)
            finally:
                line.turn.release()
        except TimeoutError:
            raise too_slow(self._limits) from None
        finally:
            line.size -= 1

    def start(self) -> None:
        """Start the first process."""
        self._processes[0].start()

    def close(self) -> None:
        """Take no more requests, and end the processes."""
        for process in self._processes:
            process.close()


class Designer:
    """One child process, which answers one request at a time.

    Parameters
    ----------
    designs
        Specs and profiles that requests may name.
    limits
        ``waiting`` limits the queue.
    """

    def __init__(self, designs: Designs, limits: Limits, log: Log) -> None:
        self._designs, self._limits, self._log = designs, limits, log
        self._queue = Workers(1, limits)
        self._child: subprocess.Popen[bytes] | None = None
        self._has_designs = self._closed = False
        self._lock = threading.Lock()  # of the child: an answer and the end of the server start it

    @property
    def busy(self) -> int:
        """Number of requests that wait or are being computed."""
        return self._queue.busy

    async def ask(self, route: Route, request: Any, deadline: float) -> bytes:
        """Return the JSON of a design."""
        answer = await self._queue.run(lambda: self._answer(route, request, deadline))
        if isinstance(answer, PowermarkError):
            raise answer
        if isinstance(answer, Failure):
            self._log("error", kind=answer.kind, where=answer.where)
            raise _excuse(answer)
        return answer

    def start(self) -> None:
        """Start the process if none is running; it needs a second or two to load."""
        with self._lock:
            if self._child is None and not self._closed:
                self._child, self._has_designs = self._started(), False

    def _started(self) -> subprocess.Popen[bytes]:
        path = f"import sys; sys.path[:] = {sys.path!r}; "
        environment = {k: v for k, v in os.environ.items() if k != ENVIRONMENT}
        return subprocess.Popen(
            [sys.executable, "-I", "-c", path + _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a message could quote a request
            env=environment | _ONE_THREAD,
            start_new_session=True,  # Ctrl-C stops the server only
        )

    def close(self) -> None:
        """Take no more requests, and end the process."""
        with self._lock:
            self._closed = True
        self._queue.close()
        self._end()

    def _answer(self, route: Route, request: Any, deadline: float) -> Answer:
        """Ask the process; end it when the time is up."""
        if time.monotonic() >= deadline:  # spent in the queue
            raise too_slow(self._limits)
        self.start()
        child, expired = self._child, threading.Event()
        if child is None:
            return Failure("ProcessEnded", ["the server ends"])

        def expire() -> None:
            expired.set()
            child.kill()

        timer = threading.Timer(max(0.0, deadline - time.monotonic()), expire)
        timer.start()
        last = True
        try:
            answer, last = self._exchange(child, (route, request))
        except (OSError, ValueError, EOFError, pickle.UnpicklingError):
            answer = Failure("ProcessEnded", [f"exit code {child.wait()}"])
        timer.cancel()
        if last or expired.is_set():
            self._end()
            self.start()
        if expired.is_set():
            raise too_slow(self._limits)
        return answer

    def _exchange(self, child: subprocess.Popen[bytes], request: Any) -> tuple[Answer, bool]:
        """Return the answer to a request, and whether the process ends with it."""
        assert child.stdin is not None
        assert child.stdout is not None
        for message in (request,) if self._has_designs else (self._designs, request):
            pickle.dump(message, child.stdin)
        child.stdin.flush()
        self._has_designs = True
        found: tuple[Answer, bool] = pickle.load(child.stdout)
        return found

    def _end(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with suppress(OSError):  # unsent data is lost
                pipe.close()  # type: ignore[union-attr]


def _excuse(failure: Failure) -> Refusal:
    """Return the refusal for an unexpected error."""
    if failure.kind in ("MemoryError", "ProcessEnded"):
        return Refusal(
            503, "too-large", f"this takes more than {MEMORY >> 30} GiB of memory, or was ended."
        )
    return Refusal(500, "broken", "something went wrong here; the log says where.")
