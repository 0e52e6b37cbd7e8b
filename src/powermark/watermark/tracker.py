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


class Tracker:
    """Follows a batch of texts and says each one's next bias.

    A row that goes on from another (beams, a batch that was reordered) takes over its state; one
    that was never seen is read from its beginning.

    Parameters
    ----------
    scheme
        Green lists.
    schedule
        Biases by state.
    special_ids
        Ids that never count.
    """

    def __init__(
        self, scheme: Scheme, schedule: Schedule, special_ids: Collection[int] = ()
    ) -> None:
        self._scheme, self._schedule = scheme, schedule
        self._special = np.zeros(scheme.vocab_size, bool)
        self._special[[i for i in special_ids if 0 <= i < scheme.vocab_size]] = True
        self._seen: Ids
        self._forget(0)

    @property
    def state(self) -> tuple[Ids, Ids]:
        """Tokens scored and greens of each row, in its present block."""
        return self._scored.copy(), self._greens.copy()

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
        for end in range(known + 1, length + 1):
            self._add(texts[:, :end])
        self._seen = np.array(texts)
        if length < self._scheme.context_width:  # the next token will not count either
            return np.zeros(rows)
        return self._schedule(self._scored, self._greens)

    def _forget(self, rows: int) -> None:
        """Begin anew."""
        self._seen = np.zeros((rows, 0), np.int64)
        self._scored: Ids = np.zeros(rows, np.int64)
        self._greens: Ids = np.zeros(rows, np.int64)
        self._pairs: Ids = np.zeros(rows, np.int64)  # (seed, token) pairs met so far
        self._seeds = np.zeros((rows, _ROOM), np.uint64)
        self._tokens = np.zeros((rows, _ROOM), np.uint32)

    def _goes_on(self, before: Ids) -> bool:
        """Put the states in the order of these beginnings; False if one of them is new."""
        if before.shape[0] == self._seen.shape[0] and np.array_equal(before, self._seen):
            return True
        places = {row.tobytes(): place for place, row in enumerate(self._seen)}
        order = [places.get(row.tobytes(), -1) for row in np.ascontiguousarray(before)]
        if -1 in order:
            return False
        for name in ("_scored", "_greens", "_pairs", "_seeds", "_tokens"):
            setattr(self, name, getattr(self, name)[order])
        return True

    def _add(self, texts: Ids) -> None:
        """Score the last token of each text."""
        h, last = self._scheme.context_width, texts.shape[1] - 1
        if last < h:
            return
        tokens = texts[:, last]
        inside = (tokens >= 0) & (tokens < self._scheme.vocab_size)
        window = texts[:, last - h : last]
        inside &= ((window >= 0) & (window < self._scheme.vocab_size)).all(axis=1)
        rows = np.flatnonzero(inside & ~self._special[np.where(inside, tokens, 0)])
        chosen = tokens[rows].astype(np.uint32)
        seeds, green = self._scheme.colours(window[rows], chosen)
        used = int(self._pairs.max(initial=0))
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
        self._scored[rows] += 1
        self._greens[rows] += green
        over = self._scored == self._schedule.n_tokens  # the next token begins a new block
        self._scored[over] = self._greens[over] = 0
