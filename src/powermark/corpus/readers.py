"""From files to batches of documents of bounded size; what is none is rejected with a reason.

JSONL, CSV and text files are read row by row, which takes a hundredth of the time that tokenising
does; Parquet column by column.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from powermark.corpus import batches
from powermark.corpus.batches import TEXT, Batch, Reject, Wanted, no_column
from powermark.corpus.parquet import read_parquet
from powermark.corpus.patience import TRIES, PatientFile, passing
from powermark.corpus.sources import STDIN, Source
from powermark.errors import FileProblem

_BUFFER = 2**18  # bytes that are read at once
_WIDE = 16  # bytes of a line of JSON or characters of a CSV field, for each that is allowed


class Row(NamedTuple):
    """A document as it was read: its content is still to be checked."""

    place: str
    name: str
    value: Any


def read(unit: Sequence[Source], wanted: Wanted) -> Iterator[Batch]:
    """Yield the documents of some files, in order; a file that breaks off ends in a reject."""
    for columnar, group in groupby(unit, key=lambda source: source.kind == "parquet"):
        if not columnar:
            yield from _batches(chain.from_iterable(_rows(each, wanted) for each in group), wanted)
            continue
        for source in group:
            try:
                with _open(source) as stream:
                    yield from read_parquet(stream, source.url, wanted)
            except _BROKEN as error:
                yield _batch([], [], [_broken(source, error)])


def _rows(source: Source, wanted: Wanted) -> Iterator[Row | Reject]:
    try:
        with _open(source) as stream:
            yield from _ROWS[source.kind](stream, source.url, wanted)
    except _BROKEN as error:
        yield _broken(source, error)


_BROKEN = (OSError, EOFError, pa.ArrowException, csv.Error)


def _broken(source: Source, error: BaseException) -> Reject:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    again = passing(error)
    return Reject(source.url, f"after {TRIES} tries: {reason}" if again else reason, True, again)


@contextmanager
def _open(source: Source) -> Iterator[Any]:
    """Open a file for reading lines and bytes, decompressed."""
    if source.url == STDIN:
        yield sys.stdin.buffer
        return
    with _stored(source.url) as stream:
        if source.codec is None:
            yield stream
        else:
            plain = pa.CompressedInputStream(stream, source.codec)
            with io.BufferedReader(plain) as lines:
                yield lines


@contextmanager
def _stored(url: str) -> Iterator[Any]:
    with io.BufferedReader(PatientFile(partial(_plain, url)), _BUFFER) as stream:
        yield stream


def _plain(url: str) -> Any:
    if "://" not in url:
        return Path(url).open("rb", buffering=0)
    from fsspec.core import url_to_fs

    system, path = url_to_fs(url)
    return system.open(path, "rb")


def _batches(rows: Iterator[Row | Reject], wanted: Wanted) -> Iterator[Batch]:
    """Gather rows; a batch ends when it is full and where texts and token ids meet."""
    names: list[str] = []
    values: list[Any] = []
    rejects: list[Reject] = []
    weight = 0
    for row in rows:
        checked = row if isinstance(row, Reject) else _checked(row, wanted)
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


def _checked(row: Row, wanted: Wanted) -> Row | Reject:
    """Return the row with token ids as an array, or why it is none."""
    place, name, value = row
    if isinstance(value, list):
        ids = _token_ids(value)
        if ids is None:
            return Reject(place, f"{wanted.field!r} is neither text nor a list of token ids")
        value = ids
    elif not isinstance(value, str):
        what = "null" if value is None else "neither text nor a list of token ids"
        return Reject(place, f"{wanted.field!r} is {what}")
    elif not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return Reject(place, "not Unicode text")
    if len(value) > wanted.longest:
        return Reject(place, wanted.too_long)
    return Row(place, name, value)


def _token_ids(values: list[Any]) -> NDArray[np.int64] | None:
    try:
        ids = np.asarray(values) if values else np.zeros(0, np.int64)
    except ValueError:  # lists of different lengths
        return None
    return ids if ids.ndim == 1 and ids.dtype == np.int64 else None


def _json_lines(stream: Any, url: str, wanted: Wanted) -> Iterator[Row | Reject]:
    limit = _WIDE * wanted.longest + 65_536
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
        if not isinstance(found, dict) or wanted.field not in found:
            if not known and number >= batches.ROWS:
                raise FileProblem(no_column(wanted.field, found))
            yield Reject(place, f"no field {wanted.field!r}")
            continue
        known = True
        yield Row(place, _named(found.get(wanted.id_field), place), found[wanted.field])


def _csv(stream: Any, url: str, wanted: Wanted) -> Iterator[Row | Reject]:
    csv.field_size_limit(_WIDE * wanted.longest + 65_536)  # a quote that never ends breaks the file
    text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        rows = csv.reader(text)
        names = next(rows, None)
        if names is not None:
            yield from _csv_rows(rows, names, url, wanted)
    finally:
        text.detach()  # who opened the stream closes it


def _csv_rows(
    rows: Iterator[list[str]], names: list[str], url: str, wanted: Wanted
) -> Iterator[Row | Reject]:
    wanted.check(names)
    field = names.index(wanted.field)
    name = None if wanted.id_field is None else names.index(wanted.id_field)
    for number, row in enumerate(rows, 1):
        place = f"{url}:{number}"
        if len(row) == len(names):
            yield Row(place, _named(None if name is None else row[name], place), row[field])
        elif row:
            yield Reject(place, f"{len(row)} columns in place of {len(names)}")


def _text(stream: Any, url: str, wanted: Wanted) -> Iterator[Row | Reject]:
    content = stream.read(4 * wanted.longest + 4)  # a character has at most four bytes
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        cut = len(content) > 4 * wanted.longest
        reason = f"too long: more than {wanted.longest} characters" if cut else "not UTF-8"
        yield Reject(url, reason)
        return
    if "\0" in text:
        yield Reject(url, "binary, not text")
        return
    yield Row(url, url, text.removesuffix("\n").removesuffix("\r"))


_ROWS: dict[str, Callable[[Any, str, Wanted], Iterator[Row | Reject]]] = {
    "jsonl": _json_lines,
    "csv": _csv,
    "text": _text,
}


def _named(value: object, place: str) -> str:
    return place if value is None else str(value).encode(errors="replace").decode()
