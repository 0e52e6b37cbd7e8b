"""Rejected rows are all counted, and only so many of a file are listed."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from powermark.corpus import batches, rejects, workers
from powermark.corpus.batches import Reject
from powermark.corpus.output import Output
from powermark.corpus.rejects import LISTED, Listing, merged
from powermark.corpus.scan import scan
from powermark.corpus.sources import Source
from tests.corpus.conftest import World, documents, files, text_of
from tests.corpus.test_resume import Killed, killed_after


def test_a_small_file_of_bad_rows_writes_little(world: World, tmp_path: Path) -> None:
    rows, good = 100_000, text_of(documents(world, 4)[3])
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(f"n,text\n1,{good}\n".encode() + b"1,2,3\n" * rows))
    assert path.stat().st_size < 2_000
    found = scan([str(path)], world.job(), str(tmp_path / "out"), workers=1)
    assert (found["rejects"], found["marks"][0]["documents"]) == (rows, 1)
    listed = list(Output(str(tmp_path / "out")).rejects())
    assert [each.place for each in listed[:LISTED]] == [
        f"{path}:{number}" for number in range(2, LISTED + 2)
    ]
    counted = listed[LISTED:]  # a line for each partition
    assert [each.place for each in counted] == [str(path)] * 4
    assert (
        counted[0].reason
        == "31767 more rows are rejected; only the first 1000 of a file are listed"
    )
    assert sum(each.more for each in counted) == rows - LISTED
    assert sum(len(content) for content in files(tmp_path / "out").values()) < 400_000


@pytest.fixture
def five_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five rows of a file are listed; ten rows a batch, four batches a partition, each kept."""
    monkeypatch.setattr(rejects, "LISTED", 5)
    monkeypatch.setattr(batches, "ROWS", 10)
    monkeypatch.setattr(workers, "PART", 4)
    monkeypatch.setattr(workers, "KEPT_EVERY", 0.0)


def _corpus(world: World, folder: Path) -> None:
    """Write good rows among bad ones, in three files; some ids are beyond the vocabulary."""
    folder.mkdir()
    good = documents(world, 60)
    for name, count in (("a", 3), ("b", 60), ("c", 40)):
        rows: list[Any] = [{"ids": good[i], "id": f"{name}{i}"} for i in range(count)]
        for i in range(1, count, 2):
            rows[i] = {"ids": [10**6], "id": f"{name}{i}"} if i % 4 == 1 else {"ids": None}
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.usefixtures("five_listed")
@pytest.mark.parametrize("id_field", [None, "id"])
def test_interruptions_and_damage_change_nothing(
    world: World, tmp_path: Path, id_field: str | None
) -> None:
    _corpus(world, tmp_path / "corpus")
    job = world.job(model=None, field="ids", id_field=id_field)

    def run(name: str, on_progress: Callable[[int, int], object] = lambda *_: None) -> Any:
        output = str(tmp_path / name)
        return scan([str(tmp_path / "corpus")], job, output, workers=1, on_progress=on_progress)

    whole = run("whole")
    assert whole["rejects"] == 1 + 30 + 20
    wanted = files(tmp_path / "whole")
    listed = list(Output(str(tmp_path / "whole")).rejects())
    assert sum(each.more or 1 for each in listed) == 51
    rows = [each for each in listed if not each.more]
    of = {name: sum(f"{name}.jsonl:" in each.place for each in rows) for name in "abc"}
    if id_field is None:
        assert of == {"a": 1, "b": 5, "c": 5}
        assert len(rows) == 11
    else:  # rows with an id that the scanner rejects are together like one more file
        assert of == {"a": 0, "b": 5, "c": 5}
        assert len(rows) == 15
        more = [each.place.rpartition("/")[2] for each in listed if each.more]
        assert set(more) == {"b.jsonl", "c.jsonl", "a.jsonl and those after it"}
    for kill in (2, 1, 3, 1):
        with pytest.raises(Killed):
            run("killed", killed_after(kill, []))
    assert run("killed") == whole
    assert files(tmp_path / "killed") == wanted
    parts = sorted((tmp_path / "killed").glob("part-*"))
    assert len(parts) == 3
    for part in (parts[1], parts[2], parts[0]):
        part.write_bytes(b"")  # this partition is scanned again, among finished ones
        assert run("killed") == whole
        assert files(tmp_path / "killed") == wanted


@pytest.mark.usefixtures("five_listed")
def test_files_that_cannot_be_read_are_all_listed() -> None:
    listing = Listing(tuple(Source(name, "text", None, 0, "") for name in ("a", "b:1")))
    assert listing.bounded([Reject("b:1", "binary")]) == [("b:1", "binary", False, False, 0)]
    broken = [Reject("a", "broken", file=True)] * 6
    assert listing.bounded(broken) == broken
    listing.resume([*broken, Reject("a:1", "null"), Reject("a", "3 more", more=3)])
    found = listing.bounded([Reject(f"a:{i}", "null") for i in range(2, 9)])
    assert [each.place for each in found] == ["a:2", "a:3", "a:4", "a:5", "a"]
    assert found[-1].more == 3
    assert listing.bounded([Reject("c:9", "null")])[0].more == 0


def test_lines_that_count_are_added_up() -> None:
    found = merged([Reject("a", "1 more", more=1), Reject("b:1", "null"), Reject("a", "", more=2)])
    assert [(each.place, each.more) for each in found] == [("b:1", 0), ("a", 3)]
    assert found[1].reason.startswith("3 more rows are rejected;")
