"""What passes is waited for; what does not is said, and tried again when the scan goes on."""

import errno
import io
import os
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from powermark.corpus import batches, sources, storage, workers
from powermark.corpus.job import ReadOptions
from powermark.corpus.output import Output
from powermark.corpus.readers import read
from powermark.corpus.scan import scan
from powermark.corpus.sources import find_sources
from powermark.corpus.storage import TRIES, RetryingFile, is_transient, retry
from powermark.errors import FileProblem
from tests.corpus.conftest import World, documents, files, text_of, write_jsonl


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "WAIT", 0.0)


class Shaky(MemoryFileSystem):  # type: ignore[misc]  # ships no types
    """A file system without whole uploads, that fails as often as it is told to."""

    protocol = "shaky"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    failures = 0
    error: Exception = ConnectionResetError("reset")

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("shaky://", "memory://")))

    def _fail(self) -> None:
        if type(self).failures:
            type(self).failures -= 1
            raise self.error

    def _open(self, path: str, mode: str = "rb", **given: Any) -> Any:
        self._fail()
        return super()._open(path, mode, **given)

    def put_file(self, lpath: str, rpath: str, **given: Any) -> None:
        assert "/." in rpath, "seen before it is whole"
        self._fail()
        super().put_file(lpath, rpath, **given)


fsspec.register_implementation("shaky", Shaky, clobber=True)


@pytest.fixture
def shaky() -> type[Shaky]:
    Shaky.store.clear()
    Shaky.pseudo_dirs[:] = [""]
    Shaky.failures, Shaky.error = 0, ConnectionResetError("reset")
    return Shaky


class _Status(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class ClientPayloadError(Exception):
    """As aiohttp's, which is no OSError."""


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionRefusedError(), True),
        (TimeoutError(), True),
        (OSError(errno.ESTALE, "stale"), True),
        (_Status(503), True),
        (ClientPayloadError(), True),
        (FileNotFoundError(errno.ENOENT, "gone"), False),
        (PermissionError(errno.EACCES, "no"), False),
        (OSError(errno.ENOSPC, "full"), False),
        (_Status(404), False),
        (ValueError("x"), False),
    ],
)
def test_what_passes(error: Exception, passes: bool) -> None:
    calls = []

    def call() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise error
        return "done"

    assert is_transient(error) == passes
    if passes:
        assert retry(call) == "done"
        return
    expected = type(error) if isinstance(error, OSError) else FileProblem
    with pytest.raises(expected):
        retry(call)
    assert len(calls) == 1


def test_a_file_is_read_on_from_the_same_place(tmp_path: Path) -> None:
    content = os.urandom(50_000)

    class Breaking(io.BytesIO):
        def readinto(self, buffer: Any) -> int:
            if self.tell() and not broken:
                broken.append(self.tell())
                raise OSError(errno.EIO, "lost")
            return super().readinto(memoryview(buffer)[:1_000])

    broken: list[int] = []
    with RetryingFile(lambda: Breaking(content)) as file:
        assert io.BufferedReader(file, 4_096).read() == content
        assert broken == [1_000]
    pq.write_table(pa.table({"text": ["one", "two"]}), tmp_path / "a.parquet")
    broken.clear()
    table = (tmp_path / "a.parquet").read_bytes()
    with RetryingFile(lambda: Breaking(table)) as file:
        assert pq.read_table(io.BufferedReader(file)).num_rows == 2
        assert file.seek(-3, io.SEEK_END) == len(table) - 3
        assert file.seek(1, io.SEEK_CUR) == file.tell() == len(table) - 2


def test_a_corpus_on_a_shaky_store(shaky: type[Shaky]) -> None:
    shaky().pipe_file("/c/a.jsonl", b'{"text": "one"}\n')
    found = find_sources(["shaky://c"])
    shaky.failures = TRIES - 1
    (batch,) = read(found, ReadOptions())
    assert batch.content.to_pylist() == ["one"]
    shaky.failures = TRIES
    (batch,) = read(found, ReadOptions())
    assert batch.rejects == [("shaky:///c/a.jsonl", f"after {TRIES} tries: reset", True, True, 0)]
    shaky.failures, shaky.error = 1, PermissionError(errno.EACCES, "no")
    (batch,) = read(found, ReadOptions())
    assert (batch.rejects[0].file, batch.rejects[0].again) == (True, False)
    assert shaky.failures == 0


