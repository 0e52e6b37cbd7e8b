"""Records of long jobs: kept whole, cut where unfinished, refused where damaged."""

import json
from pathlib import Path

import pytest

from powermark.errors import FileProblem
from powermark.generation.records import Records

ROWS = [{"index": i, "signature": "s", "text": f"text {i}"} for i in range(6)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    with Records(path, "s", 2, 6) as records:
        for first in range(0, 4, 2):
            records.append(ROWS[first : first + 2])
    return path


def test_rows_have_no_checksums(file: Path) -> None:
    with Records(file, "s", 2, 6) as records:
        assert records.done == 4
        assert records.rows() == ROWS[:4]
    first = json.loads(file.read_bytes().splitlines()[0])
    assert first == {**ROWS[0], "crc32": first["crc32"]}


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"text 2", b"text 3"), (b'"crc32"', b'"crc33"'), (b', "crc32": ', b', "crc32": 1')],
)
def test_a_changed_record_is_refused(file: Path, old: bytes, new: bytes) -> None:
    damaged = file.read_bytes().replace(old, new)
    file.write_bytes(damaged)
    with (
        pytest.raises(FileProblem, match="holds no records of these settings; it was not changed"),
        Records(file, "s", 2, 6),
    ):
        pass
    assert file.read_bytes() == damaged


def test_half_a_batch_is_cut_off(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"index": 4, "sig')
    with Records(file, "s", 2, 6) as records:
        assert records.done == 4
    assert file.read_bytes() == whole
