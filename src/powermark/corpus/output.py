"""Where rows go: a folder of partitions, each of which is there whole or not at all.

    job.json        what is scanned, how, and for which marks; a resumed scan must agree with it
    part-U-K.*      rows, in the corpus's order: the K-th partition of the U-th portion of files
    rejects-U-K.jsonl   what was left out of that partition, and why; only where there was something
    calls.*, summary.json   written at the end

A partition's rejects are written before its rows, so that rows are the sign of a finished one.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from powermark.corpus.readers import Reject
from powermark.corpus.scanner import SCHEMA
from powermark.errors import FileProblem, InvalidInput
from powermark.files import lock, make_folder, write_file

Format = Literal["parquet", "jsonl"]
_JOB = "job.json"


class Output:
    """A folder, or the URL of one (any fsspec file system), for the rows of one scan."""

    def __init__(self, place: str, form: str = "parquet") -> None:
        if form not in get_args(Format):
            raise InvalidInput(
                f"the output format must be one of {get_args(Format)}; got {form!r}."
            )
        for local in ("file://", "local://"):  # folders of this machine, whatever they are called
            place = place.removeprefix(local)
        self.place, self.form = place.rstrip("/"), form

    @contextmanager
    def opened(self, job: dict[str, Any]) -> Iterator[None]:
        """Begin a job, or go on with it, and keep other processes out of the folder."""
        with self._locked():
            content, names = json.dumps(job, indent=2) + "\n", self._names()
            if _JOB not in names:
                if names:
                    raise FileProblem(
                        f"{self.place!r} is not empty and holds no scan.",
                        hint="choose another folder.",
                    )
                self.write(_JOB, content.encode())
            elif self.read(_JOB).decode() != content:
                raise FileProblem(
                    f"{self.place!r} holds another scan, or its input has changed since.",
                    hint="choose another folder, or repeat the settings it was made with.",
                )
            self._tidy()
            yield
            self._tidy()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._system is not None:
            yield
            return
        handle = os.open(make_folder(Path(self.place)), os.O_RDONLY)
        try:
            try:
                lock(handle)
            except BlockingIOError:
                raise FileProblem(f"another process is writing to {self.place!r}.") from None
            yield
        finally:
            os.close(handle)

    def _tidy(self) -> None:
        """Remove what a killed process was writing."""
        if self._system is None:
            for name in ("part-", "rejects-", "job.json.", "calls.", "summary.json."):
                for left in Path(self.place).glob(f".{name}*"):
                    left.unlink()

    @property
    def _system(self) -> Any:
        """The file system of a URL; None for a folder of this machine."""
        if "://" not in self.place:
            return None
        from fsspec.core import url_to_fs

        return url_to_fs(self.place)[0]

    def _names(self) -> set[str]:
        if self._system is None:
            names = {path.name for path in Path(self.place).iterdir()}
            return {name for name in names if not name.startswith(".")}
        if not self._system.exists(self.place):
            return set()
        found = self._system.ls(self.place, detail=False, refresh=True)
        return {str(name).rsplit("/", 1)[-1] for name in found}

    def read(self, name: str) -> bytes:
        """Return the content of one of the folder's files."""
        if self._system is None:
            return (Path(self.place) / name).read_bytes()
        return bytes(self._system.cat_file(f"{self.place}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all; object stores do that of themselves."""
        if self._system is None:
            write_file(Path(self.place) / name, content)
        else:
            self._system.pipe_file(f"{self.place}/{name}", content)

    def finished(self) -> set[str]:
        """Return the partitions that are done, as ``U-K``."""
        names = (name for name in self._names() if name.startswith("part-"))
        return {name.removeprefix("part-").removesuffix(f".{self.form}") for name in names}

    def write_part(self, part: str, tables: Sequence[pa.Table], rejects: Sequence[Reject]) -> None:
        """Write a partition."""
        if rejects:
            lines = "".join(
                json.dumps({"place": place, "reason": reason, "file": whole}) + "\n"
                for place, reason, whole in rejects
            )
            self.write(f"rejects-{part}.jsonl", lines.encode())
        self.write_table(f"part-{part}", pa.concat_tables(tables))

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write rows in the format of the output."""
        if self.form == "parquet":
            stream = io.BytesIO()
            pq.write_table(table, stream, compression="zstd")
            content = stream.getvalue()
        else:
            rows = (json.dumps(row, allow_nan=False) + "\n" for row in table.to_pylist())
            content = "".join(rows).encode()
        self.write(f"{name}.{self.form}", content)

    def tables(self, columns: Sequence[str] = SCHEMA.names) -> Iterator[pa.Table]:
        """Yield the rows of each partition, in order."""
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        for part in sorted(self.finished()):
            stream = io.BytesIO(self.read(f"part-{part}.{self.form}"))
            if self.form == "parquet":
                yield pq.read_table(stream, columns=list(columns))
            elif stream.getbuffer().nbytes:
                options = pyarrow.json.ParseOptions(
                    explicit_schema=schema, unexpected_field_behavior="ignore"
                )
                yield pyarrow.json.read_json(stream, parse_options=options).select(list(columns))

    def rejects(self) -> Iterator[Reject]:
        """Yield what was left out, in order."""
        for name in sorted(name for name in self._names() if name.startswith("rejects-")):
            for line in self.read(name).splitlines():
                yield Reject(*json.loads(line).values())
