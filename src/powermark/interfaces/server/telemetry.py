"""Logs and metrics of the server, without the content of requests.

A line is a JSON object: time, route, status, duration, name of the token. It never contains a text,
prompt, key, token or query, or the message of an unexpected error.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters in a registry of their own."""

    def __init__(self) -> None:
        own = CollectorRegistry()
        self._registry = own
        self.requests = Counter(
            "powermark_requests", "Requests answered.", ["route", "status"], registry=own
        )
        self.seconds = Histogram(
            "powermark_request_seconds",
            "Time to answer.",
            ["route"],
            buckets=_SECONDS,
            registry=own,
        )
        self.running = Gauge("powermark_requests_running", "Requests now.", registry=own)
        self.verdicts = Counter(
            "powermark_verdicts", "Texts looked at.", ["spec", "verdict"], registry=own
        )
        self.tokens = Counter("powermark_tokens", "Tokens looked at.", registry=own)
        self.tokenising = Counter(
            "powermark_tokenising_seconds", "CPU time spent tokenising.", registry=own
        )
        self.detecting = Counter(
            "powermark_detecting_seconds", "CPU time spent on detection after that.", registry=own
        )

    def exposition(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class Log:
    """One JSON object a line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def __call__(self, event: str, **facts: Any) -> None:
        """Write a line; facts that are None are omitted."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        line |= {name: value for name, value in facts.items() if value is not None}
        print(json.dumps(line), file=self._stream or sys.stderr, flush=True)

    def error(self, error: BaseException, **facts: Any) -> None:
        """Write an error's kind and place, but not its message, which may quote a text."""
        frames = traceback.extract_tb(error.__traceback__)[-6:]
        where = [f"{frame.name}:{frame.lineno}" for frame in frames]
        self("error", kind=type(error).__name__, where=where, **facts)


class LogHandler(logging.Handler):
    """Writes the messages of uvicorn and asyncio to our log, each at most once a second."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log
        self._seen: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the first line of a message, and an error's kind and place."""
        message = record.getMessage().partition("\n")[0][:200]
        now = time.monotonic()
        if now - self._seen.get(message, -1.0) < 1.0:
            return
        if len(self._seen) >= 100:
            self._seen.clear()
        self._seen[message] = now
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            self._log(record.levelname.lower(), message=message)
        else:
            self._log.error(error, message=message)
