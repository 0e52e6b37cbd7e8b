"""Logs and metrics that say how the server fares, and nothing of what it was asked.

A line is a JSON object: when, which route, what status, how long, whose token by name. No text, no
prompt, no key, no token, no query, no message of an unexpected error.
"""

from __future__ import annotations

import json
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters in a registry of this server's own."""

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
        """Return the numbers in Prometheus' text format."""
        return generate_latest(self._registry)


class Log:
    """One JSON object a line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def __call__(self, event: str, **facts: Any) -> None:
        """Write a line; facts that are None are left out."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        line |= {name: value for name, value in facts.items() if value is not None}
        print(json.dumps(line), file=self._stream or sys.stderr, flush=True)

    def error(self, error: BaseException, **facts: Any) -> None:
        """Write what went wrong and where; not the message, which may quote a text."""
        frames = traceback.extract_tb(error.__traceback__)[-6:]
        where = [f"{frame.name}:{frame.lineno}" for frame in frames]
        self("error", kind=type(error).__name__, where=where, **facts)
