"""Scan a batch of documents into a table of rows."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import scrypt
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from powermark.checks import Array, Ids, Mask
from powermark.corpus.batches import TEXT, Batch, Reject
from powermark.corpus.sketches import Sketches
from powermark.detection.detection import VERDICTS, Findings
from powermark.detection.detector import Detector
from powermark.detection.text import characters_of, flat_ids, normalise
from powermark.errors import InvalidInput
from powermark.statistics.calls import calls
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import digest_of
from powermark.watermark.watermark import Watermark

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
    """The rows of a batch, one a document and mark, with its size, rejects and sketches."""

    table: pa.Table
    documents: int
    tokens: int
    rejects: list[Reject]
    sketches: Sketches


class Mark(NamedTuple):
    """The detector of a mark, and perhaps another for documents of more than ``above`` tokens."""

    detector: Detector
    long: Detector | None = None
    above: int = 0

    @property
    def counts(self) -> bool:
        """Whether every document is judged by its count."""
        return self.detector.detectors == ("count",) and self.long is None

    def judge(self, draws: NDArray[np.float32]) -> Mask:
        """Decide whether a document whose n-grams have these draws is called marked.

        An n-gram with a draw below gamma is green.
        """
        long = self.long if draws.shape[1] > self.above else None
        detector = long or self.detector
        found = [
            calls(
                kind,
                draws < detector.spec.gamma,
                gamma=detector.spec.gamma,
                bet=detector.bet,
                alpha=detector.alpha / detector.looks,
            )
            for kind in detector.detectors
        ]
        return np.asarray(np.any(found, axis=0))


class Scanner:
    """Looks for all marks in every document; tokenises each document once.

    Parameters
    ----------
    marks
        The marks; their specs are for one tokenizer.
    tokenizer
        For texts; without one, documents must be token ids.
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
        # documents share more of the shorter n-grams: on the safe side for all marks
        self._context_width = min(mark.detector.spec.context_width for mark in marks)
        specs = [mark.detector.spec.digest[:12] for mark in marks]
        self.labels = [
            spec if specs.count(spec) == 1 else f"{spec}.{specs[: i + 1].count(spec)}"
            for i, spec in enumerate(specs)
        ]

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that rows depend on besides the documents, without any secret."""
        tokenizer, known = self._tokenizer, self.marks[0].detector.spec.tokenizer_digest
        return {
            "marks": self.labels,
            "signatures": [
                [each.signature for each in (mark.detector, mark.long) if each]
                for mark in self.marks
            ],
            "keys": [
                {name: _key_digest(each) for name, each in mark.detector.watermarks.items()}
                for mark in self.marks
            ],
            "windows_above": [mark.above for mark in self.marks],
            "tokenizer": None if tokenizer is None else known or digest_of(tokenizer),
            "special_ids": [] if tokenizer is None else sorted(tokenizer.all_special_ids),
        }

    def scan(self, batch: Batch) -> Scanned:
        """Return the rows of a batch, in its order."""
        if batch.content.type == TEXT and self._tokenizer is None:
            reason = "text, where token ids are read"
            rejects = [Reject(name, reason) for name in batch.ids.to_pylist()]
            nothing = np.zeros(0, np.int64), np.zeros(1, np.int64)
            sketches = Sketches.of(*nothing, self._context_width)
            return Scanned(SCHEMA.empty_table(), 0, 0, batch.rejects + rejects, sketches)
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
            self._look(mark, label, names, ids, offsets, copied=texts is not None)
            for mark, label in zip(self.marks, self.labels, strict=True)
        ]
        if texts is not None and not self._normalise:
            tables = [self._with_characters(table, texts, ids, offsets) for table in tables]
        order = np.arange(len(tables) * len(names)).reshape(len(tables), -1).T.ravel()
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables).take(pa.array(order))
        sketches = Sketches.of(ids, offsets, self._context_width)
        return Scanned(rows, len(names), ids.size, rejects, sketches)

    def _texts(self, content: pa.Array) -> list[str]:
        texts: list[str] = content.to_pylist()
        return [normalise(text) for text in texts] if self._normalise else texts

    def _look(
        self, mark: Mark, label: str, names: pa.Array, ids: Ids, offsets: Ids, *, copied: bool
    ) -> pa.Table:
        """Look for one mark, in long documents with their own detector."""
        if mark.long is None:
            found = mark.detector.find(ids, offsets, copied=copied)
            return _table(mark.detector, label, names, found)
        long = np.diff(offsets) > mark.above
        tables = []
        for detector, chosen in ((mark.detector, ~long), (mark.long, long)):
            found = detector.find(*_select(ids, offsets, chosen), copied=copied)
            tables.append(_table(detector, label, names.filter(pa.array(chosen)), found))
        places = np.argsort(np.concatenate([np.flatnonzero(~long), np.flatnonzero(long)]))
        return pa.concat_tables(tables).take(pa.array(places))

    def _with_characters(
        self, table: pa.Table, texts: list[str], ids: Ids, offsets: Ids
    ) -> pa.Table:
        """Add the characters of the most marked span, for documents that are called marked."""
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


def _key_digest(mark: Watermark) -> str:
    """Return a digest that distinguishes keys without revealing them.

    A hash key is a small number, so its digest is slow to compute and has only two bytes: millions
    of numbers share each.
    """
    if isinstance(mark.key, SecretKey):
        return mark.key.fingerprint
    if not mark.has_private_hash_key:
        return "public"
    number, salt = str(mark.key.value).encode(), mark.spec.digest.encode()
    return scrypt(number, salt=salt, n=2**14, r=8, p=1, dklen=2).hex()


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
        "detector": _labels(found.detector, detector.detectors),
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
    """Return the chosen documents, of documents stored end to end."""
    lengths = np.diff(offsets)
    kept = np.concatenate([[0], np.cumsum(lengths[chosen])])
    return ids[np.repeat(chosen, lengths)], kept
