"""Where texts come from: files, folders, JSONL, stdin; as text or as token ids."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from powermark.errors import FileProblem, InvalidInput, PowermarkError
from powermark.watermark.keys import refuse_key

_SUFFIXES = (".txt", ".md", ".jsonl")
SUFFIXES_HINT = f"of a folder the files ending in {', '.join(_SUFFIXES)} are read."
_CHUNK = 1 << 16  # bytes taken from a stream at a time


class Text(NamedTuple):
    """A text, or its token ids, with the name of its source and what stood before it."""

    source: str
    content: str | list[int]
    prompt: str | list[int] | None = None


def read_texts(
    paths: list[Path], *, field: str, prompt_field: str | None, ids: bool
) -> Iterator[Text | PowermarkError]:
    """Yield every text in order; what cannot be read is yielded as the error that says why."""
    for path in _files(paths):
        try:
            content = _decode(
                sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes(), str(path)
            )
        except PowermarkError as error:  # some are OSErrors too
            yield error
            continue
        except OSError as error:
            yield FileProblem(f"cannot read {str(path)!r}: {error.strerror}.")
            continue
        if path.suffix.lower() == ".jsonl":
            yield from _json_lines(content, str(path), field, prompt_field)
        elif ids:
            try:
                yield Text(str(path), parse_ids(content, str(path)))
            except InvalidInput as error:
                yield error
        else:  # the line end that closes a file is none of its text
            yield Text(str(path), content.removesuffix("\n").removesuffix("\r"))


def is_folder(path: Path) -> bool:
    """Whether this is a folder; a name that no file can have is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if is_folder(path):
            found = (p for p in path.rglob("*") if p.suffix.lower() in _SUFFIXES and p.is_file())
            yield from sorted(found)
        else:
            yield path


def stream_pieces() -> Iterator[str]:
    """Yield stdin in pieces that a tokenizer splits as it would split the whole.

    The last blank space and what follows may go on, so they wait for more. The line end that
    closes the stream is none of its text.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    waiting = ""
    try:
        while chunk := sys.stdin.buffer.read1(_CHUNK):  # type: ignore[union-attr]
            waiting += decoder.decode(chunk)
            blanks = list(re.finditer(r"\s+", waiting))
            if blanks and blanks[-1].start():
                yield waiting[: blanks[-1].start()]
                waiting = waiting[blanks[-1].start() :]
        yield (waiting + decoder.decode(b"", final=True)).removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise FileProblem("stdin is not UTF-8 text.") from None


def _decode(content: bytes, source: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileProblem(
            f"{source!r} is not UTF-8 text (byte {error.start}).",
            hint="convert it to UTF-8 first; its bytes cannot be guessed safely.",
        ) from None
    if "\0" in text:
        raise FileProblem(f"{source!r} is binary, not text.")
    refuse_key(text, repr(source))
    return text


def parse_ids(content: str, source: str) -> list[int]:
    """Return the token ids of a text of numbers."""
    try:
        return [int(word) for word in content.replace(",", " ").split()]
    except ValueError:
        raise InvalidInput(
            f"{source!r} must hold token ids, numbers between blanks or commas."
        ) from None


def _json_lines(
    content: str, source: str, field: str, prompt_field: str | None
) -> Iterator[Text | PowermarkError]:
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        name = f"{source}:{number}"
        try:
            found = json.loads(line)
            value = found[field]
            prompt = None if prompt_field is None else found[prompt_field]
        except (ValueError, KeyError, TypeError, RecursionError):
            yield InvalidInput(f"{name} is not a JSON object with {field!r}.")
            continue
        good = [_is_text_or_ids(one) for one in (value, prompt) if one is not None]
        if value is None or not all(good):
            yield InvalidInput(f"{name}: {field!r} must be text or a list of token ids.")
            continue
        yield Text(name, value, prompt)


def _is_text_or_ids(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(type(token) is int for token in value)
    )
