"""Where rows go: a folder of partitions, each of which is there whole or not at all.

    job.json             what is scanned, how, and for which marks; a resumed scan must agree
    part-U-K-N.*         N rows in the corpus's order: partition K of the U-th portion of files
    rejects-U-K.jsonl    what was left out of that partition, and why, where there was something
    calls.*, summary.json   written at the end

A partition's rejects are written before its rows, so that rows are the sign of a finished one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Literal, get_args

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from powermark.corpus.batches import Reject
from powermark.corpus.folder import Folder
from powermark.corpus.scanner import SCHEMA
from powermark.errors import FileProblem, InvalidInput

Format = Literal["parquet", "jsonl"]
_JOB = "job.json"
_KINDS = ("part-", "rejects-", "job.json", "calls.", "summary.json")
_AT_ONCE = 1_024  # rows that are Python objects at one time
_CHUNK = 2**20


class Output(Folder):
    """A folder, or the URL of one (any fsspec file system), for the rows of one scan."""

    def __init__(self, place: str, form: str = "parquet") -> None:
        if form not in get_args(Format):
            raise InvalidInput(
                f"the output format must be one of {get_args(Format)}; got {form!r}."
            )
        super().__init__(place)
        self.form = form

    @contextmanager
    def opened(self, job: dict[str, Any]) -> Iterator[None]:
        """Begin a job, or go on with it, and keep other processes out of the folder."""
        job = {**job, "output_format": self.form}
        with self.locked():
            names = self._names()
            if _JOB not in names:
                if names:
                    raise FileProblem(
                        f"{self.place!r} is not empty and holds no scan.",
                        hint="choose another folder.",
                    )
                self.write(_JOB, (json.dumps(job, indent=2) + "\n").encode())
            else:
                self._check_same(job)
            self._tidy()
            self._forget_damaged()
            self._forget_unreached()
            yield
            self._tidy()

    def _check_same(self, job: dict[str, Any]) -> None:
        """Refuse to go on with a scan that was begun in another way, and say what differs."""
        try:
            begun = dict(json.loads(self.read(_JOB)))
        except ValueError:
            raise FileProblem(
                f"{_JOB} in {self.place!r} is damaged.", hint="choose another folder."
            ) from None
        asked = json.loads(json.dumps(job))
        other = [name for name in {**begun, **asked} if begun.get(name) != asked.get(name)]
        if other:
            shown = ", ".join(name.replace("_", " ") for name in other)
            raise FileProblem(
                f"{self.place!r} holds a scan with other {shown}, and cannot be gone on with.",
                hint="choose another folder, or repeat the settings it was made with.",
            )

    def _tidy(self) -> None:
        """Remove what a killed process was writing."""
        for name in self.all_names():
            if name.startswith(tuple(f".{kind}" for kind in _KINDS)):
                self.remove(name)

    def _forget_damaged(self) -> None:
        """Remove partitions that have not the rows their name says; they are scanned again."""
        for name in self._parts().values():
            if self._rows(name) != int(name.rpartition(".")[0].rpartition("-")[2]):
                self.remove(name)

    def _rows(self, name: str) -> int:
        if self.form == "parquet":
            content = io.BytesIO(self.read(name))
            try:
                return int(pq.read_metadata(content).num_rows)
            except (pa.ArrowException, OSError):  # what its reader makes of a damaged file
                return -1
        with self.reading(name) as stream:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(_CHUNK), b""))

    def _forget_unreached(self) -> None:
        """Forget partitions from where a file could not be reached; it may be read now.

        What names the file goes last, so that being killed on the way changes nothing.
        """
        files = [*self._parts().values(), *self._rejects()]
        gone: set[str] = set()
        for name in self._rejects():
            if name in gone or not any(reject.again for reject in self._rejects_of(name)):
                continue
            portion, first = _number(name)
            numbers = ((file, *_number(file)) for file in files if file != name)
            later = [file for file, u, k in numbers if u == portion and k >= first]
            for file in [*later, name]:
                self.remove(file)
                gone.add(file)

    def _names(self) -> list[str]:
        return [name for name in self.all_names() if not name.startswith(".")]

    def _parts(self) -> dict[str, str]:
        """Return the files of finished partitions by their ``U-K``, in order."""
        names = (name for name in self._names() if name.startswith("part-"))
        return {"-".join(_number(name)): name for name in names}

    def _rejects(self) -> list[str]:
        return [name for name in self._names() if name.startswith("rejects-")]

    def finished(self) -> set[str]:
        """Return the partitions that are done, as ``U-K``."""
        return set(self._parts())

    def write_part(self, part: str, tables: Sequence[pa.Table], rejects: Sequence[Reject]) -> None:
        """Write a partition."""
        if rejects:
            lines = "".join(json.dumps(reject._asdict()) + "\n" for reject in rejects)
            self.write(f"rejects-{part}.jsonl", lines.encode())
        rows = sum(table.num_rows for table in tables)
        with self.writing_rows(f"part-{part}-{rows}", SCHEMA) as add:
            add(pa.concat_tables(tables))

    @contextmanager
    def writing_rows(self, name: str, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
        """Open a file for rows in the output's format; yields what adds a table to it."""
        with self.writing(f"{name}.{self.form}") as stream:
            if self.form == "jsonl":
                yield lambda table: _add_lines(stream, table)
                return
            with pq.ParquetWriter(
                stream, schema, compression="zstd", write_page_checksum=True
            ) as writer:
                yield lambda table: writer.write_table(table) if table.num_rows else None

    def tables(self, columns: Sequence[str] = SCHEMA.names) -> Iterator[pa.Table]:
        """Yield the rows of each partition, in order."""
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        for name in self._parts().values():
            stream = io.BytesIO(self.read(name))
            with self._damage_told(name):
                if self.form == "parquet":
                    table = pq.read_table(
                        stream, columns=list(columns), page_checksum_verification=True
                    )
                elif stream.getbuffer().nbytes:
                    options = pyarrow.json.ParseOptions(
                        explicit_schema=schema, unexpected_field_behavior="ignore"
                    )
                    table = pyarrow.json.read_json(stream, parse_options=options)
                else:
                    continue
                table = table.select(list(columns))
            yield table

    def rejects(self) -> Iterator[Reject]:
        """Yield what was left out, in order."""
        for name in self._rejects():
            yield from self._rejects_of(name)

    def _rejects_of(self, name: str) -> list[Reject]:
        with self._damage_told(name):
            return [Reject(**json.loads(line)) for line in self.read(name).splitlines()]

    @contextmanager
    def _damage_told(self, name: str) -> Iterator[None]:
        """Say which file is damaged, whatever its reader makes of it."""
        try:
            yield
        except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError, KeyError):
            raise FileProblem(
                f"{name} in {self.place!r} is damaged.",
                hint="remove it and run the same command again: only its documents are scanned.",
            ) from None


def _number(name: str) -> tuple[str, str]:
    """Return the U and K of a partition's rows or rejects."""
    portion, part = name.partition(".")[0].split("-")[1:3]
    return portion, part


def _add_lines(stream: IO[bytes], table: pa.Table) -> None:
    for batch in table.to_batches(max_chunksize=_AT_ONCE):
        rows = (json.dumps(row, allow_nan=False) + "\n" for row in batch.to_pylist())
        stream.write("".join(rows).encode())
