"""Prompts from files: one a line, or JSONL with a prompt or with a passage to take the start of."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from powermark.checks import count
from powermark.detection.text import valid
from powermark.errors import FileProblem, InvalidInput
from powermark.evaluation.sources import HUB, LEAST_WORDS, SOURCES, passages
from powermark.watermark.keys import refuse_key

FIELDS = ("prompt", "text")  # of a JSON object, in this order
MOST = 1_000  # passages of a named source, unless a number is asked for
WORDS = 30  # of a passage, to be continued; about forty tokens


def read_prompts(path: str | Path, *, whole: bool = False) -> list[str]:
    """Return the prompts of a file, - for stdin; of passages (``"text"``) their first WORDS.

    ``whole`` leaves passages as they are.
    """
    try:
        content = sys.stdin.read() if str(path) == "-" else Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise FileProblem(f"cannot read {str(path)!r}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileProblem(f"{str(path)!r} is not UTF-8 text.") from None
    refuse_key(content, repr(str(path)))
    lines = [(n, line) for n, line in enumerate(content.split("\n"), 1) if line.strip()]
    if not lines:
        raise InvalidInput(f"{str(path)!r} holds no prompts.")
    return [
        valid(_one(line.rstrip("\r"), number, whole), f"line {number}") for number, line in lines
    ]


def openings(passages: Iterable[str]) -> list[str]:
    """Return the first WORDS of each passage."""
    return [" ".join(passage.split()[:WORDS]) for passage in passages]


def _one(line: str, number: int, whole: bool) -> str:
    """Return the prompt of a line: the line itself, or a JSON object's."""
    if not line.startswith("{"):
        return line
    try:
        row: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidInput(
            f"line {number} begins like JSON and is none.",
            hint='a prompt that begins with a brace is given as {"prompt": "..."}.',
        ) from None
    field = next((name for name in FIELDS if isinstance(row.get(name), str)), None)
    if field is None:
        raise InvalidInput(f'line {number} has no text "prompt" and no "text".')
    return str(row[field]) if whole or field == "prompt" else openings([row[field]])[0]


def prompts_for(source: Path | None, texts: int, skip: int = 0) -> list[str]:
    """Return as many prompts as texts are wanted: of a file or named source in turn, or empty ones.

    The first ``skip`` are left out, as long as others are there. After an empty prompt a model
    writes what comes to its mind.
    """
    count("texts", texts)
    count("skip", skip, at_least=0)
    found = [""] if source is None else all_prompts(source, texts + skip)
    found = found[skip:] or found
    return [found[i % len(found)] for i in range(texts)]


def all_prompts(source: Path, most: int | None = None) -> list[str]:
    """Return the prompts of a file, or up to ``most`` of a named source."""
    if str(source) not in SOURCES and not str(source).startswith(HUB):
        return read_prompts(source)
    found = openings(passages(str(source), most or MOST))
    if not found:
        raise InvalidInput(f"{source} has no passages of {LEAST_WORDS} words.")
    return found
