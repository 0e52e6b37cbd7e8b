"""Read texts, or token ids, from files, folders, JSONL, CSV, Parquet and stdin."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from powermark.errors import FileProblem, InvalidInput, MissingExtra, PowermarkError
from powermark.watermark.keys import refuse_key

_TABLES = (".csv", ".parquet")
_SUFFIXES = (".txt", ".md", ".jsonl", *_TABLES)
SUFFIXES_HINT = f"in a folder, files ending in {', '.join(_SUFFIXES)} are read."
_CHUNK = 1 << 16  # bytes read from a stream at once
_LONGEST = 100_000_000  # characters of a text in a table


class Text(NamedTuple):
    """A text or its token ids, the name of its source, and its prompt."""

    source: str
    content: str | list[int]
    prompt: str | list[int] | None = None


def read_texts(
    paths: list[Path], *, field: str, prompt_field: str | None, ids: bool
) -> Iterator[Text | PowermarkError]:
    """Yield every text in order; yield an error for a text that cannot be read."""
    for path in _files(paths):
        if path.suffix.lower() in _TABLES and not ids:
            yield from _table(path, field, prompt_field)
            continue
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
        else:  # the final line end is not part of the text
            yield Text(str(path), content.removesuffix("\n").removesuffix("\r"))


def has_rows(path: Path) -> bool:
    """Whether a file holds one text a row, by its name."""
    return path.suffix.lower() in (".jsonl", *_TABLES)


def is_folder(path: Path) -> bool:
    """Whether this is a folder; invalid names return False."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if not is_folder(path):
            yield path
            continue
        files = sorted(p for p in path.rglob("*") if p.is_file())
        others = [p for p in files if p.suffix.lower() not in _SUFFIXES]
        if others:
            kinds = ", ".join(sorted({p.suffix.lower() or "no suffix" for p in others}))
            typer.echo(f"skipped {len(others)} files of {path} ({kinds}).", err=True)
        yield from (p for p in files if p.suffix.lower() in _SUFFIXES)


def stream_pieces() -> Iterator[str]:
    """Yield stdin in pieces that a tokenizer splits as it would split the whole.

    The last blank space and the word after it may be incomplete, so they wait for more input. The
    final line end is not part of the text.
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
            hint="convert it to UTF-8 first; its encoding cannot be guessed safely.",
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
        except KeyError as error:
            yield InvalidInput(
                f"{name} has no field {error.args[0]!r}; it has {', '.join(map(repr, found))}.",
                hint="name the field of the text with --field.",
            )
            continue
        except (ValueError, TypeError, RecursionError):
            yield InvalidInput(f"{name} is not a JSON object with {field!r}.")
            continue
        good = [_is_text_or_ids(one) for one in (value, prompt) if one is not None]
        if value is None or not all(good):
            yield InvalidInput(f"{name}: {field!r} must be text or a list of token ids.")
            continue
        yield Text(name, value, prompt)


def _table(path: Path, field: str, prompt_field: str | None) -> Iterator[Text | PowermarkError]:
    """Yield the rows of a CSV or Parquet file."""
    if prompt_field is not None:
        yield InvalidInput("--prompt-field is for JSONL.")
        return
    try:
        from powermark.corpus.job import ReadOptions
        from powermark.corpus.readers import read
        from powermark.corpus.sources import find_sources
    except ImportError as error:
        yield MissingExtra(
            f"reading {str(path)!r} needs {error.name}, which is not installed.",
            hint="pip install 'powermark[corpus]'",
        )
        return
    try:
        for batch in read(find_sources([str(path)]), ReadOptions(field=field, longest=_LONGEST)):
            for name, value in zip(batch.ids, batch.content, strict=True):
                yield Text(name.as_py(), value.as_py())
            for place, reason, *_ in batch.rejects:
                yield FileProblem(f"cannot read {place!r}: {reason}.")
    except PowermarkError as error:
        yield error


def _is_text_or_ids(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(type(token) is int for token in value)
    )
