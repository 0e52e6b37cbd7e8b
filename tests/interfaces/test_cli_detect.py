"""``powermark detect`` and ``powermark audit``, on a small tokenizer."""

import dataclasses
import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from powermark.detection import inspection
from powermark.errors import FileProblem
from powermark.interfaces.cli import texts
from powermark.interfaces.cli.texts import stream_pieces
from powermark.models import load_tokenizer
from powermark.watermark.keys import SecretKey, load_key, new_key
from powermark.watermark.spec import WatermarkSpec
from tests.conftest import Run
from tests.detection.marked import marked_ids
from tests.interfaces.stdin import stdin


@pytest.fixture
def marked(given: tuple[str, ...]) -> list[int]:
    spec = WatermarkSpec.load(Path(given[1]))
    return marked_ids(spec, load_key(Path(given[3])), 120, np.random.default_rng(0))


def text_of(ids: list[int]) -> str:
    return " ".join(f"w{i}" for i in ids)


def plain_ids(n: int, seed: int = 1) -> list[int]:
    return np.random.default_rng(seed).integers(0, 600, n).tolist()  # type: ignore[no-any-return]


def test_one_text(
    run: Run,
    given: tuple[str, ...],
    marked: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text_of(marked))
    code, out, err = run("detect", *given, str(path))
    assert (code, err) == (0, "")
    assert out.startswith("watermarked\n")
    _, out, _ = run("detect", *given, str(path), "--json")
    found = json.loads(out)
    assert (found["verdict"], found["source"], found["tokens"]) == ("watermarked", str(path), 120)
    _, out, _ = run("detect", *given, str(path), "--tokens")
    assert f"w{marked[5]}" in out
    assert "are not shown" not in out
    monkeypatch.setattr(inspection, "SHOWN", 100)
    assert "20 more tokens are not shown" in run("detect", *given, str(path), "--tokens")[1]
    page = tmp_path / "r.html"
    assert run("detect", *given, str(path), "--html", str(page))[0] == 0
    assert "watermarked" in page.read_text()
    for detector in ("winmax", "winmax-c", "evalue"):
        assert "watermarked" in run("detect", *given, str(path), "--detector", detector)[1]
    _, out, _ = run("detect", *given, str(path), "--prompt", "w1 w2 w3", "--json")
    assert json.loads(out)["scored"] == found["scored"] + 3  # a first token and two contexts


