"""Prompts from lines, JSONL and passages; what is none is refused with its line."""

from pathlib import Path

import pytest

from powermark.errors import FileProblem, InvalidInput
from powermark.evaluation.prompts import WORDS, prompts_for, read_prompts


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
        (b"", InvalidInput, "holds no prompts"),
        (b"\xff\xfe", FileProblem, "is not UTF-8"),
        (b"\npowermark-key-1:00ff\n", FileProblem, "is a key file, not a text"),
        (b"powermark-hash-key-1:15485863\n", FileProblem, "is a key file, not a text"),
        (b'{"a": 1}', InvalidInput, 'line 1 has no text "prompt" and no "text"'),
        (b"{nothing", InvalidInput, "begins like JSON and is none"),
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
