"""What is read of a corpus: batches of documents, and the rows that are rejected.

A batch's ``content`` is a text column or a column of token ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from powermark.errors import FileProblem

ROWS = 512  # documents of a batch
WEIGHT = 2_000_000  # characters or token ids of a batch, unless one document alone has more
TEXT, IDS = pa.large_string(), pa.large_list(pa.int64())


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is read of a row: the field with the text or its token ids, and the one with its id.

    Without ``id_field`` a document's id is its place, ``file:number``. Documents with more
    characters, or token ids, than ``longest`` are rejected.
    """

    field: str = "text"
    id_field: str | None = None
    longest: int = 1_000_000

    @property
    def too_long(self) -> str:
        """Why a document is rejected that is longer."""
        return f"too long: more than {self.longest} characters or token ids"

    def check(self, names: Sequence[str]) -> None:
        """Refuse a file that has no such columns."""
        for name in (self.field, self.id_field):
            if name is not None and name not in names:
                raise FileProblem(no_column(name, names))


class Reject(NamedTuple):
    """A row, or a file from there on, that is left out.

    ``file`` tells the two apart. ``again`` for a file that could not be reached for a passing
    reason: a scan that goes on tries it again.
    """

    place: str
    reason: str
    file: bool = False
    again: bool = False


class Batch(NamedTuple):
    """Some documents, and what was rejected among them."""

    ids: pa.Array
    content: pa.Array
    rejects: list[Reject]


def no_column(name: str, found: object) -> str:
    """Say that there is no such column, and which there are."""
    names = [str(each) for each in found] if isinstance(found, (dict, list)) else []
    return f"no column {name!r}; there is {', '.join(names) or 'none'}"
