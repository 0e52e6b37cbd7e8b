"""One batch of documents to one table of rows: the same function on every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from powermark.checks import Array
from powermark.corpus.readers import IDS, TEXT, Batch, Reject
from powermark.detection.detection import Detector
from powermark.detection.findings import VERDICTS, Findings
from powermark.detection.scoring import Ids
from powermark.detection.text import flat_ids, normalise
from powermark.errors import InvalidInput

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("spec", pa.string()),
        ("verdict", pa.string()),
        *((name, pa.float64()) for name in ("p", "bits", "log_e")),
        *((name, pa.int64()) for name in ("tokens", "scored", "repeated", "green")),
        *((name, pa.float64()) for name in ("green_rate", "green_rate_low", "green_rate_high")),
        *((name, pa.float64()) for name in ("z", "p_mid", "marked_share", "power", "size")),
        ("span_start", pa.int64()),
        ("span_stop", pa.int64()),
        ("key", pa.string()),
        ("detector", pa.string()),
        ("signature", pa.string()),
    ]
)


class Scanned(NamedTuple):
    """The rows of a batch, one for each document and mark; its size, and what was rejected."""

    table: pa.Table
    documents: int
    tokens: int
    rejects: list[Reject]


class Mark(NamedTuple):
    """A mark to look for; in documents of more than ``above`` tokens by ``long``, if given."""

    detector: Detector
    long: Detector | None = None
    above: int = 0


class Scanner:
    """Looks for all marks in every document, which is tokenised once.

    Parameters
    ----------
    marks
        What to look for; their specs are for one tokenizer.
    tokenizer
        For texts; without one only token ids are taken.
    normalise_text
        Undo look-alike letters and invisible characters before tokenising.
    """

    def __init__(
        self, marks: Sequence[Mark], tokenizer: Any = None, *, normalise_text: bool = False
    ) -> None:
        if not marks:
            raise InvalidInput("a scan needs at least one mark.")
        self.marks, self._tokenizer, self._normalise = marks, tokenizer, normalise_text
        self._vocab_size = min(mark.detector.spec.vocab_size for mark in marks)

    def scan(self, batch: Batch) -> Scanned:
        """Return the rows of a batch, in its order."""
        if batch.content.type == TEXT and self._tokenizer is None:
            reason = "text, where token ids are read"
            rejects = [Reject(name, reason) for name in batch.ids.to_pylist()]
            return Scanned(SCHEMA.empty_table(), 0, 0, batch.rejects + rejects)
        ids, offsets = self._tokens(batch.content)
        names, rejects = batch.ids, batch.rejects
        foreign = _any((ids < 0) | (ids >= self._vocab_size), offsets)
        if foreign.any():
            reason = f"a token id that is not between 0 and {self._vocab_size - 1}"
            rejects = rejects + [
                Reject(names[i].as_py(), reason) for i in np.flatnonzero(foreign).tolist()
            ]
            names = names.filter(pa.array(~foreign))
            ids, offsets = _select(ids, offsets, ~foreign)
        tables = [self._look(mark, names, ids, offsets) for mark in self.marks]
        order = np.arange(len(tables) * len(names)).reshape(len(tables), -1).T.ravel()
        rows = pa.concat_tables(tables).take(pa.array(order))
        return Scanned(rows, len(names), ids.size, rejects)

    def _tokens(self, content: pa.Array) -> tuple[Ids, Ids]:
        if content.type == IDS:
            flat = content.flatten().to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
            return flat, np.asarray(content.offsets) - content.offsets[0].as_py()
        texts = content.to_pylist()
        if self._normalise:
            texts = [normalise(text) for text in texts]
        return flat_ids(self._tokenizer, texts)

    def _look(self, mark: Mark, names: pa.Array, ids: Ids, offsets: Ids) -> pa.Table:
        """Look for one mark, in long documents by a detector of their own."""
        if mark.long is None:
            return _table(mark.detector, names, mark.detector.find(ids, offsets))
        long = np.diff(offsets) > mark.above
        tables = []
        for detector, chosen in ((mark.detector, ~long), (mark.long, long)):
            found = detector.find(*_select(ids, offsets, chosen))
            tables.append(_table(detector, names.filter(pa.array(chosen)), found))
        places = np.argsort(np.concatenate([np.flatnonzero(~long), np.flatnonzero(long)]))
        return pa.concat_tables(tables).take(pa.array(places))


def _table(detector: Detector, names: pa.Array, found: Findings) -> pa.Table:
    """Return findings as rows; the fields have the names that ``powermark detect`` prints."""
    none = found.walk.stops == 0
    size = len(names)
    columns = {
        "id": names.cast(pa.string()),
        "spec": _all(detector.spec.digest[:12], size),
        "verdict": _labels(found.verdict, VERDICTS),
        "p": np.exp(found.log_p),
        "bits": -found.log_p / np.log(2.0) + 0.0,
        "log_e": found.log_e,
        "green_rate": _present(found.green_rate),
        "z": _present(found.z),
        "marked_share": _present(found.marked_share),
        "span_start": pa.array(found.walk.starts, mask=none),
        "span_stop": pa.array(found.walk.stops, mask=none),
        "key": _labels(found.key, detector.names),
        "detector": _all(detector.detector, size),
        "signature": _all(detector.signature, size),
    }
    return pa.table(
        [columns.get(name, getattr(found, name, None)) for name in SCHEMA.names], schema=SCHEMA
    )


def _all(value: str, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), size)


def _labels(codes: Any, names: Sequence[str | None]) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(codes))


def _present(values: Array) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _any(mask: Any, offsets: Ids) -> Any:
    """Whether a mask holds anywhere in each document."""
    return np.diff(np.concatenate([[0], np.cumsum(mask)])[offsets]) > 0


def _select(ids: Ids, offsets: Ids, chosen: Any) -> tuple[Ids, Ids]:
    """Return the chosen ones of documents that lie end to end."""
    lengths = np.diff(offsets)
    kept = np.concatenate([[0], np.cumsum(lengths[chosen])])
    return ids[np.repeat(chosen, lengths)], kept
