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

    A row that goes on from another (beams, a batch that was reordered) takes over its state; one
    that was never seen is read from its beginning. It takes what :class:`Counts` takes, but for its
    rows.
    """

    def __init__(
        self, scheme: Scheme, schedule: Schedule, special_ids: Collection[int] = ()
    ) -> None:
        self._about = scheme, schedule, special_ids
        self._width = scheme.context_width
        self._seen: Ids
        self._counts: Counts
        self._forget(0)

    @property
    def state(self) -> tuple[Ids, Ids]:
        """Tokens scored and greens of each row, in its present block."""
        return self._counts.scored.copy(), self._counts.greens.copy()

    def deltas(self, texts: Ids) -> Array:
        """Return the bias for the next token of each text; (rows, tokens so far) -> (rows,).

        ``texts`` are the ids written so far, without the prompt; ids outside the vocabulary (of
        padded logits) never count.
        """
        rows, length = texts.shape
        known = self._seen.shape[1]
        if length < known or not self._goes_on(texts[:, :known]):
            self._forget(rows)
            known = 0
        everyone = np.arange(rows)
        for last in range(max(known, self._width), length):
            self._counts.add(everyone, texts[:, last - self._width : last + 1])
        self._seen = np.array(texts)
        if length < self._width:  # the next token will not count either
            return np.zeros(rows)
        return self._counts.deltas()

    def _forget(self, rows: int) -> None:
        """Begin anew."""
        self._seen = np.zeros((rows, 0), np.int64)
        self._counts = Counts(*self._about, rows=rows)

    def _goes_on(self, before: Ids) -> bool:
        """Put the states in the order of these beginnings; False if one of them is new."""
        if before.shape[0] == self._seen.shape[0] and np.array_equal(before, self._seen):
            return True
        places = {row.tobytes(): place for place, row in enumerate(self._seen)}
        order = [places.get(row.tobytes(), -1) for row in np.ascontiguousarray(before)]
        if -1 in order:
            return False
        self._counts.reorder(order)
        return True
