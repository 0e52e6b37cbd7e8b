"""A JSONL file that a long job appends to, batch by batch, and resumes from."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from zlib import crc32

from powermark.errors import FileProblem, MissingExtra
from powermark.files import lock


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """Return records as a Parquet file."""
    try:
        import pyarrow as pa
        from pyarrow import parquet as files
    except ImportError:
        raise MissingExtra(
            "Parquet needs pyarrow, which is not installed.",
            hint="pip install 'powermark[datasets]'",
        ) from None
    sink = pa.BufferOutputStream()
    files.write_table(pa.Table.from_pylist(rows), sink, compression="zstd")
    return bytes(sink.getvalue())


_SEAL = re.compile(rb', "crc32": (\d+)}$')  # ends a line: the checksum of the record


class Records:
    """The records of one job, in order; each has its ``index`` and the job's ``signature``.

    ``done`` is the number of records when the file is opened. Half a batch at the end, left by a
    killed job, is cut off; a file with any other content, or with a record that does not match its
    ``crc32``, is refused and not changed. Only one process at a time can open it.
    """

    def __init__(self, path: Path, signature: str, batch: int, total: int) -> None:
        self._path, self._signature, self._batch, self._total = path, signature, batch, total
        self.done = 0

    def __enter__(self) -> Self:
        try:
            self._stream = self._path.open("a+b")
            lock(self._stream.fileno())
        except BlockingIOError:
            self._stream.close()
            raise FileProblem(f"another process is writing to {str(self._path)!r}.") from None
        except OSError as error:
            raise FileProblem(
                f"cannot write {str(self._path)!r}: {error.strerror}.",
                hint="choose a writable folder with free disk space.",
            ) from None
        try:
            self.done = self._kept()
        except BaseException:
            self._stream.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # the failed write has been reported
            self._stream.close()

    def rows(self) -> list[dict[str, Any]]:
        """Return all records."""
        self._stream.seek(0)
        return [json.loads(_opened(line)) for line in self._stream.read().splitlines()]

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Append a batch in one write, synced to disk."""
        try:
            self._stream.write(b"".join(_sealed(json.dumps(row).encode()) for row in rows))
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise FileProblem(
                f"cannot write {str(self._path)!r}: {error.strerror}.",
                hint="free some disk space and run the command again; finished batches are kept.",
            ) from None

    def _kept(self) -> int:
        """Check the file, cut off an unfinished batch, and return the number of records."""
        self._stream.seek(0)
        content = self._stream.read()
        *rows, tail = content.split(b"\n")
        kept = len(rows) if len(rows) == self._total else len(rows) // self._batch * self._batch
        ours = all(self._is_ours(row, index) for index, row in enumerate(rows))
        begun = f'{{"index": {len(rows)}, '.encode()
        if not ours or not (tail.startswith(begun) or begun.startswith(tail)):
            raise FileProblem(
                f"{str(self._path)!r} holds no records of these settings; it was not changed.",
                hint="choose another name, or repeat the settings of its first run.",
            )
        whole = sum(len(row) + 1 for row in rows[:kept])
        if whole < len(content):
            self._stream.truncate(whole)
        return kept

    def _is_ours(self, row: bytes, index: int) -> bool:
        try:
            found = json.loads(_opened(row))
            return (found["index"], found["signature"]) == (index, self._signature)
        except (ValueError, KeyError, TypeError, RecursionError):
            return False


def _sealed(row: bytes) -> bytes:
    """Return a line with a JSON object and its checksum."""
    return row[:-1] + b', "crc32": %d}\n' % crc32(row)


def _opened(line: bytes) -> bytes:
    """Return the JSON object of a line; ValueError if its checksum is wrong."""
    if (seal := _SEAL.search(line)) is None:
        raise ValueError("no checksum")
    row = line[: seal.start()] + b"}"
    if crc32(row) != int(seal[1]):
        raise ValueError("wrong checksum")
    return row
