"""The texts of an engine's batch: the context and bias of each at every step.

The engine adds, removes, moves and swaps rows. A text is read from the engine's own list of written
ids, never from a copy, so it stays correct after preemption or when the engine takes tokens back.

Such engines pass one Python list per request. A loop over requests collects the contexts; hashing,
counting and adding are done for all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Array, Ids
from powermark.engines.serving import ServedMark
from powermark.errors import EngineProblem
from powermark.watermark.tracker import Counts

_TAKEN_BACK = 64  # tokens; more than any engine drafts ahead


class Text:
    """One text: its mark, the end of its prompt, and the ids written so far (a live list).

    ``scale`` converts the spec's delta to where the engine adds it.
    """

    __slots__ = ("latest", "mark", "output", "place", "scale", "tail")

    def __init__(
        self,
        mark: ServedMark,
        scale: float,
        prompt: Sequence[int] | None,
        output: Sequence[int] | NDArray[np.integer],
    ) -> None:
        h = mark.spec.context_width
        self.mark, self.scale, self.output = mark, scale, output
        self.tail = [] if prompt is None else list(prompt[max(0, len(prompt) - h) :])
        self.place = -1  # where its counts are kept
        self.latest: list[int] = []  # the last ids that they include

    def before(self, end: int) -> list[int]:
        """Return the last ids before a place, at most as many as an engine takes back."""
        return list(self.output[max(0, end - _TAKEN_BACK) : end])

    def context(self, width: int) -> list[int]:
        """Return the last ids, prompt included; fewer than ``width`` if there are no more."""
        written = list(self.output[max(0, len(self.output) - width) :])
        missing = width - len(written)
        return self.tail[max(0, len(self.tail) - missing) :] + written if missing else written


class Biases(NamedTuple):
    """One mark's part of a step: rows of the batch, their contexts and their biases."""

    mark: ServedMark
    rows: NDArray[np.int64]  # (n,)
    contexts: Ids  # (n, context_width)
    deltas: NDArray[np.float32]  # (n,)


class Batch:
    """The texts of an engine's batch, by row."""

    def __init__(self) -> None:
        self._texts: dict[int, Text] = {}
        self._groups: dict[str, list[tuple[int, Text]]] | None = {}
        self._counts: dict[str, Counts] = {}
        self._free: dict[str, list[int]] = {}

    def put(self, row: int, text: Text | None) -> None:
        """Put a text in a row, replacing the one there; None for an unmarked text."""
        old = self._texts.pop(row, None)
        if old is not None and old.place >= 0:
            self._free[old.mark.name].append(old.place)
        if text is not None:
            self._begin(text)
            self._texts[row] = text
        self._groups = None

    def move(self, source: int, target: int) -> None:
        """Move a row to another, replacing it."""
        text = self._texts.pop(source, None)
        self.put(target, None)
        if text is not None:
            self._texts[target] = text

    def swap(self, one: int, other: int) -> None:
        """Exchange two rows."""
        texts = {other: self._texts.pop(one, None), one: self._texts.pop(other, None)}
        self._texts |= {row: text for row, text in texts.items() if text is not None}
        self._groups = None

    def biases(self) -> Iterator[Biases]:
        """Yield each mark's part of this step."""
        if self._groups is None:
            self._groups = {}
            for row, text in sorted(self._texts.items()):
                self._groups.setdefault(text.mark.name, []).append((row, text))
        for group in self._groups.values():
            yield _biases(group, self._counts.get(group[0][1].mark.name))

    def _begin(self, text: Text) -> None:
        """Allocate the counts of a steered text."""
        mark = text.mark
        if mark.schedule is None:
            return
        if mark.name not in self._counts:
            self._counts[mark.name] = Counts(mark.scheme, mark.schedule, mark.special_ids, rows=1)
            self._free[mark.name] = []
        free, taken = self._free[mark.name], [t for t in self._texts.values() if t.mark is mark]
        text.place = free.pop() if free else len(taken)
        text.latest = []
        self._counts[mark.name].clear(text.place)


def _biases(group: list[tuple[int, Text]], counts: Counts | None) -> Biases:
    mark = group[0][1].mark
    h = mark.spec.context_width
    found = [text.context(h) for _, text in group]
    whole = np.array([len(context) == h for context in found])
    contexts = np.array([c if len(c) == h else [0] * h for c in found], np.int64).reshape(
        len(group), h
    )
    refuse_placeholders(contexts)
    if counts is None:
        deltas: Array = np.full(len(group), mark.spec.delta)
    else:
        texts = [text for _, text in group]
        _count(texts, counts, h)
        deltas = counts.deltas(np.array([text.place for text in texts]))
        # a detector without the prompt cannot score the first tokens
        deltas = np.where([len(text.output) >= counts.first for text in texts], deltas, 0.0)
    scales = np.array([text.scale for _, text in group])
    rows = np.array([row for row, _ in group], np.int64)
    return Biases(mark, rows, contexts, (deltas * scales * whole).astype(np.float32))


def _count(texts: list[Text], counts: Counts, h: int) -> None:
    """Bring the counts up to date."""
    for text in texts:
        if text.before(counts.read[text.place]) != text.latest:  # the engine replaced tokens
            counts.clear(text.place)

    def windows(which: Ids, tokens: Ids) -> Ids:
        pairs = zip(which.tolist(), tokens.tolist(), strict=True)
        found = np.array([list(texts[i].output[end - h : end + 1]) for i, end in pairs])
        refuse_placeholders(found)
        return found

    places = np.array([text.place for text in texts])
    counts.catch_up(places, np.array([len(text.output) for text in texts]), windows)
    for text in texts:
        text.latest = text.before(counts.read[text.place])


def refuse_placeholders(ids: Ids) -> None:
    """Refuse placeholders for ids: the mark would be wrong."""
    if ids.size and int(ids.min()) < 0:
        raise EngineProblem(
            "the engine hands placeholders instead of the tokens it wrote, so texts cannot be "
            "marked.",
            hint="turn asynchronous scheduling off (vLLM: --no-async-scheduling).",
        )
