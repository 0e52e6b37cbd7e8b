"""The output folder: partitions that are whole or absent, and how a scan resumes.

    job.json             files, marks and settings; a resumed scan must have the same
    part-U-K-N.*         N rows in the corpus's order: partition K of the U-th portion of files
    rejects-U-K.jsonl    rows and files rejected in that partition, with reasons, if there are any
    sketches-U-K.npz     sketches of its documents
    kept-U-K-B-N.zip     N batches, from the B-th on, of a partition that is not finished
    calls.*, copies.*, summary.json   written at the end

A partition's rows are written last: a partition with rows is finished.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Literal, get_args

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from powermark.corpus.batches import Reject
from powermark.corpus.rejects import merged
from powermark.corpus.scanner import SCHEMA, Scanned
from powermark.corpus.sketches import Sketches
from powermark.corpus.storage import Folder
from powermark.errors import FileProblem, InvalidInput

Format = Literal["parquet", "jsonl"]
_JOB = "job.json"
_KINDS = (
    "part-",
    "rejects-",
    "sketches-",
    "kept-",
    "job.json",
    "calls.",
    "copies.",
    "summary.json",
)
SAMPLE = 512  # documents of a partition, and then of a corpus, whose n-grams are kept
_AT_ONCE = 1_024  # rows converted to Python objects at once
_CHUNK = 2**20


class Output(Folder):
    """The folder of one scan."""

    def __init__(self, place: str, form: str = "parquet") -> None:
        if form not in get_args(Format):
            raise InvalidInput(f"output_format must be one of {get_args(Format)}; got {form!r}.")
        super().__init__(place)
        self.form = form

    @contextmanager
    def opened(self, job: dict[str, Any]) -> Iterator[None]:
        """Start or resume a job; lock the folder against other processes."""
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
            self._remove_partial()
            self._remove_damaged()
            self._remove_unreached()
            yield
            self._remove_partial()

    def _check_same(self, job: dict[str, Any]) -> None:
        """Refuse to resume a scan with other settings, and say which differ."""
        try:
            begun = dict(json.loads(self.read(_JOB)))
        except ValueError:
            raise FileProblem(
                f"{_JOB} in {self.place!r} is damaged.", hint="choose another folder."
            ) from None
        if "sketches" not in begun:
            raise FileProblem(
                f"{self.place!r} holds a scan by powermark 0.1, which kept no sketches of its "
                "documents; it cannot be resumed.",
                hint="choose another folder; the files of this one stay readable.",
            )
        given = json.loads(json.dumps(job))
        other = [name for name in {**begun, **given} if begun.get(name) != given.get(name)]
        if other:
            shown = ", ".join(name.replace("_", " ") for name in other)
            raise FileProblem(
                f"{self.place!r} holds a scan with other {shown}, and cannot be resumed.",
                hint="choose another folder, or use the settings of that scan.",
            )

    def discard(self) -> None:
        """Remove the files of the scan, and no others, so that another one may begin here."""
        for name in [each for each in self._names() if each.startswith(_KINDS)]:
            self.remove(name)

    def _remove_partial(self) -> None:
        """Remove files that a killed process was writing."""
        for name in self.all_names():
            if name.startswith(tuple(f".{kind}" for kind in _KINDS)):
                self.remove(name)

    def _remove_damaged(self) -> None:
        """Remove partitions without sketches, or with another number of rows than their name says.

        Also remove damaged batches, and those of finished partitions. What was removed and is
        needed is scanned again.
        """
        names = set(self._names())
        for part, name in self._parts().items():
            wanted = int(name.rpartition(".")[0].rpartition("-")[2])
            if _sketches(part) not in names or self._rows(name) != wanted:
                self.remove(name)
        finished = self.finished()
        for part, kept in self._kept().items():
            at = 0
            for name in kept:
                first, size = _batches_of(name)
                if part in finished or first != at or self._kept_batches(name) is None:
                    self.remove(name)
                else:
                    at += size

    def _rows(self, name: str) -> int:
        if self.form == "parquet":
            content = io.BytesIO(self.read(name))
            try:
                return int(pq.read_metadata(content).num_rows)
            except (pa.ArrowException, OSError):  # damaged
                return -1
        with self.reading(name) as stream:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(_CHUNK), b""))

    def _remove_unreached(self) -> None:
        """Remove partitions from the point where a file could not be reached, to read it now.

        The rejects that name the file are removed last: a kill in between changes nothing.
        """
        kinds = ("part-", "rejects-", "sketches-", "kept-")
        files = [name for name in self._names() if name.startswith(kinds)]
        gone: set[str] = set()
        for name in self._rejects():
            if name in gone or not any(reject.again for reject in self.rejects_of(name)):
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

    def batches_done(self) -> dict[str, float]:
        """Return how many batches of each partition, ``U-K``, are done."""
        kept = {part: sum(_batches_of(name)[1] for name in names)
                for part, names in self._kept().items()}  # fmt: skip
        return kept | dict.fromkeys(self.finished(), float("inf"))

    def _kept(self) -> dict[str, list[str]]:
        """Return the files of unfinished partitions by their ``U-K``, in order."""
        found: dict[str, list[str]] = {}
        for name in self._names():
            if name.startswith("kept-"):
                found.setdefault("-".join(_number(name)), []).append(name)
        return {part: sorted(names, key=_batches_of) for part, names in found.items()}

    def keep(self, part: str, first: int, batches: Sequence[Scanned]) -> None:
        """Save batches, from the ``first`` on, of a partition that is not finished."""
        table, content = pa.concat_tables([each.table for each in batches]), io.BytesIO()
        rows = pa.BufferOutputStream()
        with pa.ipc.new_stream(rows, SCHEMA) as writer:
            writer.write_table(table)
        with zipfile.ZipFile(content, "w") as archive:  # for its checksums
            archive.writestr("rows.arrow", rows.getvalue().to_pybytes())
            archive.writestr("rejects.jsonl", _lines(r for each in batches for r in each.rejects))
            sketches = Sketches.joined([each.sketches for each in batches], sys.maxsize)
            archive.writestr("sketches.npz", sketches.to_bytes())
        self.write(f"kept-{part}-{first}-{len(batches)}.zip", content.getvalue())

    def kept(self, part: str) -> list[Scanned]:
        """Return the saved batches of a partition, those of one file joined."""
        found = [self._kept_batches(name) for name in self._kept().get(part, [])]
        return [each for each in found if each is not None]

    def _kept_batches(self, name: str) -> Scanned | None:
        """Return the batches of a file; None if it is damaged."""
        content = io.BytesIO(self.read(name))
        try:
            with zipfile.ZipFile(content) as archive:
                rows = pa.ipc.open_stream(archive.read("rows.arrow")).read_all()
                lines = archive.read("rejects.jsonl").splitlines()
                rejects = [Reject(**json.loads(line)) for line in lines]
                sketches = Sketches.from_bytes(archive.read("sketches.npz"))
                return Scanned(rows, 0, 0, rejects, sketches)
        except (
            zipfile.BadZipFile, zlib.error, KeyError, EOFError, ValueError, OSError,
            RuntimeError,  # encrypted, or of an unknown method
        ):  # fmt: skip
            return None

    def remove_kept(self, part: str) -> None:
        """Remove the saved batches of a partition, once it is finished."""
        for name in self._kept().get(part, []):
            self.remove(name)

    def write_part(self, part: str, batches: Sequence[Scanned]) -> None:
        """Write a partition."""
        sketches = Sketches.joined([each.sketches for each in batches], SAMPLE)
        self.write(_sketches(part), sketches.to_bytes())
        rejects = merged(reject for each in batches for reject in each.rejects)
        if rejects:
            self.write(f"rejects-{part}.jsonl", _lines(rejects))
        rows = pa.concat_tables([each.table for each in batches])
        with self.writing_rows(f"part-{part}-{rows.num_rows}", SCHEMA) as add:
            add(rows.combine_chunks())  # the same bytes whatever the batches

    @contextmanager
    def writing_rows(self, name: str, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
        """Open a file for rows in the output's format; yield a function that adds a table."""
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
            with self._naming_damage(name):
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

    def sketches(self) -> Sketches:
        """Return the sketches of all documents, in the order of the rows."""
        parts = list(self._parts())
        found = []
        for part in parts:
            with self._naming_damage(_sketches(part)):
                one = Sketches.from_bytes(self.read(_sketches(part)))
            found.append(one.thinned(-(-SAMPLE // len(parts))))
        return Sketches.joined(found, SAMPLE)

    def rejects(self) -> Iterator[Reject]:
        """Yield the rejected rows and files, in order."""
        for name in self._rejects():
            yield from self.rejects_of(name)

    def finished_rejects(self) -> dict[str, str]:
        """Return the files of the rejects of finished partitions by their ``U-K``, in order."""
        found, done = {"-".join(_number(name)): name for name in self._rejects()}, self.finished()
        return {part: name for part, name in found.items() if part in done}

    def rejects_of(self, name: str) -> list[Reject]:
        """Return the rejects of a file."""
        with self._naming_damage(name):
            return [Reject(**json.loads(line)) for line in self.read(name).splitlines()]

    @contextmanager
    def _naming_damage(self, name: str) -> Iterator[None]:
        """Turn any error of a reader into one that names the damaged file."""
        try:
            yield
        except (pa.ArrowException, OSError, ValueError, TypeError, AttributeError, KeyError,
                zipfile.BadZipFile, EOFError):  # fmt: skip
            raise FileProblem(
                f"{name} in {self.place!r} is damaged.",
                hint="remove it and run the same command again: only its documents are scanned.",
            ) from None


def _sketches(part: str) -> str:
    return f"sketches-{part}.npz"


def _number(name: str) -> tuple[str, str]:
    """Return the U and K of a partition's rows or rejects."""
    portion, part = name.partition(".")[0].split("-")[1:3]
    return portion, part


def _batches_of(name: str) -> tuple[int, int]:
    """Return the first of a file's batches, and their number."""
    first, size = name.partition(".")[0].split("-")[3:5]
    return int(first), int(size)


def _lines(rejects: Iterable[Reject]) -> bytes:
    return "".join(json.dumps(reject._asdict()) + "\n" for reject in rejects).encode()


def _add_lines(stream: IO[bytes], table: pa.Table) -> None:
    for batch in table.to_batches(max_chunksize=_AT_ONCE):
        rows = (json.dumps(row, allow_nan=False) + "\n" for row in batch.to_pylist())
        stream.write("".join(rows).encode())
