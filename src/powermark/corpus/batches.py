"""Batches of documents, and the rows that are rejected."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from powermark.corpus.job import ReadOptions
from powermark.errors import FileProblem

ROWS = 512  # documents of a batch
WEIGHT = 2_000_000  # characters or token ids of a batch, unless one document alone has more
_LETTERS = 500  # of a name or message that is written
_NAMED = 20  # columns that a message lists
LONGEST_ID = 4_096  # characters of a document's id; longer ids are cut
TEXT, IDS = pa.large_string(), pa.large_list(pa.int64())


class Reject(NamedTuple):
    """A rejected row or, if ``file``, the rest of a file that could not be read.

    ``again`` marks a transient failure: a resumed scan reads the file again. ``more`` is the number
    of further rows of a file that this line counts and that are not listed.
    """

    place: str
    reason: str
    file: bool = False
    again: bool = False
    more: int = 0


class Batch(NamedTuple):
    """Some documents, as texts or as token ids, and the rows rejected among them."""

    ids: pa.Array
    content: pa.Array
    rejects: list[Reject]


def check_columns(options: ReadOptions, names: Sequence[str]) -> None:
    """Refuse a file without the columns that are read."""
    for name in (options.field, options.id_field):
        if name is not None and name not in names:
            raise FileProblem(no_column(name, names))


def no_column(name: str, found: object) -> str:
    """Say that a column is missing, and which columns there are."""
    columns = found if isinstance(found, (dict, list)) else []
    names = [shortened(str(each)) for each in islice(columns, _NAMED)]
    more = f" and {len(columns) - _NAMED} more" if len(columns) > _NAMED else ""
    return f"no column {shortened(repr(name))}; there is {', '.join(names) or 'none'}{more}"


def shortened(text: str) -> str:
    """Cut a name or a message that is too long for a line."""
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]} ..."
