"""Every format gives the same documents; invalid rows are rejected."""

import csv
import gzip
import io
import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from powermark.corpus import batches
from powermark.corpus.batches import IDS, TEXT, Batch, Reject
from powermark.corpus.job import ReadOptions
from powermark.corpus.parquet_pages import pages
from powermark.corpus.readers import read
from powermark.corpus.sources import find_sources, portions
from powermark.errors import FileProblem, InvalidInput, MissingExtra

OPTIONS = ReadOptions()
TEXTS = ["one two", "", "drei — vier", 'a "quoted", line\nand another']


def rows(paths: list[str], options: ReadOptions = OPTIONS, kind: str | None = None) -> list[Batch]:
    return list(read(find_sources(paths, kind), options))


def contents(batches: list[Batch]) -> list[object]:
    return [value for batch in batches for value in batch.content.to_pylist()]


def rejects(batches: list[Batch]) -> list[Reject]:
    return [reject for batch in batches for reject in batch.rejects]


def lines(values: Sequence[object], field: str = "text") -> bytes:
    return "".join(
        json.dumps({field: value, "n": i}) + "\n" for i, value in enumerate(values)
    ).encode()


def test_every_format_gives_the_same_documents(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(TEXTS))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines(TEXTS)))
    with pa.CompressedOutputStream(str(tmp_path / "c.ndjson.zst"), "zstd") as stream:
        stream.write(lines(TEXTS))
    pq.write_table(pa.table({"text": TEXTS, "n": range(4)}), tmp_path / "d.parquet")
    with (tmp_path / "e.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["n", "text"], *([i, text] for i, text in enumerate(TEXTS))])
    for name in ("a.jsonl", "b.jsonl.gz", "c.ndjson.zst", "d.parquet", "e.csv"):
        path = str(tmp_path / name)
        found = rows([path])
        assert contents(found) == TEXTS, name
        assert [i for b in found for i in b.ids.to_pylist()] == [f"{path}:{i}" for i in range(1, 5)]
        named = rows([path], ReadOptions(id_field="n"))
        assert [i for batch in named for i in batch.ids.to_pylist()] == ["0", "1", "2", "3"]
    folder = rows([str(tmp_path)])
    assert contents(folder) == TEXTS * 5
    assert contents(rows([str(tmp_path / "*.jsonl*")])) == TEXTS * 2


def test_text_files_are_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone two\r\n")
    (tmp_path / "b.md").write_bytes(b"caf\xe9")
    (tmp_path / "c.txt").write_bytes(b"a\0b")
    (tmp_path / "d.txt").write_bytes("ä".encode() * 30)
    (tmp_path / "other.bin").write_bytes(b"x")
    found = rows([str(tmp_path)], ReadOptions(longest=20))
    assert contents(found) == ["one two"]
    assert [reason for _, reason, *_ in rejects(found)] == [
        "not UTF-8",
        "binary, not text",
        "too long: more than 20 characters or token ids",
    ]
    (tmp_path / "d.txt").write_bytes(b"x" + "ä".encode() * 60)  # cut in the middle of a character
    assert "too long" in rejects(rows([str(tmp_path / "d.txt")], ReadOptions(longest=20)))[0].reason


def test_standard_input_and_urls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Stdin:
        buffer = io.BytesIO(lines(TEXTS))

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert contents(rows(["-"])) == TEXTS
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/corpus/a.jsonl", lines(TEXTS))
    memory.pipe_file("/corpus/b.txt", b"one")
    assert contents(rows(["memory://corpus"])) == [*TEXTS, "one"]
    assert contents(rows(["memory://corpus/*.txt"])) == ["one"]
    assert contents(rows(["memory://corpus/b.txt"])) == ["one"]
    odd = tmp_path / "odd"
    odd.write_bytes(b"one")
    assert contents(rows([str(odd)], kind="text")) == ["one"]
    memory.rm("/corpus", recursive=True)


def test_what_is_not_found_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"cannot read 'nowhere\.jsonl'"):
        find_sources(["nowhere.jsonl"])
    with pytest.raises(InvalidInput, match="no documents in"):
        find_sources([str(tmp_path)])
    (tmp_path / "odd").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"the format of .* is unknown"):
        find_sources([str(tmp_path / "odd")])
    with pytest.raises(InvalidInput, match="input_format must be one of"):
        find_sources(["-"], "xml")
    with pytest.raises(MissingExtra, match="needs a package"):
        find_sources(["dropbox://corpus/a.jsonl"])


