"""What goes wrong with a corpus: a clear sentence or a reject, and the exit code that docs name."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from powermark.corpus.output import Output
from tests.corpus.conftest import World, documents, text_of, write_jsonl


class Trouble:
    """Scans files of a folder with the command, and keeps what it said."""

    def __init__(self, world: World, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.world, self.folder, self._capsys = world, folder, capsys
        self.texts = [text_of(ids) for ids in documents(world, 200)]

    def scan(self, *given: str, model: str | None = None) -> tuple[int, str]:
        """Return the exit code and what was printed."""
        from powermark.interfaces.cli import main

        world = self.world
        mark = ["--spec", str(world.folder / "s.json"), "--key", world.key]
        named = ["--model", model or str(world.folder / "model"), "--workers", "1"]
        with pytest.raises(SystemExit) as stop:
            main(["scan", *mark, *named, str(self.folder), "-o", f"{self.folder}-out", *given])
        shown = self._capsys.readouterr()
        return int(stop.value.code or 0), shown.out + shown.err

    def rejects(self) -> list[str]:
        return [reject.reason for reject in Output(f"{self.folder}-out").rejects()]


@pytest.fixture
def trouble(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Trouble:
    folder = tmp_path / "corpus"
    folder.mkdir()
    return Trouble(world, folder, capsys)


def test_one_percent_of_corrupt_rows(trouble: Trouble) -> None:
    lines = [json.dumps({"text": text}) for text in trouble.texts]
    lines[50], lines[150] = "{broken", json.dumps({"text": None})
    (trouble.folder / "a.jsonl").write_text("\n".join(lines))
    code, said = trouble.scan()
    assert code == 0
    assert "2 rows or files rejected" in said
    assert trouble.rejects() == ["not JSON", "'text' is null"]


def test_a_wrong_column_is_named(trouble: Trouble) -> None:
    pq.write_table(pa.table({"body": trouble.texts}), trouble.folder / "a.parquet")
    code, said = trouble.scan()
    assert code == 2
    assert "no column 'text'; there is body; name another with --field." in said
    assert trouble.scan("--field", "body")[0] == 0


def test_a_wrong_field_is_named(trouble: Trouble) -> None:
    (trouble.folder / "a.jsonl").write_text('{"id": 1, "body": "w1 w2"}\n')
    code, said = trouble.scan()
    assert code == 2
    assert "a.jsonl:1: no field 'text'; there is id, body." in said
    assert "hint: name the field of the text with --field." in said


def test_a_wrong_tokenizer_is_refused(trouble: Trouble, tmp_path: Path) -> None:
    write_jsonl(trouble.folder / "a.jsonl", trouble.texts)
    inner = Tokenizer.from_file(str(trouble.world.folder / "model" / "tokenizer.json"))
    inner.add_tokens(["another"])
    (tmp_path / "other").mkdir()
    inner.save(str(tmp_path / "other" / "tokenizer.json"))
    code, said = trouble.scan(model=str(tmp_path / "other"))
    assert code == 2
    assert "tokenizer" in said
    assert "Traceback" not in said


def test_an_empty_file_beside_others_and_alone(trouble: Trouble) -> None:
    (trouble.folder / "a.jsonl").write_bytes(b"")
    code, said = trouble.scan()
    assert code == 2
    assert "the corpus has no document." in said
    (trouble.folder / "b.csv").write_text("text\nw1 w2\n")
    code, said = trouble.scan("-o", f"{trouble.folder}-second")
    assert code == 0


def test_mixed_schemas(trouble: Trouble) -> None:
    """Each file has its own; what has no such column is one reject, and the others are scanned."""
    pq.write_table(pa.table({"text": trouble.texts[:5]}), trouble.folder / "a.parquet")
    ids = pa.array([[1, 2, 3]] * 4, pa.list_(pa.int32()))
    pq.write_table(pa.table({"n": [1] * 4, "text": ids}), trouble.folder / "b.parquet")
    pq.write_table(pa.table({"text": [1.5]}), trouble.folder / "c.parquet")
    write_jsonl(trouble.folder / "d.jsonl", trouble.texts[5:10])
    code, said = trouble.scan("--json")
    assert code == 2
    assert "1 files could not be read" in said
    assert trouble.rejects() == ["'text' holds double, neither text nor token ids"]
    assert '"documents": 14,' in said


def test_an_unreadable_file(trouble: Trouble, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(trouble.folder / "a.jsonl", trouble.texts)
    write_jsonl(trouble.folder / "b.jsonl", trouble.texts)
    real = Path.open

    def closed(self: Path, *given: object, **named: object) -> object:
        if self.name == "b.jsonl":
            raise PermissionError(13, "Permission denied")
        return real(self, *given, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", closed)
    code, said = trouble.scan()
    assert code == 2
    assert "1 files could not be read" in said
    assert "Permission denied" in trouble.rejects()[0]
