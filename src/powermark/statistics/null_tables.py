"""Simulated null distributions on disk, so that other processes need not simulate them again.

A file is a digest of its name and content, then the values as little-endian float64. A damaged
table, or the table of another test, would accuse the innocent: it is ignored and simulated anew.
"""

from __future__ import annotations

import contextlib
from hashlib import blake2b
from pathlib import Path

import numpy as np

from powermark.checks import Array
from powermark.errors import FileProblem
from powermark.files import cache_folder, write_file

_VERSION = 2
_DIGEST = 16  # bytes


def load(name: str) -> Array | None:
    """Return a saved table; None where there is no valid one."""
    path = _path(name)
    with contextlib.suppress(OSError):
        found = path.read_bytes()
        if found[:_DIGEST] == _digest(path, found[_DIGEST:]):
            return np.frombuffer(found[_DIGEST:], "<f8")
    return None


def save(name: str, table: Array) -> None:
    """Save a table; a cache that cannot be written is ignored."""
    path, content = _path(name), table.astype("<f8").tobytes()
    with contextlib.suppress(OSError, FileProblem):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, _digest(path, content) + content)


def _path(name: str) -> Path:
    return cache_folder() / "null" / f"{name}-{_VERSION}"


def _digest(path: Path, content: bytes) -> bytes:
    return blake2b(path.name.encode() + content, digest_size=_DIGEST, person=b"pm-null").digest()