def test_bad_rows_are_rejected_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = lines(["one", [1, 2], [], "two"])
    bad = [
        b"{broken",
        b"[1]",
        b'{"other": 1}',
        b'{"text": null}',
        b'{"text": 7}',
        b'{"text": [1, "a"]}',
        b'{"text": [[1], [2]]}',
        b'{"text": [1.5]}',
        b'{"text": [[1], [2, 3]]}',
        b'{"text": "\\ud800"}',
        b'{"text": "caf\xe9"}',
        b'{"text": "' + b"x" * 99 + b'"}',
        b'{"text": "' + b"x" * 200_000 + b'"}',
        b'{"text": "' + b"x" * 70_000,
        b"",
    ]
    path.write_bytes(good + b"\n".join(bad) + b"\n \n")
    found = rows([str(path)], ReadOptions(longest=50))
    assert contents(found) == ["one", [1, 2], [], "two"]
    assert [batch.content.type for batch in found[:3]] == [TEXT, IDS, TEXT]
    problems = rejects(found)
    assert [int(place.rpartition(":")[2]) for place, *_ in problems] == list(range(5, 19))
    words = ["not JSON", "no field", "no field", "null", *["neither"] * 5, "not Unicode"]
    words += ["not UTF-8", "too long", "too long", "too long"]
    assert all(word in reject.reason for word, reject in zip(words, problems, strict=True))


def test_bad_rows_of_a_table(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    raw = pa.array([b"one", b"caf\xe9", None, b"x" * 99, b"two"])
    pq.write_table(pa.table({"text": raw, "id": ["a", None, "c", "d", "e"]}), path)
    found = rows([path], ReadOptions(id_field="id", longest=50))
    assert contents(found) == ["one", "two"]
    assert found[0].ids.to_pylist() == ["a", "e"]
    assert [reason[:8] for _, reason, *_ in rejects(found)] == ["not UTF-", "'text' i", "too long"]
    assert rejects(found)[0].place == f"{path}:2"
    ids = pa.array([[1, 2], [3, None], None, [], [4] * 60], pa.list_(pa.int32()))
    pq.write_table(pa.table({"text": ids}), path)
    found = rows([path], ReadOptions(longest=50))
    assert contents(found) == [[1, 2], []]
    assert ["a null among" in reason for _, reason, *_ in rejects(found)] == [True, False, False]
    pq.write_table(pa.table({"text": pa.array(["a", "b", "a"]).dictionary_encode()}), path)
    assert contents(rows([path])) == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("column", "words"),
    [({"text": [1.5]}, "'text' holds double"), ({"a": ["x"]}, "no column 'text'; there is a"),
     ({"text": [["x"]]}, "neither text nor token ids")],
)  # fmt: skip
def test_a_table_without_texts_is_a_rejected_file(
    tmp_path: Path, column: dict[str, list[object]], words: str
) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table(column), path)
    (problem,) = rejects(rows([path]))
    assert problem.file
    assert words in problem.reason


def test_files_that_break_off(tmp_path: Path) -> None:
    whole = gzip.compress(
        lines([f"text {i} {np.random.default_rng(i).random()}" for i in range(900)])
    )
    (tmp_path / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "b.parquet").write_bytes(b"PAR1 or not")
    (tmp_path / "c.csv").write_bytes(b"")
    (tmp_path / "d.csv").write_bytes(b'text,n\none,1\n\ntwo\n"caf\xe9",2\nthree,3\n')
    (tmp_path / "e.csv").write_bytes(b'text\n"' + b"x" * 200_000)
    (tmp_path / "f.csv").write_bytes(b"a,b\n1,2\n")
    (tmp_path / "g.jsonl").write_bytes(b'{"a": 1}\n' * 600)
    found = rows([str(tmp_path)], ReadOptions(longest=500))
    assert contents(found)[-2:] == ["one", "three"]
    problems = {place.rpartition("/")[2]: why for place, why, file, *_ in rejects(found) if file}
    assert set(problems) == {"a.jsonl.gz", "b.parquet", "e.csv", "f.csv", "g.jsonl"}
    assert "no column 'text'; there is a, b" in problems["f.csv"]
    single = {place.rpartition("/")[2]: why for place, why, file, *_ in rejects(found) if not file}
    assert single["d.csv:3"] == "1 columns in place of 2"
    assert single["d.csv:4"] == "not Unicode text"


