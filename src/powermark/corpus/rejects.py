"""Bound the list of rejected rows: a file's first ones are listed, the others are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from powermark.corpus.batches import Reject
from powermark.corpus.sources import Portion

LISTED = 1_000  # rejected rows of a file that are listed


class Listing:
    """Which rejects of a portion are listed; it sees them in order.

    The result depends only on the rejects before, so a resumed scan restores the state from the
    lists that were written. A row named by its own id does not tell its file; such rows of a
    portion count as those of one more file.
    """

    def __init__(self, portion: Portion) -> None:
        self._files = {source.url for source in portion}
        self._rest = portion[0].url if len(portion) == 1 else f"{portion[0].url} and those after it"
        self._listed: Counter[str] = Counter()

    def resume(self, rejects: Iterable[Reject]) -> None:
        """Take note of rejects that an earlier run has written."""
        self._listed.update(self._file(each) for each in rejects if not (each.file or each.more))

    def bounded(self, rejects: Iterable[Reject]) -> list[Reject]:
        """Return the rejects to list, and for each file a line that counts the others."""
        listed: list[Reject] = []
        more: Counter[str] = Counter()
        for reject in rejects:
            file = self._file(reject)
            if reject.file:
                listed.append(reject)
            elif self._listed[file] < LISTED:
                self._listed[file] += 1
                listed.append(reject)
            else:
                more[file] += 1
        return listed + [_counted(file, rows) for file, rows in more.items()]

    def _file(self, reject: Reject) -> str:
        """Return the file of a row; its place is the file, or the file and a number."""
        names = (reject.place, reject.place.rpartition(":")[0])
        return next((name for name in names if name in self._files), self._rest)


def merged(rejects: Iterable[Reject]) -> list[Reject]:
    """Return rejects with one line for the rows of each file that are only counted, at the end."""
    listed: list[Reject] = []
    more: Counter[str] = Counter()
    for reject in rejects:
        if reject.more:
            more[reject.place] += reject.more
        else:
            listed.append(reject)
    return listed + [_counted(file, rows) for file, rows in more.items()]


def _counted(file: str, rows: int) -> Reject:
    reason = f"{rows} more rows are rejected; only the first {LISTED} of a file are listed"
    return Reject(file, reason, more=rows)
