"""A Ray cluster: an existing one, or one on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from powermark.errors import MissingExtra


def need(module: str = "ray") -> Any:
    """Import Ray or one of its modules."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(
            "the ray engine needs ray, which is not installed.", hint="pip install 'powermark[ray]'"
        ) from None


@contextmanager
def cluster(workers: int | None, address: str | None) -> Iterator[int]:
    """Join a cluster, by default one on this machine; yield the number of workers to use.

    Leave it at the end, unless this process had joined before.
    """
    ray = need()
    joined = ray.is_initialized()
    if not joined:
        started: dict[str, Any] = (
            {} if address else {"num_cpus": workers, "include_dashboard": False}
        )
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **started)
    try:
        yield workers or int(ray.cluster_resources().get("CPU", 1))
    finally:
        if not joined:
            ray.shutdown()