def test_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "WEIGHT", 10)
    texts = ["12345", "123456", "1234", "123456789012", "1"]
    (tmp_path / "a.jsonl").write_bytes(lines(texts))
    pq.write_table(pa.table({"text": texts}), tmp_path / "b.parquet")
    for name in ("a.jsonl", "b.parquet"):
        found = rows([str(tmp_path / name)])
        assert contents(found) == texts
        assert max(len(batch.ids) for batch in found) <= 2
        assert len(found) >= 3


def test_small_files_are_worked_through_together(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_bytes(b"x")
    assert [len(portion) for portion in portions(find_sources([str(tmp_path)]))] == [3]


def test_long_names_and_many_columns_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"c{i}" for i in range(200)) + "\n")
    [reject] = rejects(rows([str(path)]))
    assert reject.reason.endswith("c18, c19 and 180 more; name another with `field`")
    path.write_text("x" * 100_000 + "\n")
    [reject] = rejects(rows([str(path)]))
    assert len(reject.reason) < 600
    path.write_text("," * 10_000 + "\n")
    [reject] = rejects(rows([str(path)]))
    assert reject == Reject(str(path), "10001 columns, more than 10000", file=True)
    path.write_text('text,id\n"one",' + "x" * 5_000 + "\n")
    pq.write_table(pa.table({"text": ["one"], "id": ["x" * 5_000]}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        [batch] = rows([str(tmp_path / name)], ReadOptions(id_field="id"))
        assert batch.ids.to_pylist() == ["x" * 4_096]


def test_rows_of_csv_are_bounded_over_many_lines(tmp_path: Path) -> None:
    path, options = tmp_path / "a.csv", ReadOptions(longest=10)
    good = 'text,other\n"one\n","\n\n"\n'
    path.write_text(good + 'two,"' + '\n","' * 50_000)
    found = rows([str(path)], options)
    assert contents(found) == ["one\n"]
    [reject] = rejects(found)
    assert reject == Reject(str(path), "a row of more than 65696 characters", file=True)


def test_lists_of_other_things_are_no_token_ids(tmp_path: Path) -> None:
    values = [[1, "a"], [True, 1], [1.0], [[1]], [2**70], [None], [3, 4]]
    (tmp_path / "a.jsonl").write_bytes(lines(values))
    found = rows([str(tmp_path / "a.jsonl")])
    assert contents(found) == [[3, 4]]
    assert len(rejects(found)) == 6


def test_values_of_parquet_that_are_too_long(tmp_path: Path) -> None:
    texts = ["x" * 41, "ä" * 10, b"\xff" * 10, None, "é" * 20, "fine"]
    binary = [text.encode() if isinstance(text, str) else text for text in texts]
    pq.write_table(pa.table({"text": pa.array(binary, pa.binary())}), tmp_path / "a.parquet")
    found = rows([str(tmp_path / "a.parquet")], ReadOptions(longest=10))
    assert contents(found) == ["ä" * 10, "fine"]
    too_long = "too long: more than 10 characters or token ids"
    reasons = [reject.reason for reject in rejects(found)]
    assert reasons == [too_long, "not UTF-8", "'text' is null", too_long]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "zstd", "snappy", "gzip"])
