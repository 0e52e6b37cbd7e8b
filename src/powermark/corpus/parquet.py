"""Documents from Parquet, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from powermark.corpus import batches
from powermark.corpus.batches import IDS, TEXT, Batch, Reject, Wanted
from powermark.errors import FileProblem


def read_parquet(stream: Any, url: str, wanted: Wanted) -> Iterator[Batch]:
    """Yield the documents of a file; one that lacks a column is refused."""
    file = pq.ParquetFile(stream)
    wanted.check(file.schema_arrow.names)
    columns = [wanted.field] if wanted.id_field is None else [wanted.field, wanted.id_field]
    first = 1
    for batch in file.iter_batches(batch_size=batches.ROWS, columns=columns, use_threads=False):
        numbers = pa.array(np.arange(first, first + batch.num_rows)).cast(TEXT)
        places = pc.binary_join_element_wise(pa.scalar(url, TEXT), numbers, pa.scalar(":", TEXT))
        names = places
        if wanted.id_field is not None:
            names = pc.coalesce(batch.column(wanted.id_field).cast(TEXT), places)
        yield from _split(_column(batch.column(wanted.field), names, places, wanted))
        first += batch.num_rows


def _column(column: pa.Array, names: pa.Array, places: pa.Array, wanted: Wanted) -> Batch:
    """Return the good rows of a column; the reasons of the others, the first that applies."""
    content, undecodable = _content(column, wanted.field)
    lengths = pc.utf8_length(content) if content.type == TEXT else pc.list_value_length(content)
    checks = [
        (undecodable, "not UTF-8"),
        (column.is_null().to_numpy(zero_copy_only=False), f"{wanted.field!r} is null"),
        (pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False) > wanted.longest, wanted.too_long),
    ]
    if content.type == IDS and content.flatten().null_count:
        holes = pc.is_null(content.flatten()).to_numpy(zero_copy_only=False)
        each = np.repeat(np.arange(len(content)), pc.fill_null(lengths, 0).to_numpy())
        empty = np.bincount(each[holes], minlength=len(content)) > 0
        checks.append((empty, f"{wanted.field!r} has a null among its token ids"))
    bad = np.logical_or.reduce([mask for mask, _ in checks])
    if not bad.any():
        return Batch(names, content, [])
    rejects = [
        Reject(places[i].as_py(), next(reason for mask, reason in checks if mask[i]))
        for i in np.flatnonzero(bad).tolist()
    ]
    good = pa.array(~bad)
    return Batch(names.filter(good), content.filter(good), rejects)


def _content(column: pa.Array, field: str) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Return a column as texts or as token ids, and where it holds bytes that are no text."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind, fine = column.type, np.zeros(len(column), bool)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if pa.types.is_integer(kind.value_type):
            return column.cast(IDS), fine
    elif any(test(kind) for test in _TEXTS):
        raw = column.cast(pa.large_binary())
        try:
            return raw.cast(TEXT), fine
        except pa.ArrowInvalid:
            bad = np.array([_undecodable(value) for value in raw.to_pylist()])
            return pc.if_else(pa.array(bad), pa.scalar(b"", raw.type), raw).cast(TEXT), bad
    raise FileProblem(f"{field!r} holds {column.type}, neither text nor token ids")


_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def _undecodable(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def _split(batch: Batch) -> Iterator[Batch]:
    """Cut a batch of long documents into lighter ones."""
    measure = pc.utf8_length if batch.content.type == TEXT else pc.list_value_length
    ends = np.cumsum(measure(batch.content).to_numpy(zero_copy_only=False)) // batches.WEIGHT
    starts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(ends)], strict=True):
        size = stop - start
        rejects = batch.rejects if start == 0 else []
        yield Batch(batch.ids.slice(start, size), batch.content.slice(start, size), rejects)
