"""Read files as batches of documents of bounded size; invalid rows are rejected with a reason.

JSONL, CSV and text files are read row by row, in a hundredth of the time that tokenising takes;
Parquet is read column by column.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, count, groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from powermark.corpus import batches
from powermark.corpus.batches import (
    LONGEST_ID,
    TEXT,
    Batch,
    Reject,
    check_columns,
    no_column,
    shortened,
)
from powermark.corpus.job import ReadOptions
from powermark.corpus.parquet import read_parquet
from powermark.corpus.sources import STDIN, Source
from powermark.corpus.storage import TRIES, is_transient, open_file
from powermark.errors import FileProblem

_WIDE = 16  # bytes of a line of JSON or characters of a CSV field, for each that is allowed
_COLUMNS = 10_000  # of a table


class Row(NamedTuple):
    """A document as it was read, before its content is checked."""

    place: str
    name: str
    value: Any


def read(sources: Sequence[Source], options: ReadOptions) -> Iterator[Batch]:
    """Yield the documents of some files, in order; a file that breaks off ends in a reject."""
    for columnar, group in groupby(sources, key=lambda source: source.kind == "parquet"):
        if not columnar:
            yield from _batches(
                chain.from_iterable(_rows(each, options) for each in group), options
            )
            continue
        for source in group:
            try:
                with _open(source) as stream:
                    yield from read_parquet(stream, source.url, options)
            except _BROKEN as error:
                yield _batch([], [], [_broken(source, error, options)])


def _rows(source: Source, options: ReadOptions) -> Iterator[Row | Reject]:
    try:
        with _open(source) as stream:
            yield from _ROWS[source.kind](stream, source.url, options)
    except _BROKEN as error:
        yield _broken(source, error, options)


_BROKEN = (OSError, EOFError, pa.ArrowException, csv.Error)


def _broken(source: Source, error: BaseException, options: ReadOptions) -> Reject:
    reason = shortened((str(error) or type(error).__name__).splitlines()[0])
    for argument in ("field", "id_field"):
        if reason.startswith(f"no column {getattr(options, argument)!r};"):
            reason += f"; name another with `{argument}`"
            break
    again = is_transient(error)
    return Reject(source.url, f"after {TRIES} tries: {reason}" if again else reason, True, again)


@contextmanager
def _open(source: Source) -> Iterator[Any]:
    """Open a file, decompressed."""
    if source.url == STDIN:
        yield sys.stdin.buffer
        return
    with open_file(source.url) as stream:
        if source.codec is None:
            yield stream
        else:
            plain = pa.CompressedInputStream(stream, source.codec)
            with io.BufferedReader(plain) as lines:
                yield lines


def _batches(rows: Iterator[Row | Reject], options: ReadOptions) -> Iterator[Batch]:
    """Group rows; a batch ends when it is full, or between texts and token ids."""
    names: list[str] = []
    values: list[Any] = []
    rejects: list[Reject] = []
    weight = 0
    for checked in map(partial(_checked, options), rows):
        full = weight >= batches.WEIGHT or len(names) + len(rejects) >= batches.ROWS
        if full or (
            names
            and not isinstance(checked, Reject)
            and type(values[-1]) is not type(checked.value)
        ):
            yield _batch(names, values, rejects)
            names, values, rejects, weight = [], [], [], 0
        if isinstance(checked, Reject):
            rejects.append(checked)
        else:
            names.append(checked.name)
            values.append(checked.value)
            weight += len(checked.value)
    if names or rejects:
        yield _batch(names, values, rejects)


def _batch(names: list[str], values: list[Any], rejects: list[Reject]) -> Batch:
    if values and not isinstance(values[0], str):
        offsets = np.cumsum([0, *map(len, values)])
        content = pa.LargeListArray.from_arrays(offsets, np.concatenate(values))
    else:
        content = pa.array(values, TEXT)
    return Batch(pa.array(names, TEXT), content, rejects)


def _checked(options: ReadOptions, row: Row | Reject) -> Row | Reject:
    """Return the row with token ids as an array, or a reject."""
    if isinstance(row, Reject):
        return row
    place, name, value = row
    if isinstance(value, list):
        ids = _token_ids(value)
        if ids is None:
            return Reject(place, f"{options.field!r} is neither text nor a list of token ids")
        value = ids
    elif not isinstance(value, str):
        what = "null" if value is None else "neither text nor a list of token ids"
        return Reject(place, f"{options.field!r} is {what}")
    elif not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return Reject(place, "not Unicode text")
    if len(value) > options.longest:
        return Reject(place, options.too_long)
    return Row(place, name, value)


def _token_ids(values: list[Any]) -> NDArray[np.int64] | None:
    if not set(map(type, values)) <= {int}:  # NumPy would pad texts to the longest
        return None
    ids = np.asarray(values) if values else np.zeros(0, np.int64)
    return ids if ids.dtype == np.int64 else None


def _json_lines(stream: Any, url: str, options: ReadOptions) -> Iterator[Row | Reject]:
    limit = _WIDE * options.longest + 65_536
    number, known = 0, False
    while line := stream.readline(limit):
        number += 1
        place = f"{url}:{number}"
        if len(line) == limit and not line.endswith(b"\n"):
            while (line := stream.readline(limit)) and not line.endswith(b"\n"):
                pass
            yield Reject(place, "too long: a line of JSON that may not be read whole")
            continue
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except UnicodeDecodeError:
            yield Reject(place, "not UTF-8")
            continue
        except (ValueError, RecursionError):
            yield Reject(place, "not JSON")
            continue
        if not isinstance(found, dict):
            found = {}
        if options.field not in found:
            reason = f"no field {options.field!r}"
            if not known:
                missing = no_column(options.field, found)
                if number >= batches.ROWS:
                    raise FileProblem(missing)
                reason = shortened(missing.replace("no column", "no field", 1))
            yield Reject(place, reason)
            continue
        known = True
        yield Row(place, _named(found.get(options.id_field), place), found[options.field])
        del found  # frees it before the next line is read


def _csv(stream: Any, url: str, options: ReadOptions) -> Iterator[Row | Reject]:
    limit = _WIDE * options.longest + 65_536
    csv.field_size_limit(limit)  # an unclosed quote is an error, not a huge field
    text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        yield from _csv_rows(_Lines(text, limit), url, options)
    finally:
        text.detach()  # the caller closes the stream


class _Lines:
    """Lines of a CSV file; a row that is too long, over one or many lines, is an error."""

    def __init__(self, text: io.TextIOWrapper, limit: int) -> None:
        self._text = text
        self.limit = self.left = limit  # characters of a row; those left of the current one

    def __iter__(self) -> Iterator[str]:
        while line := self._text.readline(self.left + 1):
            self.left -= len(line)
            if self.left < 0:
                raise csv.Error(f"a row of more than {self.limit} characters")
            yield line


def _csv_rows(lines: _Lines, url: str, options: ReadOptions) -> Iterator[Row | Reject]:
    rows = csv.reader(lines)
    names = next(rows, [])
    if len(names) > _COLUMNS:
        raise FileProblem(f"{len(names)} columns, more than {_COLUMNS}")
    if not names:
        return
    check_columns(options, names)
    field = names.index(options.field)
    name = None if options.id_field is None else names.index(options.id_field)
    lines.left, numbers = lines.limit, count(1)
    for row in rows:  # enumerate would keep the row while the next one is read
        place = f"{url}:{next(numbers)}"
        if len(row) == len(names):
            yield Row(place, _named(None if name is None else row[name], place), row[field])
        elif row:
            yield Reject(place, f"{len(row)} columns in place of {len(names)}")
        del row
        lines.left = lines.limit


def _text(stream: Any, url: str, options: ReadOptions) -> Iterator[Row | Reject]:
    content = stream.read(4 * options.longest + 4)  # a character has at most four bytes
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        cut = len(content) > 4 * options.longest
        reason = f"too long: more than {options.longest} characters" if cut else "not UTF-8"
        yield Reject(url, reason)
        return
    if "\0" in text:
        yield Reject(url, "binary, not text")
        return
    yield Row(url, url, text.removesuffix("\n").removesuffix("\r"))


_ROWS: dict[str, Callable[[Any, str, ReadOptions], Iterator[Row | Reject]]] = {
    "jsonl": _json_lines,
    "csv": _csv,
    "text": _text,
}


def _named(value: object, place: str) -> str:
    return place if value is None else str(value)[:LONGEST_ID].encode(errors="replace").decode()