def test_output_appears_once_it_is_whole(
    world: World, tmp_path: Path, shaky: type[Shaky], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "a.jsonl", [text_of(ids) for ids in documents(world, 9)])
    found = [str(tmp_path / "a.jsonl")]
    shaky.failures = 2
    whole = scan(found, world.job(), "shaky://out", workers=1)
    shaky().pipe_file("/out/.part-00000-00000-9.parquet.part", b"half")  # killed while sending
    assert scan(found, world.job(), "shaky://out", workers=1) == whole
    scan(found, world.job(), str(tmp_path / "out"), workers=1)
    stored = {name.rpartition("/")[2]: shaky().cat_file(name) for name in shaky().find("/out")}
    assert stored == files(tmp_path / "out")
    shaky.failures, shaky.error = 1, OSError(errno.ENOSPC, "full")
    with pytest.raises(FileProblem, match=r"cannot write 'job.json' to 'shaky://new': .*full"):
        scan(found, world.job(), "shaky://new", workers=1)
    monkeypatch.setattr(Shaky, "exists", Mock(side_effect=ConnectionResetError("reset")))
    with pytest.raises(FileProblem, match=r"cannot reach 'shaky://out': reset\."):
        scan(found, world.job(), "shaky://out", workers=1)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_damaged_partition_is_scanned_again(world: World, tmp_path: Path, form: str) -> None:
    write_jsonl(tmp_path / "a.jsonl", [text_of(ids) for ids in documents(world, 9)])
    found = [str(tmp_path / "a.jsonl")]
    output = str(tmp_path / "out")
    whole = scan(found, world.job(), output, output_format=form, workers=1)
    wanted = files(tmp_path / "out")
    part = tmp_path / "out" / f"part-00000-00000-9.{form}"
    lines = part.read_bytes().splitlines(keepends=True)
    part.write_bytes(b"".join(lines[: len(lines) // 2]))
    assert scan(found, world.job(), output, output_format=form, workers=1) == whole
    assert files(tmp_path / "out") == wanted


def test_what_could_not_be_reached_is_tried_again(
    world: World, tmp_path: Path, shaky: type[Shaky], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three files is away at first; going on gives what an undisturbed scan gives."""
    monkeypatch.setattr(batches, "ROWS", 4)
    monkeypatch.setattr(workers, "PART", 1)
    texts = [text_of(ids) for ids in documents(world, 18)]
    for number, name in enumerate("abc"):
        write_jsonl(tmp_path / name, texts[6 * number : 6 * number + 6])
        shaky().pipe_file(f"/c/{name}.jsonl", (tmp_path / name).read_bytes() + b"{broken\n")
    found = ["shaky://c"]
    assert len(sources.portions(find_sources(found))) == 1
    whole = scan(found, world.job(), str(tmp_path / "whole"), workers=1)
    real = Shaky._open

    def away(self: Shaky, path: str, mode: str = "rb", **given: Any) -> Any:
        if path.endswith("b.jsonl"):
            raise ConnectionResetError("reset")
        return real(self, path, mode, **given)

    output = str(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(Shaky, "_open", away)
        first = scan(found, world.job(), output, workers=1)
        assert (first["marks"][0]["documents"], first["files_not_read"]) == (12, 1)
    assert scan(found, world.job(), output, workers=1) == whole
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.parametrize("place", ["memory://broken", "folder"])
def test_what_breaks_the_writing_of_a_file_is_said_as_it_is(place: str, tmp_path: Path) -> None:
    output = Output(place if "://" in place else str(tmp_path))
    with pytest.raises(FileProblem, match=r"^a part is gone\.$"), output.writing("calls.jsonl"):
        raise FileProblem("a part is gone.")
    assert not list(output.tables())
    assert not list(tmp_path.iterdir())
