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


class Counts:
    """The states of many texts, a row each, whatever their lengths.

    A token costs the same however long its text is.

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
        self._met: list[set[int]] = [set() for _ in range(rows)]  # (seed, token) pairs

    def clear(self, row: int) -> None:
        """Begin a text at a row, which may be a new one."""
        if row >= self.scored.size:
            self.reorder(np.arange(2 * row + 1) % self.scored.size)
        self.scored[row] = self.greens[row] = 0
        self._met[row] = set()

    def reorder(self, order: NDArray[np.integer] | list[int]) -> None:
        """Give each row the state of the row that ``order`` names."""
        self.scored, self.greens = self.scored[order], self.greens[order]
        self._met = [set(self._met[row]) for row in order]

    def deltas(self, rows: NDArray[np.integer] | slice = slice(None)) -> Array:
        """Return the bias of each row's next token."""
        return self._schedule(self.scored[rows], self.greens[rows])

    def add(self, rows: NDArray[np.integer], windows: Ids) -> None:
        """Score one token a row; windows are (rows, context_width + 1), the token last."""
        inside = ((windows >= 0) & (windows < self._scheme.vocab_size)).all(axis=1)
        kept = np.flatnonzero(inside & ~self._special[np.where(inside, windows[:, -1], 0)])
        rows, chosen = rows[kept], windows[kept, -1].astype(np.uint32)
        seeds, green = self._scheme.colours(windows[kept, :-1], chosen)
        pairs = zip(rows.tolist(), seeds.tolist(), chosen.tolist(), strict=True)
        new = np.array([self._is_new(*pair) for pair in pairs], bool)
        self.scored[rows[new]] += 1
        self.greens[rows[new]] += green[new]
        over = self.scored == self._schedule.n_tokens  # the next token begins a new block
        self.scored[over] = self.greens[over] = 0

    def _is_new(self, row: int, seed: int, token: int) -> bool:
        """Take note of a pair; say whether its text had not met it yet."""
        met, pair = self._met[row], seed << 32 | token  # a token has 32 bits
        new = pair not in met
        met.add(pair)
        return new


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
        self._room: Ids = np.zeros((0, 0), np.int64)  # the latest call's ids, and space for more
        self._known = 0  # ids of a text in there
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
        known, origins = self._known, self._origins(texts)
        same = origins == list(range(self._room.shape[0]))
        if -1 in origins:
            if max(origins) == -1:
                self._prompt = length
            known = self._prompt
            self._counts = Counts(*self._about, rows=rows)
        elif not same:
            self._counts.reorder(origins)
        everyone, first = np.arange(rows), self._prompt + self._width
        for last in range(max(known, first), length):
            self._counts.add(everyone, texts[:, last - self._width : last + 1])
        self._remember(texts, self._known if same else 0)
        if length < first:  # the next token will not count either
            return np.zeros(rows)
        return self._counts.deltas()

    def _origins(self, texts: Ids) -> list[int]:
        """Return the row of the latest call that each text goes on from; -1 where there is none."""
        if texts.shape[1] <= self._known:
            return [-1] * texts.shape[0]
        before, seen = texts[:, : self._known], self._room[:, : self._known]
        if np.array_equal(before, seen):
            return list(range(seen.shape[0]))
        places = {row.tobytes(): place for place, row in enumerate(seen)}
        return [places.get(row.tobytes(), -1) for row in before]

    def _remember(self, texts: Ids, first: int) -> None:
        """Keep the ids, of which those before ``first`` are there already."""
        rows, length = texts.shape
        if first == 0 or length > self._room.shape[1]:
            self._room, first = np.empty((rows, 2 * length), np.int64), 0
        self._room[:, first:length] = texts[:, first:]
        self._known = length