def test_many_texts(run: Run, given: tuple[str, ...], marked: list[int], tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text(text_of(marked))
    (folder / "deep" / "b.md").write_text(text_of(plain_ids(200)))
    (folder / "deep" / "c.bin").write_bytes(b"\0")
    rows = [
        {"text": text_of(plain_ids(10)), "prompt": "w1 w2"},
        {"text": marked, "prompt": [1, 2]},
    ]
    (folder / "d.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    code, out, err = run("detect", *given, str(folder), "--prompt-field", "prompt")
    assert code == 0
    assert "skipped 1 files of " in err
    assert "(.bin)" in err
    verdicts = [line.split("  ")[0] for line in out.splitlines()]
    assert verdicts == ["watermarked", "inconclusive", "watermarked", "no watermark found"]
    _, out, _ = run("detect", *given, str(folder / "d.jsonl"), "--json")
    assert [json.loads(line)["source"].split(":")[-1] for line in out.splitlines()] == ["1", "2"]
    assert "--html is for one text" in run("detect", *given, str(folder), "--html", "x")[2]
    (folder / "d.jsonl").rename(folder / "D.JSONL")
    _, out, _ = run("detect", *given, str(folder / "D.JSONL"), "--json")
    assert [json.loads(line)["source"].split(":")[-1] for line in out.splitlines()] == ["1", "2"]


def test_exit_codes(run: Run, given: tuple[str, ...], marked: list[int], tmp_path: Path) -> None:
    yes, no = tmp_path / "yes.txt", tmp_path / "no.txt"
    yes.write_text(text_of(marked))
    no.write_text(text_of(plain_ids(200)))
    assert run("detect", *given, "--exit-code", str(yes))[0] == 0
    assert run("detect", *given, "--exit-code", str(no))[0] == 1
    assert run("detect", *given, "--exit-code", str(no), str(yes))[0] == 0
    assert run("detect", *given, str(no))[0] == 0


def test_key_rings(run: Run, given: tuple[str, ...], marked: list[int], tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    ring.mkdir()
    (tmp_path / "k.key").rename(ring / "old.key")
    new_key(ring / "new.key")
    path = tmp_path / "ids.txt"
    path.write_text(" ".join(map(str, marked)))
    options = ("detect", "--spec", given[1], "--keys", str(ring), "--ids", str(path))
    _, out, _ = run(*options, "--json")
    found = json.loads(out)
    assert (found["key"], found["keys_tried"], found["verdict"]) == ("old", 2, "watermarked")
    assert "either --key or --keys" in run(*options, "--key", str(ring / "old.key"))[2]
    tied = tmp_path / "tied.json"
    mark = WatermarkSpec.load(Path(given[1]))
    fingerprint = load_key(ring / "old.key").fingerprint
    dataclasses.replace(mark, key_fingerprint=fingerprint).save(tied)
    _, out, _ = run("detect", "--spec", str(tied), *options[3:], "--json")
    found = json.loads(out)
    assert (found["key"], found["keys_tried"]) == ("old", 1)


def test_several_looks(run: Run, given: tuple[str, ...], marked: list[int], tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text_of(marked))
    look = ("detect", *given, str(path), "--json")
    one, more = (
        json.loads(run(*look, *options)[1])
        for options in ((), ("--detector", "evalue", "--detector", "count", "--looks", "5"))
    )
    assert (one["looks"], more["looks"], more["detector"]) == (1, 10, "count")
    assert more["p"] == pytest.approx(10 * one["p"])
    assert one["warnings"] == []
    assert "this is not the planned test: p is corrected for 2 detectors" in more["warnings"][0]
    shown = run(*look[:-1], "--detector", "winmax")[1]
    assert "note: this is not the planned test: the detector is winmax" in shown
    refused = run(*look, "--spec", given[1])[2]
    assert "detect looks for one mark; got 2 specs" in refused
    assert "--looks 2" in refused


def test_streams(
    run: Run,
    given: tuple[str, ...],
    marked: list[int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    stdin(monkeypatch, text_of(marked).encode())
    code, out, err = run("detect", *given, "--stream", "--exit-code")
    assert "note: this is not the planned test: the detector is evalue" in err
    assert code == 0
    assert out.startswith("watermarked after ")
    assert int(out.split()[2]) < 120  # it did not wait for the end
    stdin(monkeypatch, ", ".join(map(str, plain_ids(50))).encode())
    code, out, _ = run("detect", *given, "--stream", "--ids", "--json", "--exit-code")
    found = json.loads(out)
    assert (code, found["detected"], found["tokens"]) == (1, False, 50)
    stdin(monkeypatch, b"w1 w2")
    code, out, _ = run("detect", *given, "--stream")
    assert code == 0
    assert "not enough evidence" in out
    stdin(monkeypatch, b"1 x")
    assert "numbers between blanks" in run("detect", *given, "--stream", "--ids")[2]
    stdin(monkeypatch, b"w1 \xff")
    assert "stdin is not UTF-8" in run("detect", *given, "--stream")[2]
    assert "takes no files" in run("detect", *given, "--stream", "x.txt")[2]
    assert "detector, looks or report" in run("detect", *given, "--stream", "--looks", "2")[2]
    ring = tmp_path / "ring"
    ring.mkdir()
    for name in ("a", "b"):
        new_key(ring / f"{name}.key")
    stdin(monkeypatch, b"w1")
    refused = run(
        "detect", "--spec", given[1], "--keys", str(ring), "--model", given[-1], "--stream"
    )
    assert "--stream takes one --key" in refused[2]


@pytest.mark.parametrize("chunk", [1, 3, 10, 1000])
def test_a_streamed_text_is_split_like_the_whole(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    text = "\ufeffOne  two\n\n three caf\u00e9 \u4e2d\u6587\nlast line \n"
    stdin(monkeypatch, text.encode(), chunk)
    found = list(stream_pieces())
    assert "".join(found) == text.removeprefix("\ufeff").removesuffix("\n")
    assert all(not piece or not piece[-1].isspace() for piece in found[:-1])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.txt", b"caf\xe9", "is not UTF-8 text (byte 3)"),
        ("t.txt", b"a\0b", "is binary, not text"),
        ("t.jsonl", b"{\n", "is not a JSON object with 'text'"),
        ("t.jsonl", b"[1]\n", "is not a JSON object with 'text'"),
        ("t.jsonl", b'{"id": 1, "body": "w2"}\n', "has no field 'text'; it has 'id', 'body'."),
        ("t.jsonl", b'{"text": 5}\n', "must be text or a list of token ids"),
        ("t.jsonl", b'{"text": null}\n', "must be text or a list of token ids"),
        ("t.jsonl", b'{"text": [1, true]}\n', "must be text or a list of token ids"),
    ],
)
def test_unreadable_texts_are_named_and_the_rest_goes_on(
    run: Run, given: tuple[str, ...], tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.txt").write_text(text_of(plain_ids(200)))
    code, out, err = run(
        "detect", *given, str(tmp_path / name), "/nowhere.txt", str(tmp_path / "good.txt")
    )
    assert code == 2
    assert message in err
    assert "cannot read '/nowhere.txt'" in err
    assert out.startswith("no watermark found")


def test_terminal_escapes_are_shown_and_not_obeyed(
    run: Run, given: tuple[str, ...], tmp_path: Path
) -> None:
    escapes = "\x1b[2J\x1b]0;title\x07 \x9b1A \u202e\r"
    path = tmp_path / f"{escapes}.txt"
    path.write_text(f"w1 {escapes} w2")
    rows = tmp_path / f"{escapes}.jsonl"
    rows.write_text('{"text": 5}\n')
    code, out, err = run("detect", *given, "--tokens", str(path))
    assert (code, err) == (0, "")
    assert "\\x1b[2J" in out
    for line in (out, *run("detect", *given, str(path), str(rows))[1:]):
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\r"} & set(line)
        assert "\\x1b]0;title\\x07" in line
    folder = tmp_path / f"folder {escapes}"
    folder.mkdir()
    (folder / f"a.{escapes}x").write_text("x")
    for command in ("detect", "audit"):
        code, _, err = run(command, *given, str(folder))
        assert (code, "skipped 1 files of " in err) == (2, True)
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\r"} & set(err)
        assert "(.\\x1b[2j\\x1b]0;title\\x07 \\x9b1a \\u202e\\rx)" in err
    name = f"no {escapes}"
    table = tmp_path / "t.csv"
    table.write_text(f"{name}\nw1\n")
    code, _, err = run("scan", *given, str(table), "-o", str(tmp_path / "out"))
    assert (code, "\x1b" in err) == (2, False)
    assert "no \\x1b[2J" in err


@pytest.mark.parametrize(
    "text", ["", "w1", "\u202eabc \u05d0", "🙂🙂🙂", "w5 " * 3000, "\ufeffw1 w2"]
)
def test_odd_texts_get_an_answer_and_no_mark(
    run: Run, given: tuple[str, ...], tmp_path: Path, text: str
) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text)
    code, out, err = run("detect", *given, str(path))
    assert (code, err) == (0, "")
    assert out.startswith("inconclusive")


def test_stdin_and_ids(
    run: Run, given: tuple[str, ...], marked: list[int], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    class Stdin:
        buffer = io.BytesIO(text_of(marked).encode())

    monkeypatch.setattr("sys.stdin", Stdin)
    assert run("detect", *given)[1].startswith("watermarked")
    path = tmp_path / "ids.txt"
    path.write_text("1, 2, x")
    code, _, err = run("detect", *given, "--ids", str(path))
    assert code == 2
    assert "must hold token ids" in err
    path.write_text("1 2 3")
    bare = given[:-2]
    assert "special tokens count" in run("detect", *bare, "--ids", str(path))[2]
    free = str(tmp_path / "free.json")  # tied to no tokenizer: there is nothing to say
    run("spec", "new", free, "--gamma", ".5", "--delta", "2", "--vocab-size", "600")
    options = ("--spec", free, "--key", given[3], "--alpha", ".01", "--ids", str(path))
    assert run("detect", *options)[::2] == (0, "")


def test_one_bad_text_does_not_stop_the_rest(
    run: Run, given: tuple[str, ...], marked: list[int], tmp_path: Path
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    assert "no texts in" in run("detect", *given, str(folder))[2]
    assert "no texts in" in run("audit", *given, str(folder))[2]
    (folder / "a.TXT").write_text("1 2 999999")
    (folder / "b.txt").write_text(" ".join(map(str, marked)))
    code, out, err = run("detect", *given, "--ids", str(folder))
    assert code == 2
    assert f"{folder / 'a.TXT'}: the spec is for token ids below 600" in err
    assert "hint: was it tokenised" in err
    assert out.startswith("watermarked")
    surrogate = tmp_path / "s.jsonl"
    surrogate.write_text('{"text": "\\ud800"}')
    assert "not Unicode" in run("detect", *given, str(surrogate))[2]
    assert "cannot read" in run("detect", *given, "x" * 400)[2]
    shown = tmp_path / "shown.txt"
    shown.write_text(text_of(marked))
    found = json.loads(run("detect", *given, "--json", "--tokens", str(shown))[1])
    assert "".join(piece["text"] for piece in found["pieces"]) == text_of(marked)
    assert len(found["evidence"]) == found["scored"]
    assert found["statement"].startswith(f"{found['green']} of {found['scored']} counted tokens")


def test_prompts_of_generated_records(
    run: Run, given: tuple[str, ...], marked: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "o.jsonl"
    path.write_text(json.dumps({"token_ids": marked, "prompt": "w1 w2", "prompt_ids": [1, 2]}))
    base = ("detect", *given[:-2], str(path), "--field", "token_ids", "--json")
    by_ids = json.loads(run(*base, "--prompt-field", "prompt_ids")[1])
    by_text = json.loads(run(*base, "--prompt-field", "prompt", "--model", given[-1])[1])
    assert by_ids["scored"] == by_text["scored"] == json.loads(run(*base)[1])["scored"] + 2


def test_audits(run: Run, given: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "human.jsonl"
    rows = [{"text": text_of(plain_ids(60, seed))} for seed in range(80)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = (
        "audit",
        *given,
        str(path),
        "--lengths",
        "20,40",
        "--alphas",
        ".5",
        "--fresh-keys",
        "3",
    )
    code, out, _ = run(*options)
    assert code == 0
    assert "context width 2" in out
    assert "called marked by this key" in out
    _, out, _ = run(*options, "--json", "--context-width", "1")
    found = json.loads(out)
    assert found["context_width"] == 1
    assert [row["length"] for row in found["rows"]] == [20, 40]
    assert found["rejected"][0].startswith(str(path))
    none = run(*options, "--alphas", "1e-9")[1]
    assert "called marked" not in none
    assert "must be comma-separated numbers" in run(*options, "--lengths", "a")[2]
    assert "lengths must be in" in run(*options, "--lengths", "9" * 30)[2]
    assert "--seed must be 0 or more" in run(*options, "--seed", "-1")[2]
    assert "--fresh-keys must be 0 or more" in run(*options, "--fresh-keys", "-1")[2]
    assert "detectors must be among" in run(*options, "--detectors", "sum")[2]
    path.write_text("{")
    assert "is not a JSON object" in run(*options)[2]


def test_audits_templates(run: Run, given: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "human.jsonl"
    path.write_text(json.dumps({"text": text_of(plain_ids(60, 0))}) + "\n")
    (tmp_path / "one.txt").write_text(text_of(plain_ids(60, 1)))
    common = ("audit", *given, "--lengths", "1", "--alphas", ".5", "--fresh-keys", "1")
    templates = (*common, "--templates", "--texts", "2")
    code, out, _ = run(
        *templates, str(path), str(tmp_path / "one.txt"), "--detectors", "count,winmax"
    )
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:] if " winmax " in line] == [
        "all", str(path), str(tmp_path), "json", "logs", "tables", "licences", "code", "base64"
    ]  # fmt: skip
    rows = json.loads(run(*templates, "--json")[1])["rows"]
    assert {(row["kind"], row["detector"]) for row in rows} == {
        (kind, "count") for kind in ("all", "json", "logs", "tables", "licences", "code", "base64")
    }
    assert "--texts must be 1 or more" in run(*templates, "--texts", "0")[2]
    assert "needs files of unmarked text, or --templates" in run(*common)[2]


def test_a_spec_tied_to_another_tokenizer(run: Run, given: tuple[str, ...], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    content = json.loads((Path(given[-1]) / "tokenizer.json").read_text())
    content["pre_tokenizer"] = {"type": "Whitespace"}
    (other / "tokenizer.json").write_text(json.dumps(content))
    path = tmp_path / "t.txt"
    path.write_text("w1 w2")
    code, _, err = run("detect", *given[:-1], str(other), str(path))
    assert code == 2
    assert "for the tokenizer" in err
    assert len(load_tokenizer(str(other))) == 600
    assert isinstance(load_key(Path(given[3])), SecretKey)


def test_rows_of_tables_are_texts(
    run: Run, given: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("text,other\nw1 w2 w3,\nw4 w5,\n")
    code, out, err = run("detect", *given, str(table))
    assert (code, err) == (0, "")
    assert out.count("inconclusive") == 2
    parquet.write_table(pa.table({"text": ["w1 w2", None]}), tmp_path / "t.parquet")
    code, out, err = run("detect", *given, str(tmp_path / "t.parquet"))
    assert code == 2
    assert (out.count("inconclusive"), "cannot read" in err) == (1, True)
    asked = ("detect", *given, str(table))
    assert "--prompt-field is for JSONL" in run(*asked, "--prompt-field", "p")[2]
    assert "no column 'body'; there is text, other" in run(*asked, "--field", "body")[2]
    code, _, err = run("detect", *given, str(tmp_path / "missing.csv"))
    assert (code, "missing.csv" in err) == (2, True)
    monkeypatch.setitem(sys.modules, "powermark.corpus.readers", None)
    assert "pip install 'powermark[corpus]'" in run("detect", *given, str(table))[2]
    monkeypatch.undo()
    assert "there is text, other; name another with --field." in run(*asked, "--field", "b")[2]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of some bytes."""
    for name, limit in (("_LONGEST", 1_000), ("_LINE", 8_000), ("_WORD", 250), ("_CHUNK", 100)):
        monkeypatch.setattr(texts, name, limit)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("command", ["detect", "audit"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.txt", b"w1 " * 334),
        ("t", b"w1 " * 334),
        ("t.csv", b"text\n" + b"w1 " * 334 + b"\n"),
        ("t.csv", "text\n{}\n".format("\u4e2d" * 334).encode()),
        ("t.jsonl", json.dumps({"text": "w1 " * 334}).encode()),
        ("t.jsonl", json.dumps({"text": "\u4e2d" * 334}).encode()),
        ("t.jsonl", json.dumps({"text": [1] * 1_001}).encode()),
        ("t.jsonl", json.dumps({"text": "w1", "other": "x" * 9_000}).encode()),
        ("t.jsonl", b'{"text": "' + b"x" * 20_000 + b"\n"),
    ],
)
def test_texts_are_bounded(
    run: Run, given: tuple[str, ...], tmp_path: Path, command: str, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.txt").write_text(text_of(plain_ids(200)))
    code, out, err = run(command, *given, str(tmp_path / name), str(tmp_path / "good.txt"))
    assert code == 2
    [first, hint] = err.splitlines()[-2:]
    assert first.startswith("powermark: ")
    assert "is too long: a text may have at most 1,000 bytes or token ids." in first
    assert hint.startswith("  hint: split it into shorter texts; `powermark scan` reads longer")
    assert out.startswith("no watermark found") == (command == "detect")


@pytest.mark.usefixtures("small")
def test_rows_beside_a_long_one_are_read(
    run: Run, given: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    good = b'{"text": "w1 w2", "prompt": "w3"}\n'
    long = json.dumps({"text": "w1", "prompt": "w1 " * 334}).encode()
    path.write_bytes(good + b"x" * 20_000 + b"\n\xff\n" + good + long + b"\n" + good.strip())
    code, out, err = run("detect", *given, "--prompt-field", "prompt", str(path), "--json")
    assert code == 2
    found = [json.loads(line)["source"] for line in out.splitlines()]
    assert found == [f"{path}:{number}" for number in (1, 4, 6)]
    assert [f"{path}:2' is too long" in err, f"{path}:5' is too long" in err] == [True, True]
    assert f"{path}:3' is not UTF-8 text (byte 0)" in err
    path.write_text(json.dumps({f"field {i}": i for i in range(200)}))
    _, _, err = run("detect", *given, str(path))
    assert "it has 'field 0', 'field 1', " in err
    assert len(err.splitlines()[0]) < 700
    stdin(monkeypatch, b"w1 " * 334)
    code, _, err = run("detect", *given)
    assert (code, "'-' is too long" in err) == (2, True)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("letter", ["x", " ", "\u4e2d"])
def test_a_stream_without_blanks_is_bounded(monkeypatch: pytest.MonkeyPatch, letter: str) -> None:
    stdin(monkeypatch, f"w1 w2 {letter * 300}".encode())
    pieces = stream_pieces()
    assert next(pieces) == "w1 w2"
    with pytest.raises(FileProblem, match="more than 250 characters in one word or blank space"):
        list(pieces)
