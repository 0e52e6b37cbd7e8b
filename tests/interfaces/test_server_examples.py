"""Texts that every client gets: from a folder that is named, and never a secret."""

from pathlib import Path

import pytest

from powermark.errors import FileProblem
from powermark.interfaces.server.access import new_token
from powermark.interfaces.server.library import load_library
from powermark.watermark.keys import HASH_PREFIX, PREFIX, HashKey, save_hash_key
from tests.conftest import Run
from tests.interfaces.server import SECRET, Ready, asking, copied


def test_a_key_among_the_specs_is_not_served(ready: Ready, tmp_path: Path) -> None:
    """Neither it, nor tokens, nor a link: only the folder of examples is."""
    shelf = copied(ready, tmp_path)
    (shelf / "backup.txt").write_text(PREFIX + SECRET)
    new_token(shelf / "tokens.txt", "alice", "detect")
    (shelf / "linked.txt").symlink_to(shelf / "demo.key")
    with asking(load_library(shelf, [ready.tokenizer])) as asked:
        answer = asked.http.get("/v1/specs")
        assert [each["name"] for each in answer.json()["examples"]] == ["marked"]
        assert SECRET not in answer.text


SPACED = " ".join(SECRET[i : i + 2] for i in range(0, len(SECRET), 2))


@pytest.mark.parametrize(
    "content",
    [
        (PREFIX + SECRET).encode(),
        b"\xef\xbb\xbf\n  " + (PREFIX + SECRET).encode(),
        f"my key is {PREFIX}{'0' * 64}, keep it".encode(),
        (PREFIX + SECRET).encode("utf-16-le"),
        f"{HASH_PREFIX}42".encode(),
        SECRET.encode(),
        SECRET.upper().encode(),
        SPACED.encode(),
        ("00" + SECRET + "ff").encode(),
        SECRET.encode("utf-16-be"),
    ],
)
def test_it_does_not_start_with_a_key_as_an_example(
    run: Run, ready: Ready, tmp_path: Path, content: bytes
) -> None:
    shelf = copied(ready, tmp_path)
    (shelf / "examples" / "backup.txt").write_bytes(content)
    code, _, err = run("serve", str(shelf), "--tokenizer", str(ready.folder.parent / "words"))
    assert code == 2
    assert "backup.txt' holds a key, and every client would get it." in err
    assert "move it out of the folder" in err
    assert SECRET not in err


def test_nor_with_tokens_or_links(ready: Ready, tmp_path: Path) -> None:
    shelf = copied(ready, tmp_path)
    examples = shelf / "examples"
    new_token(examples / "tokens.txt", "alice", "detect")
    with pytest.raises(FileProblem, match="is a file of access tokens"):
        load_library(shelf, [])
    (examples / "tokens.txt").unlink()
    (tmp_path / "outside.txt").write_text("not meant for clients")
    (examples / "link.txt").symlink_to(tmp_path / "outside.txt")
    with pytest.raises(FileProblem, match="is a link out of its folder"):
        load_library(shelf, [])
    (examples / "link.txt").unlink()
    (examples / "again.txt").symlink_to(examples / "marked.txt")
    assert list(load_library(shelf, []).examples) == ["again", "marked"]


def test_the_folder_of_examples_is_no_link_out_of_the_served_one(
    ready: Ready, tmp_path: Path
) -> None:
    shelf = copied(ready, tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "letter.txt").write_text("not meant for clients")
    (shelf / "examples").rename(shelf / "texts")
    (shelf / "examples").symlink_to(tmp_path / "outside")
    with pytest.raises(FileProblem, match=r"examples' is a link out of the served folder"):
        load_library(shelf, [])
    assert list(load_library(shelf, [], shelf / "examples").examples) == ["letter"]
    (shelf / "examples").unlink()
    assert load_library(shelf, []).examples == {}
    (shelf / "examples").symlink_to("texts")
    assert list(load_library(shelf, []).examples) == ["marked"]
    (tmp_path / "linked").symlink_to(shelf)
    assert list(load_library(tmp_path / "linked", []).examples) == ["marked"]


def test_another_tools_key_is_a_key_too(run: Run, ready: Ready, tmp_path: Path) -> None:
    shelf = copied(ready, tmp_path)
    run("spec", "new", str(shelf / "hf.json"), "--gamma", ".5", "--delta", "2",
        "--scheme", "hf-lefthash", "--vocab-size", "600")  # fmt: skip
    save_hash_key(shelf / "hf.key", 123_456)
    assert load_library(shelf, []).marks["hf"].watermark.key == HashKey(123_456)
    (shelf / "examples" / "number.txt").write_text("123456\n")
    with pytest.raises(FileProblem, match="holds a key"):
        load_library(shelf, [])


def test_examples_are_short_texts_of_a_named_folder(ready: Ready, tmp_path: Path) -> None:
    named = tmp_path / "texts"
    named.mkdir()
    (named / "long.txt").write_text("w1 " * 10_000)
    (named / "latin.txt").write_bytes(b"caf\xe9")
    (named / "short.txt").write_text("w1 w2\n")
    (named / "other.md").write_text("w3")
    library = load_library(ready.folder, [], named)
    assert library.examples == {"short": "w1 w2"}
    assert load_library(None, [], named).examples == {"short": "w1 w2"}
    with pytest.raises(FileProblem, match=r"no folder '.*nowhere' of examples"):
        load_library(None, [], tmp_path / "nowhere")
