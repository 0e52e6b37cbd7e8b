"""One batch of documents to one table of rows: the same function on every engine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from powermark.checks import Array
from powermark.corpus.batches import TEXT, Batch, Reject
from powermark.detection.detection import Detector
from powermark.detection.findings import VERDICTS, Findings
from powermark.detection.scoring import Ids
from powermark.detection.text import characters_of, flat_ids, normalise
from powermark.errors import InvalidInput
from powermark.watermark.spec import digest_of

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("mark", pa.string()),
        ("spec", pa.string()),
        ("verdict", pa.string()),
        *((name, pa.float64()) for name in ("p", "bits", "log_e")),
        *((name, pa.int64()) for name in ("tokens", "scored", "repeated", "green")),
        *((name, pa.float64()) for name in ("green_rate", "green_rate_low", "green_rate_high")),
        *((name, pa.float64()) for name in ("z", "p_mid", "marked_share", "power", "size")),
        *((name, pa.int64()) for name in ("span_start", "span_stop", "char_start", "char_stop")),
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
    """A mark to look for; in documents of more than ``above`` tokens by ``long``, if given.

    ``keys`` are digests of its keys by name, for the record.
    """

    detector: Detector
    keys: dict[str, str]
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
        specs = [mark.detector.spec.digest[:12] for mark in marks]
        self.labels = [
            spec if specs.count(spec) == 1 else f"{spec}.{specs[: i + 1].count(spec)}"
            for i, spec in enumerate(specs)
        ]

    @property
    def identity(self) -> dict[str, Any]:
        """All that rows depend on beside the documents, without any secret."""
        tokenizer, known = self._tokenizer, self.marks[0].detector.spec.tokenizer_digest
        return {
            "marks": self.labels,
            "signatures": [
                [each.signature for each in (mark.detector, mark.long) if each]
                for mark in self.marks
            ],
            "keys": [mark.keys for mark in self.marks],
            "windows_above": [mark.above for mark in self.marks],
            "tokenizer": None if tokenizer is None else known or digest_of(tokenizer),
            "special_ids": [] if tokenizer is None else sorted(tokenizer.all_special_ids),
        }

    def scan(self, batch: Batch) -> Scanned:
        """Return the rows of a batch, in its order."""
        if batch.content.type == TEXT and self._tokenizer is None:
            reason = "text, where token ids are read"
            rejects = [Reject(name, reason) for name in batch.ids.to_pylist()]
            return Scanned(SCHEMA.empty_table(), 0, 0, batch.rejects + rejects)
        texts = self._texts(batch.content) if batch.content.type == TEXT else None
        ids, offsets = _flat(batch.content) if texts is None else flat_ids(self._tokenizer, texts)
        names, rejects = batch.ids, batch.rejects
        if ids.size and (ids.min() < 0 or ids.max() >= self._vocab_size):
            foreign = _any((ids < 0) | (ids >= self._vocab_size), offsets)
            reason = f"a token id that is not between 0 and {self._vocab_size - 1}"
            rejects = rejects + [
                Reject(names[i].as_py(), reason) for i in np.flatnonzero(foreign).tolist()
            ]
            names = names.filter(pa.array(~foreign))
            ids, offsets = _select(ids, offsets, ~foreign)
            texts = None if texts is None else list(compress(texts, ~foreign))
        tables = [
            self._look(mark, label, names, ids, offsets)
            for mark, label in zip(self.marks, self.labels, strict=True)
        ]
        if texts is not None and not self._normalise:
            tables = [self._with_characters(table, texts, ids, offsets) for table in tables]
        order = np.arange(len(tables) * len(names)).reshape(len(tables), -1).T.ravel()
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables).take(pa.array(order))
        return Scanned(rows, len(names), ids.size, rejects)

    def _texts(self, content: pa.Array) -> list[str]:
        texts: list[str] = content.to_pylist()
        return [normalise(text) for text in texts] if self._normalise else texts

    def _look(self, mark: Mark, label: str, names: pa.Array, ids: Ids, offsets: Ids) -> pa.Table:
        """Look for one mark, in long documents by a detector of their own."""
        if mark.long is None:
            return _table(mark.detector, label, names, mark.detector.find(ids, offsets))
        long = np.diff(offsets) > mark.above
        tables = []
        for detector, chosen in ((mark.detector, ~long), (mark.long, long)):
            found = detector.find(*_select(ids, offsets, chosen))
            tables.append(_table(detector, label, names.filter(pa.array(chosen)), found))
        places = np.argsort(np.concatenate([np.flatnonzero(~long), np.flatnonzero(long)]))
        return pa.concat_tables(tables).take(pa.array(places))

    def _with_characters(
        self, table: pa.Table, texts: list[str], ids: Ids, offsets: Ids
    ) -> pa.Table:
        """Say where in its text the most marked span is, of documents that are called marked."""
        places = np.full((2, len(texts)), -1)
        called = pc.and_(pc.equal(table["verdict"], VERDICTS[0]), pc.is_valid(table["span_stop"]))
        for i in np.flatnonzero(called.to_numpy()).tolist():
            span = (table[name][i].as_py() for name in ("span_start", "span_stop"))
            own = ids[offsets[i] : offsets[i + 1]]
            places[:, i] = characters_of(self._tokenizer, texts[i], own, *span) or -1
        for name, values in zip(("char_start", "char_stop"), places, strict=True):
            column = pa.array(values, mask=values < 0)
            table = table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), column)
        return table


def _flat(content: pa.Array) -> tuple[Ids, Ids]:
    flat = content.flatten().to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return flat, np.asarray(content.offsets) - content.offsets[0].as_py()


def _table(detector: Detector, label: str, names: pa.Array, found: Findings) -> pa.Table:
    """Return findings as rows; the fields have the names that ``powermark detect`` prints."""
    none = found.walk.stops == 0
    size = len(names)
    columns = {
        "id": names.cast(pa.string()),
        "mark": _all(label, size),
        "spec": _all(label.partition(".")[0], size),
        "verdict": _labels(found.verdict, VERDICTS),
        "p": np.exp(found.log_p),
        "bits": -found.log_p / np.log(2.0) + 0.0,
        "log_e": found.log_e,
        "green_rate": _present(found.green_rate),
        "z": _present(found.z),
        "marked_share": _present(found.marked_share),
        "span_start": pa.array(found.walk.starts, mask=none),
        "span_stop": pa.array(found.walk.stops, mask=none),
        **dict.fromkeys(("char_start", "char_stop"), pa.nulls(size, pa.int64())),
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
