"""Where each text stands while it is written: tokens scored so far, and how many are green.

The twin of detection's scoring, one token at a time: the same first positions (a detector does not
see the prompt, so the first ``context_width`` tokens of a text do not count), the same special
tokens, the same look at repeats. From the state a schedule takes the next bias.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from powermark.calibration.schedule import Schedule
from powermark.checks import Array
from powermark.watermark.scheme import Scheme

Ids = NDArray[np.int64]
_ROOM = 64  # tokens for which room is made at a time


class Counts:
    """The states of many texts, a row each, whatever their lengths.

    Parameters
    ----------
    scheme
        Green lists.
    schedule
        Biases by state.
    special_ids
        Ids that never count.
    rows
        Texts to make room for, at least one if :meth:`clear` is to make more.
    """

    def __init__(
        self, scheme: Scheme, schedule: Schedule, special_ids: Collection[int] = (), rows: int = 0
    ) -> None:
        self._scheme, self._schedule = scheme, schedule
        self._special = np.zeros(scheme.vocab_size, bool)
        self._special[[i for i in special_ids if 0 <= i < scheme.vocab_size]] = True
        self.scored: Ids = np.zeros(rows, np.int64)
        self.greens: Ids = np.zeros(rows, np.int64)
        self._pairs: Ids = np.zeros(rows, np.int64)  # (seed, token) pairs met so far
        self._seeds = np.zeros((rows, _ROOM), np.uint64)
        self._tokens = np.zeros((rows, _ROOM), np.uint32)

    def clear(self, row: int) -> None:
        """Begin a text at a row, which may be a new one."""
        if row >= self._pairs.size:
            self.reorder(np.arange(2 * row + 1) % self._pairs.size)
        self.scored[row] = self.greens[row] = self._pairs[row] = 0

    def reorder(self, order: NDArray[np.integer] | list[int]) -> None:
        """Give each row the state of the row that ``order`` names."""
        for name in ("scored", "greens", "_pairs", "_seeds", "_tokens"):
            setattr(self, name, getattr(self, name)[order])

    def deltas(self, rows: NDArray[np.integer] | slice = slice(None)) -> Array:
        """Return the bias of each row's next token."""
        return self._schedule(self.scored[rows], self.greens[rows])

    def add(self, rows: NDArray[np.integer], windows: Ids) -> None:
        """Score one token a row; windows are (rows, context_width + 1), the token last."""
        inside = ((windows >= 0) & (windows < self._scheme.vocab_size)).all(axis=1)
        kept = np.flatnonzero(inside & ~self._special[np.where(inside, windows[:, -1], 0)])
        rows, chosen = rows[kept], windows[kept, -1].astype(np.uint32)
        seeds, green = self._scheme.colours(windows[kept, :-1], chosen)
        used = int(self._pairs[rows].max(initial=0))
        same = (self._seeds[rows, :used] == seeds[:, None]) & (
            self._tokens[rows, :used] == chosen[:, None]
        )
        met = np.arange(used) < self._pairs[rows, None]
        new = ~(same & met).any(axis=1)
        rows, seeds, chosen, green = rows[new], seeds[new], chosen[new], green[new]
        if used == self._seeds.shape[1]:
            self._seeds = np.pad(self._seeds, ((0, 0), (0, used)))
            self._tokens = np.pad(self._tokens, ((0, 0), (0, used)))
        places = self._pairs[rows]
        self._seeds[rows, places], self._tokens[rows, places] = seeds, chosen
        self._pairs[rows] += 1
        self.scored[rows] += 1
        self.greens[rows] += green
        over = self.scored == self._schedule.n_tokens  # the next token begins a new block
        self.scored[over] = self.greens[over] = 0


class Tracker:
    """Follows a batch of texts of one length and says each one's next bias.

    What is there at a first call is the prompt, which does not count; and so is what is there
    whenever no text goes on from one of the latest call. A row that goes on from another (beams, a
    batch that was reordered) takes over its state; a new one beside such rows is read from the end
    of the prompt. It takes what :class:`Counts` takes, but for its rows.
    """

    def __init__(
        self, scheme: Scheme, schedule: Schedule, special_ids: Collection[int] = ()
    ) -> None:
        self._about = scheme, schedule, special_ids
        self._width, self._prompt = scheme.context_width, 0
        self._seen: Ids = np.zeros((0, 0), np.int64)
        self._counts = Counts(*self._about)

    @property
    def state(self) -> tuple[Ids, Ids]:
        """Tokens scored and greens of each row, in its present block."""
        return self._counts.scored.copy(), self._counts.greens.copy()

    def deltas(self, texts: Ids) -> Array:
        """Return the bias for the next token of each text; (rows, ids so far) -> (rows,).

        ``texts`` are all ids, prompts included; ids outside the vocabulary (of padded logits) never
        count.
        """
        rows, length = texts.shape
        known, origins = self._seen.shape[1], self._origins(texts)
        if -1 in origins:
            if max(origins) == -1:
                self._prompt = length
            known = self._prompt
            self._counts = Counts(*self._about, rows=rows)
        elif origins != list(range(self._seen.shape[0])):
            self._counts.reorder(origins)
        everyone, first = np.arange(rows), self._prompt + self._width
        for last in range(max(known, first), length):
            self._counts.add(everyone, texts[:, last - self._width : last + 1])
        self._seen = np.array(texts)
        if length < first:  # the next token will not count either
            return np.zeros(rows)
        return self._counts.deltas()

    def _origins(self, texts: Ids) -> list[int]:
        """Return the row of the latest call that each text goes on from; -1 where there is none."""
        rows, known = self._seen.shape
        if texts.shape[1] <= known:
            return [-1] * texts.shape[0]
        before = np.ascontiguousarray(texts[:, :known])
        if np.array_equal(before, self._seen):
            return list(range(rows))
        places = {row.tobytes(): place for place, row in enumerate(self._seen)}
        return [places.get(row.tobytes(), -1) for row in before]
