"""Documents from Parquet, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from powermark.corpus import batches
from powermark.corpus.batches import IDS, LONGEST_ID, TEXT, Batch, Reject, check_columns
from powermark.corpus.job import ReadOptions
from powermark.corpus.parquet_pages import pages
from powermark.errors import FileProblem

_BUFFER = 2**20  # bytes read at once
_PAGE = 3 * 2**26  # bytes of a page, decompressed
_ROOM = 2**26  # bytes decoded at once, unless a single value has more
_VALUES, _SPARSE = 2**24, 16  # values of a row group; more need this many bytes or fewer each


def read_parquet(stream: Any, url: str, options: ReadOptions) -> Iterator[Batch]:
    """Yield the documents of a file; refuse one without the columns or with huge pages."""
    waiting: list[Batch] = []
    rows = weight = 0
    broken: Exception | None = None
    try:
        for batch in _read(stream, url, options):
            size = len(batch.ids) + len(batch.rejects)
            if waiting and (rows + size > batches.ROWS or weight >= batches.WEIGHT):
                yield from _split(_joined(waiting))
                waiting, rows, weight = [], 0, 0
            waiting.append(batch)
            rows += size
            weight += int(_lengths(batch.content).sum())
    except Exception as error:  # raised after the documents that were read
        broken = error
    if waiting:
        yield from _split(_joined(waiting))
    if broken is not None:
        raise broken


def _read(stream: Any, url: str, options: ReadOptions) -> Iterator[Batch]:
    """Yield documents, few enough at a time to bound memory."""
    file = pq.ParquetFile(stream, buffer_size=_BUFFER, pre_buffer=False)
    check_columns(options, file.schema_arrow.names)
    columns = [options.field] if options.id_field is None else [options.field, options.id_field]
    first = 1
    for group in range(file.num_row_groups):
        about = file.metadata.row_group(group)
        rows = _rows_at_once(stream, about, columns, "://" in url)
        for batch in file.iter_batches(
            batch_size=rows, row_groups=[group], columns=columns, use_threads=False
        ):
            numbers = pa.array(np.arange(first, first + batch.num_rows)).cast(TEXT)
            places = pc.binary_join_element_wise(
                pa.scalar(url, TEXT), numbers, pa.scalar(":", TEXT)
            )
            names = places
            if options.id_field is not None:
                given = pc.utf8_slice_codeunits(
                    batch.column(options.id_field).cast(TEXT), 0, LONGEST_ID
                )
                names = pc.coalesce(given, places)
            yield _column(batch.column(options.field), names, places, options)
            first += batch.num_rows


def _rows_at_once(stream: Any, group: Any, columns: Sequence[str], remote: bool) -> int:
    """Return how many rows of a row group can be read at once, by the sizes of its pages.

    A value lies in one page, or in the dictionary, so it cannot be larger. Only a list of token ids
    may continue over pages; so the group must not have far more values than bytes. The pages of a
    remote file are read only if its footer says that they may be large.
    """
    largest = 1
    for chunk in (group.column(i) for i in range(group.num_columns)):
        if chunk.path_in_schema.partition(".")[0] not in columns:
            continue
        if remote and max(chunk.total_uncompressed_size, 8 * chunk.num_values) <= _ROOM:
            largest = max(largest, min(chunk.total_uncompressed_size, _ROOM // batches.ROWS))
            continue
        start = chunk.data_page_offset
        if chunk.has_dictionary_page:
            start = chunk.dictionary_page_offset
        stored = values = 0
        for page in pages(stream, start, chunk.total_compressed_size):
            if page.size > _PAGE:
                raise FileProblem(
                    f"a page of {page.size >> 20} MB, more than {_PAGE >> 20}: write the file with "
                    "smaller pages"
                )
            largest = max(largest, page.size)
            stored, values = stored + page.stored, values + page.values
        if values > max(_VALUES, _SPARSE * stored):
            raise FileProblem(f"{values} values in {stored} bytes, which may not be read")
    rows: int = min(max(_ROOM // largest, 1), batches.ROWS)
    return 1 << rows.bit_length() - 1


def _joined(some: Sequence[Batch]) -> Batch:
    rejects = [reject for each in some for reject in each.rejects]
    ids, content = ([getattr(each, name) for each in some] for name in ("ids", "content"))
    return Batch(pa.concat_arrays(ids), pa.concat_arrays(content), rejects)


def _column(column: pa.Array, names: pa.Array, places: pa.Array, options: ReadOptions) -> Batch:
    """Return the valid rows of a column, and rejects with the first reason that applies."""
    content, undecodable, long = _content(column, options)
    lengths = _lengths(content)
    checks = [
        (undecodable, "not UTF-8"),
        (column.is_null().to_numpy(zero_copy_only=False), f"{options.field!r} is null"),
        (
            long | (lengths > options.longest),
            options.too_long,
        ),
    ]
    if content.type == IDS and content.flatten().null_count:
        holes = pc.is_null(content.flatten()).to_numpy(zero_copy_only=False)
        each = np.repeat(np.arange(len(content)), lengths)
        empty = np.bincount(each[holes], minlength=len(content)) > 0
        checks.append((empty, f"{options.field!r} has a null among its token ids"))
    bad = np.logical_or.reduce([mask for mask, _ in checks])
    if not bad.any():
        return Batch(names, content, [])
    rejects = [
        Reject(places[i].as_py(), next(reason for mask, reason in checks if mask[i]))
        for i in np.flatnonzero(bad).tolist()
    ]
    good = pa.array(~bad)
    return Batch(names.filter(good), content.filter(good), rejects)


def _content(
    column: pa.Array, options: ReadOptions
) -> tuple[pa.Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return a column as texts or token ids, and masks of values not UTF-8 and far too long."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind, fine = column.type, np.zeros(len(column), bool)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if pa.types.is_integer(kind.value_type):
            return column.cast(IDS), fine, fine
    elif any(test(kind) for test in _TEXTS):
        raw = column.cast(pa.large_binary())
        sizes = pc.fill_null(pc.binary_length(raw), 0).to_numpy(zero_copy_only=False)
        long = sizes > 4 * options.longest  # a character has at most four bytes
        if long.any():
            raw = _emptied(raw, long)
        try:
            return raw.cast(TEXT), fine, long
        except pa.ArrowInvalid:
            bad = np.array([_undecodable(value) for value in raw.to_pylist()])
            return _emptied(raw, bad).cast(TEXT), bad, long
    raise FileProblem(f"{options.field!r} holds {column.type}, neither text nor token ids")


def _emptied(raw: pa.Array, chosen: NDArray[np.bool_]) -> pa.Array:
    return pc.if_else(pa.array(chosen), pa.scalar(b"", raw.type), raw)


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


def _lengths(content: pa.Array) -> NDArray[np.int64]:
    """Return the characters or token ids of each document."""
    measure = pc.utf8_length if content.type == TEXT else pc.list_value_length
    return np.asarray(pc.fill_null(measure(content), 0), np.int64)


def _split(batch: Batch) -> Iterator[Batch]:
    """Cut a batch of long documents into lighter ones."""
    ends = np.cumsum(_lengths(batch.content)) // batches.WEIGHT
    starts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(ends)], strict=True):
        size = stop - start
        rejects = batch.rejects if start == 0 else []
        yield Batch(batch.ids.slice(start, size), batch.content.slice(start, size), rejects)
