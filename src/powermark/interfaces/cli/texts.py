"""Read texts, or token ids, from files, folders, JSONL, CSV, Parquet and stdin."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, NamedTuple

import typer

from powermark.errors import FileProblem, InvalidInput, MissingExtra, PowermarkError
from powermark.interfaces.cli.terminal import visible, with_options
from powermark.watermark.keys import refuse_key

_TABLES = (".csv", ".parquet")
_SUFFIXES = (".txt", ".md", ".jsonl", *_TABLES)
SUFFIXES_HINT = f"in a folder, files ending in {', '.join(_SUFFIXES)} are read."
_CHUNK = 1 << 16  # bytes read from a stream at once
# bytes or token ids of a text; detection takes up to 500 bytes of memory for each
_LONGEST = 1_500_000
_LINE = 8 * _LONGEST  # bytes of a line of JSON
_WORD = _LONGEST // 4  # characters of a stream without a blank; each has at most four bytes
_LISTED = 500  # characters of a list of fields in a message


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
            found = _table(path, field, prompt_field)
        elif path.suffix.lower() == ".jsonl":
            found = _json_lines(path, field, prompt_field)
        else:
            found = _whole_file(path, ids)
        try:
            yield from found
        except PowermarkError as error:  # some are OSErrors too
            yield error
        except OSError as error:
            yield FileProblem(f"cannot read {str(path)!r}: {error.strerror}.")


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
            typer.echo(visible(f"skipped {len(others)} files of {path} ({kinds})."), err=True)
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
            if len(waiting) > _WORD:
                raise FileProblem(
                    f"stdin has more than {_WORD:,} characters in one word or blank space.",
                    hint="put blanks or line ends into it.",
                )
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


def _whole_file(path: Path, ids: bool) -> Iterator[Text]:
    """Yield the text or the token ids of a file or of stdin."""
    source = str(path)
    with nullcontext(sys.stdin.buffer) if source == "-" else path.open("rb") as stream:
        content = stream.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise _too_long(source)
    text = _decode(content, source)
    # the final line end is not part of the text
    yield Text(
        source, parse_ids(text, source) if ids else text.removesuffix("\n").removesuffix("\r")
    )


def _json_lines(
    path: Path, field: str, prompt_field: str | None
) -> Iterator[Text | PowermarkError]:
    """Yield the rows of a JSONL file; blank lines are skipped."""
    with path.open("rb") as stream:
        for number, line in enumerate(_lines(stream), 1):
            if not line.strip():
                continue
            found: Text | PowermarkError
            try:
                found = _row(line, f"{path}:{number}", field, prompt_field)
            except PowermarkError as error:
                found = error
            yield found


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield each line; of a line longer than _LINE only its first _LINE + 1 bytes."""
    while line := stream.readline(_LINE + 1):
        yield line
        while line and not line.endswith(b"\n"):
            line = stream.readline(_CHUNK)


def _row(line: bytes, name: str, field: str, prompt_field: str | None) -> Text:
    if len(line) > _LINE:
        raise _too_long(name)
    content = _decode(line, name)
    try:
        found = json.loads(content)
        value = found[field]
        prompt = None if prompt_field is None else found[prompt_field]
    except KeyError as error:
        fields = ", ".join(map(repr, found))
        cut = fields if len(fields) <= _LISTED else f"{fields[:_LISTED]} ..."
        raise InvalidInput(
            f"{name} has no field {error.args[0]!r}; it has {cut}.",
            hint="name the field of the text with --field.",
        ) from None
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(f"{name} is not a JSON object with {field!r}.") from None
    good = [_is_text_or_ids(one) for one in (value, prompt) if one is not None]
    if value is None or not all(good):
        raise InvalidInput(f"{name}: {field!r} must be text or a list of token ids.")
    return _bounded(Text(name, value, prompt))


def _table(path: Path, field: str, prompt_field: str | None) -> Iterator[Text | PowermarkError]:
    """Yield the rows of a CSV or Parquet file."""
    if prompt_field is not None:
        raise InvalidInput("--prompt-field is for JSONL.")
    try:
        from powermark.corpus.job import ReadOptions
        from powermark.corpus.readers import read
        from powermark.corpus.sources import find_sources
    except ImportError as error:
        raise MissingExtra(
            f"reading {str(path)!r} needs {error.name}, which is not installed.",
            hint="pip install 'powermark[corpus]'",
        ) from None
    options = ReadOptions(field=field, longest=_LONGEST)
    for batch in read(find_sources([str(path)]), options):
        for name, value in zip(batch.ids, batch.content, strict=True):
            try:
                yield _bounded(Text(name.as_py(), value.as_py()))
            except FileProblem as error:
                yield error
        for place, reason, *_ in batch.rejects:
            if reason == options.too_long:
                yield _too_long(place)
            else:
                why = with_options(reason, {"field": "--field"})
                yield FileProblem(f"cannot read {place!r}: {why}.")


def _bounded(text: Text) -> Text:
    """Return the text; refuse it if it or its prompt is too long."""
    for value in (text.content, text.prompt or ""):
        size = len(value.encode(errors="surrogatepass") if isinstance(value, str) else value)
        if size > _LONGEST:
            raise _too_long(text.source)
    return text


def _too_long(source: str) -> FileProblem:
    return FileProblem(
        f"{source!r} is too long: a text may have at most {_LONGEST:,} bytes or token ids.",
        hint="split it into shorter texts; `powermark scan` reads longer ones with --longest.",
    )


def _is_text_or_ids(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(type(token) is int for token in value)
    )
