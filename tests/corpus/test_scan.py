"""Whole scans: the same rows whatever happens on the way."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from powermark.corpus import batches, sources, workers
from powermark.corpus.output import Output
from powermark.corpus.scan import scan
from powermark.corpus.scanner import SCHEMA, Scanned
from powermark.corpus.sketches import Sketches
from powermark.errors import FileProblem, InvalidInput
from powermark.files import new_file
from tests.corpus.conftest import World, documents, files, text_of, write_jsonl


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches of 4 documents and partitions of 2 batches, one portion a file."""
    monkeypatch.setattr(batches, "ROWS", 4)
    monkeypatch.setattr(workers, "PART", 2)
    monkeypatch.setattr(sources, "PORTION_BYTES", 1)


@pytest.fixture
def corpus(world: World, tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    texts = [text_of(ids) for ids in documents(world, 30, marked=4)]
    write_jsonl(folder / "a.jsonl", texts[:20])
    write_jsonl(folder / "b.jsonl", texts[20:])
    with (folder / "b.jsonl").open("a") as file:
        file.write("{broken\n")
    return folder


def run(
    world: World, corpus: Path, output: Path | str, form: str = "parquet", **given: Any
) -> dict[str, Any]:
    job = world.job()
    return scan([str(corpus)], job, str(output), output_format=form, workers=2, **given)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_scan_and_every_way_to_interrupt_it(
    world: World, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    seen: list[int] = []
    whole = run(
        world,
        corpus,
        tmp_path / "whole",
        form,
        on_progress=lambda n, _: seen.append(n),
    )
    assert sum(seen) == 30
    wanted = files(tmp_path / "whole")
    assert sorted(name for name in wanted if name.startswith("part")) == [
        f"part-00000-00000-8.{form}",
        f"part-00000-00001-8.{form}",
        f"part-00000-00002-4.{form}",
        f"part-00001-00000-8.{form}",
        f"part-00001-00001-2.{form}",
    ]
    (mark,) = whole["marks"]
    assert mark["documents"] == 30
    assert mark["verdicts"]["watermarked"] >= 4
    assert mark["bh_calls"] >= mark["holm_calls"] >= 3
    assert (whole["rejects"], whole["files_not_read"]) == (1, 0)
    rows = [
        row for table in Output(str(tmp_path / "whole"), form).tables() for row in table.to_pylist()
    ]
    assert [row["id"].rpartition("/")[2] for row in rows[:20]] == [
        f"a.jsonl:{i}" for i in range(1, 21)
    ]
    real = Output.writing
    for allowed in range(0, len(wanted), 1 if form == "parquet" else 4):
        place = tmp_path / f"cut-{allowed}"
        left = [allowed]

        @contextmanager
        def failing(self: Output, name: str, left: list[int] = left) -> Iterator[IO[bytes]]:
            left[0] -= 1
            if left[0] < 0:
                (Path(self.place) / f".{name}.half").write_bytes(b"half")
                raise KeyboardInterrupt
            with real(self, name) as stream:
                yield stream

        monkeypatch.setattr(Output, "writing", failing)
        with pytest.raises(KeyboardInterrupt):
            run(world, corpus, place, form)
        monkeypatch.setattr(Output, "writing", real)
        assert run(world, corpus, place, form) == whole
        assert files(place) == wanted
    again = run(world, corpus, tmp_path / "whole", form)
    assert again == whole
    assert files(tmp_path / "whole") == wanted


_CHILD = """
import sys, time
from powermark.corpus import batches, workers
from powermark.interfaces.cli import main
batches.ROWS, workers.PART = 4, 2
real = workers.Output.write_part
def slow(self, *given):
    print("part", flush=True)
    real(self, *given)
    time.sleep(0.05)
workers.Output.write_part = slow
main(sys.argv[1:])
"""


def test_kill_and_resume(world: World, corpus: Path, tmp_path: Path) -> None:
    """Killed for good in the middle, then run again: the same bytes as undisturbed."""
    common = ["scan", "--spec", str(world.folder / "s.json"), "--key", world.key, "--model"]
    common += [str(world.folder / "model"), str(corpus), "--workers", "2", "--json", "-o"]

    def start(place: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _CHILD, *common, str(tmp_path / place)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    killed = start("killed")
    assert killed.stdout is not None
    killed.stdout.readline()
    time.sleep(0.03)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert "summary.json" not in files(tmp_path / "killed")
    for place in ("killed", "whole"):
        done = start(place)
        answer = done.communicate()[0]
        assert done.returncode == 0
        assert b'"documents": 30' in answer
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_what_is_damaged_is_named_and_made_anew(
    world: World, corpus: Path, tmp_path: Path, form: str
) -> None:
    output = tmp_path / "out"
    whole = run(world, corpus, output, form)
    [rejects] = (tmp_path / "out").glob("rejects-*")
    part = min((tmp_path / "out").glob("part-*"))
    kept = part.read_bytes()
    for broken in (b"\xff" * 9, kept[: len(kept) // 2], b""):
        part.write_bytes(broken)  # another number of rows than in its name: scanned again
        assert run(world, corpus, output, form) == whole
        assert part.read_bytes() == kept
    flipped = bytearray(kept)
    flipped[_where_counts_are(part)] ^= 0x80
    for file, damage in ((part, flipped), (rejects, b"\xff" * 9)):
        kept = file.read_bytes()
        file.write_bytes(damage)
        with pytest.raises(FileProblem, match=f"{file.name} in .* is damaged"):
            run(world, corpus, output, form)
        file.write_bytes(kept)
    assert run(world, corpus, output, form) == whole


def _where_counts_are(part: Path) -> int:
    """Return the place of a byte that the summary reads."""
    if part.suffix == ".jsonl":
        return 0
    group = pq.read_metadata(part).row_group(0)
    chunk = group.column(SCHEMA.names.index("p"))
    return int(chunk.data_page_offset) + int(chunk.total_compressed_size) - 1


def test_a_folder_by_its_address_is_a_folder(tmp_path: Path) -> None:
    """Written under another name first, as folders are; not as object stores."""
    assert Output(f"file://{tmp_path}/o/").place == f"{tmp_path}/o"


def test_output_to_a_store(world: World, corpus: Path, tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    run(world, corpus, "memory://out")
    whole = run(world, corpus, "memory://out/")
    assert run(world, corpus, tmp_path / "out") == whole
    stored = {name.rpartition("/")[2]: memory.cat_file(name) for name in memory.find("/out")}
    assert stored == files(tmp_path / "out")
    memory.rm("/out", recursive=True)


def test_another_job_is_left_alone(world: World, corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run(world, corpus, output)
    with (corpus / "a.jsonl").open("a") as file:
        file.write('{"text": "w1"}\n')
    with pytest.raises(FileProblem, match="holds a scan with other sources, and cannot"):
        run(world, corpus, output)
    with pytest.raises(FileProblem, match="is not empty and holds no scan"):
        run(world, corpus, corpus)
    with (
        Output(str(tmp_path / "busy")).opened({}),
        pytest.raises(FileProblem, match="another process is writing"),
    ):
        run(world, corpus, tmp_path / "busy")
    with pytest.raises(InvalidInput, match="output_format must be one of"):
        Output("out", "xml")


def test_a_full_disk_and_no_documents(
    world: World, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    write_jsonl(empty / "a.jsonl", [])
    with pytest.raises(FileProblem, match=r"the corpus has no document\.$"):
        run(world, empty, tmp_path / "none")
    (empty / "b.jsonl").write_text('{"body": "x"}\n')
    with pytest.raises(FileProblem, match=r"b.jsonl:1: no field 'text'") as wrong:
        run(world, empty, tmp_path / "wrong")
    assert "`field`" in (wrong.value.hint or "")
    assert list((tmp_path / "wrong").glob("[a-z]*")) == []  # another field may be tried here
    (tmp_path / "wrong" / "notes.txt").write_text("mine")
    mine = Output(str(tmp_path / "wrong"))
    mine.write("job.json", b"{}")
    mine.discard()
    assert [path.name for path in (tmp_path / "wrong").glob("[a-z]*")] == ["notes.txt"]

    @contextmanager
    def full(path: Path) -> Iterator[IO[bytes]]:
        with new_file(path) as stream:
            yield stream
            if Path(path).name.startswith("part"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("powermark.corpus.storage.new_file", full)
        with pytest.raises(FileProblem, match=r"cannot write .*part-.*No space left"):
            run(world, corpus, tmp_path / "out")
    run(world, corpus, tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "part-00000-00000-30.parquet").num_rows == 30


def test_what_is_refused(world: World, corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    with pytest.raises(InvalidInput, match="engine must be one of"):
        run(world, corpus, output, engine="dask")
    with pytest.raises(InvalidInput, match="workers must be 1 or more"):
        scan([str(corpus)], world.job(), str(output), workers=0)
    with pytest.raises(InvalidInput, match="standard input can be scanned once"):
        scan(["-"], world.job(), str(output), engine="ray")


def test_the_command(
    world: World, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from powermark.interfaces.cli import main

    common = ["scan", "--spec", str(world.folder / "s.json"), "--key", world.key]
    model = ["--model", str(world.folder / "model")]

    def call(*arguments: str) -> int:
        with pytest.raises(SystemExit) as stop:
            main([*common, *arguments])
        return int(stop.value.code or 0)

    plot = tmp_path / "p.svg"
    assert call(*model, str(corpus), "-o", str(tmp_path / "a"), "--plot", str(plot)) == 0
    shown = capsys.readouterr()
    assert "share" in shown.out
    assert "bh_calls" in shown.out
    assert "documents and" in shown.err
    assert plot.read_bytes().startswith(b"<?xml")
    again = [*model, str(corpus), "-o", str(tmp_path / "a"), "--json"]
    assert call(*again) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["this_run"]["documents"] == 0  # all was done before
    assert answer["marks"][0]["documents"] == 30

    (corpus / "c.csv").write_text("a,b\n1,2\n")
    assert call(*model, str(corpus), "-o", str(tmp_path / "b")) == 2
    assert "1 files could not be read" in capsys.readouterr().err
    assert call(str(corpus / "a.jsonl"), "-o", str(tmp_path / "c"), "--ids") == 2
    assert "text, where token ids are read" in capsys.readouterr().err
    assert call(str(corpus), "-o", str(tmp_path / "d"), "--longest", "0", *model) == 2
    assert "--longest must be 1 or more" in capsys.readouterr().err
    short = tmp_path / "short.jsonl"
    write_jsonl(short, ["w1 w2 w3"])
    assert call(*model, str(short), "-o", str(tmp_path / "e"), "--windows-above", "50") == 0
    told = capsys.readouterr()
    assert "too short to tell" in told.out
    assert "note: this is not the planned test: the detector is winmax-c" in told.err


def test_the_command_on_another_engine_and_without_its_packages(
    world: World, corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from powermark.interfaces.cli import main

    def answer(*_: object, **given: object) -> dict[str, object]:
        assert (given["engine"], given["address"]) == ("ray", "auto")
        return {"rejects": 0, "files_not_read": 0, "marks": []}

    common = ["scan", "--spec", str(world.folder / "s.json"), "--key", world.key, str(corpus)]
    common += ["-o", "out", "--engine", "ray", "--address", "auto", "--ids"]
    with monkeypatch.context() as patch:
        patch.setattr("powermark.corpus.scan.scan", answer)
        with pytest.raises(SystemExit) as stop:
            main(common)
    assert not stop.value.code
    shown = capsys.readouterr()
    assert "0 rows or files rejected" in shown.out
    assert "special tokens count like any other" in shown.err
    monkeypatch.setitem(sys.modules, "powermark.corpus.output", None)
    with pytest.raises(SystemExit) as stop:
        main(common)
    assert stop.value.code == 2
    assert "pip install 'powermark[corpus]'" in capsys.readouterr().err


def test_partitions_without_rows(tmp_path: Path) -> None:
    for form in ("parquet", "jsonl"):
        output = Output(str(tmp_path / form), form)
        (tmp_path / form).mkdir()
        nothing = Sketches.of(np.zeros(0, np.int64), np.zeros(1, np.int64), 2)
        output.write_part("00000-00000", [Scanned(SCHEMA.empty_table(), 0, 0, [], nothing)])
        assert sum(table.num_rows for table in output.tables()) == 0