def test_pages_are_measured(tmp_path: Path, version: str, codec: str) -> None:
    path, width = tmp_path / "a.parquet", 70
    texts = [f"{i:08d}" * width for i in range(3_000)]
    table = pa.table({"text": texts, "ids": [[i, None, 7] for i in range(3_000)], "n": [1] * 3_000})
    pq.write_table(table, path, compression=codec, data_page_version=version, row_group_size=2_000)
    about = pq.ParquetFile(path).metadata
    for group, column in product(range(2), range(3)):
        chunk = about.row_group(group).column(column)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        with path.open("rb") as stream:
            found = list(pages(stream, start, chunk.total_compressed_size))
        assert sum(page.values for page in found) == chunk.num_values
        headers = chunk.total_compressed_size - sum(page.stored for page in found)
        assert headers == chunk.total_uncompressed_size - sum(page.size for page in found)
    assert contents(rows([str(path)])) == texts


@pytest.mark.parametrize(
    "header",
    [
        b"",  # nothing
        b"\x15\x00\x15\x10",  # breaks off
        b"\x15\x00\x00",  # no sizes
        b"\x15\x00\x15\x01\x15\x01\x00",  # sizes below 0
        b"\x15\x00\x19\x00",  # a list
        b"\x1c" * 20,  # structs without end
        b"\x18\xff\xff\xff\xff\x0f",  # bytes without end
    ],
)
def test_damaged_headers_of_pages_are_refused(header: bytes) -> None:
    with pytest.raises(FileProblem, match="header of a page is damaged"):
        list(pages(io.BytesIO(header), 0, 100))


def test_other_fields_of_headers_are_passed_over() -> None:
    """True, false, a byte, a long number, a double, bytes; a field named in full; then sizes."""
    odd = b"\x11\x12\x13\x05\x16\x80\x01\x17" + bytes(8) + b"\x18\x02ab"
    sizes = b"\x05\x04\x02\x05\x06\x04"
    odd_first = odd + sizes  # fields 2 and 3 come last, by their own numbers
    [page] = pages(io.BytesIO(odd_first + b"\x00" + bytes(2)), 0, len(odd_first) + 3)
    assert page == (1, 2, 0)


def test_a_page_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 5_000, "y"]}), path)
    monkeypatch.setattr("powermark.corpus.parquet._PAGE", 1_000)
    [reject] = rejects(rows([str(path)]))
    assert reject.reason == "a page of 0 MB, more than 0: write the file with smaller pages"
    assert reject.file


def test_columns_without_a_dictionary_are_measured_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": TEXTS}), path, use_dictionary=False)
    assert contents(rows([str(path)])) == TEXTS
    monkeypatch.setattr("powermark.corpus.parquet._PAGE", 10)
    [reject] = rejects(rows([str(path)]))
    assert reject.reason == "a page of 0 MB, more than 0: write the file with smaller pages"


def test_a_list_that_is_too_long_for_its_bytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [[7] * 100_000, [8]]}), path)
    monkeypatch.setattr("powermark.corpus.parquet._VALUES", 1_000)
    [reject] = rejects(rows([str(path)]))
    assert reject.reason.startswith("100001 values in ")


def test_pages_of_a_remote_file_are_measured_where_its_footer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 5_000, "y"]}), path)
    monkeypatch.setattr("powermark.corpus.parquet._PAGE", 1_000)
    assert contents(rows([f"file://{path}"])) == ["x" * 5_000, "y"]
    monkeypatch.setattr("powermark.corpus.parquet._ROOM", 1_000)
    assert [reject.file for reject in rejects(rows([f"file://{path}"]))] == [True]


def test_a_missing_field_is_said_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,body\n1,x\n")
    pq.write_table(pa.table({"id": [1], "body": ["x"]}), tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text('{"id": 1, "body": "x"}\n[1]\n{"text": "x"}\n{"id": 1}\n')
    (tmp_path / "d.jsonl").write_text('{"id": 1, "body": "x"}\n' * 600)
    reasons = [reject.reason for reject in rejects(rows([str(tmp_path)]))]
    missing = "no column 'text'; there is id, body; name another with `field`"
    fields = ["no field 'text'; there is id, body", "no field 'text'; there is none"]
    assert reasons[:5] == [missing, missing, *fields, "no field 'text'"]
    assert reasons[-1] == missing
    named = ReadOptions(field="body", id_field="url")
    [reject] = rejects(rows([str(tmp_path / "a.csv")], named))
    assert reject.reason == "no column 'url'; there is id, body; name another with `id_field`"
