"""Counts of texts while they are written: tokens scored so far, and how many are green.

A detector does not see the prompt, so the first ``context_width`` tokens of a text do not count,
nor those that the schedule skips. The schedule chooses the next bias from the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Array, Ids, Mask
from powermark.errors import EngineProblem
from powermark.steering.schedule import Schedule
from powermark.watermark.scheme import Scheme


class Counting:
    """Which tokens count, and their colours, in texts that grow: a row each, of any length.

    A token costs the same however long its text is. A text's tokens from place ``first`` on are
    counted, in order; their prompt is not known.

    Parameters
    ----------
    scheme
        Green lists.
    special_ids
        Ids that never count.
    skipped
        Tokens at the beginning of each text that neither count nor are a context.
    rows
        Number of texts.
    """

    def __init__(
        self, scheme: Scheme, special_ids: Collection[int] = (), *, skipped: int = 0, rows: int = 1
    ) -> None:
        self._scheme, self._special = scheme, scheme.id_mask(special_ids)
        self._met: list[set[int]] = [set() for _ in range(rows)]  # (seed, token) pairs
        self.first = scheme.context_width + skipped

    def clear(self, row: int) -> None:
        """Begin a new text in a row."""
        self._met[row] = set()

    def reorder(self, order: NDArray[np.integer] | list[int]) -> None:
        """Give each row the state of the row that ``order`` names."""
        self._met = [set(self._met[row]) for row in order]

    def copy(self) -> Self:
        """Return an independent copy."""
        other = copy(self)
        other.reorder(np.arange(len(self._met)))
        return other

    def count(self, rows: NDArray[np.integer], windows: Ids) -> tuple[Ids, Mask]:
        """Return which of the next tokens count, and their colours.

        Windows are (tokens, context_width + 1), a token of each row behind its context. Ids
        outside the vocabulary (of padded logits) never count, nor serve as context.
        """
        inside = ((windows >= 0) & (windows < self._scheme.vocab_size)).all(axis=1)
        kept = np.flatnonzero(inside & ~self._special[np.where(inside, windows[:, -1], 0)])
        tokens = windows[kept, -1].astype(np.uint32)
        seeds, green = self._scheme.colours(windows[kept, :-1], tokens)
        pairs = zip(rows[kept].tolist(), seeds.tolist(), tokens.tolist(), strict=True)
        new = np.array([self._is_new(*pair) for pair in pairs], bool)
        return kept[new], green[new]

    def _is_new(self, row: int, seed: int, token: int) -> bool:
        """Remember a pair; return whether it is new to its text."""
        met, pair = self._met[row], seed << 32 | token  # a token has 32 bits
        new = pair not in met
        met.add(pair)
        return new


class Counts(Counting):
    """The states of many texts, a row each, of any lengths.

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
        super().__init__(scheme, special_ids, skipped=schedule.skipped, rows=rows)
        self._schedule = schedule
        self.scored: Ids = np.zeros(rows, np.int64)
        self.greens: Ids = np.zeros(rows, np.int64)
        self.read: Ids = np.zeros(rows, np.int64)  # tokens of each text that were read so far

    def clear(self, row: int) -> None:
        """Begin a text at a row, which may be a new one."""
        if row >= self.scored.size:
            self.reorder(np.arange(2 * row + 1) % self.scored.size)
        super().clear(row)
        self.scored[row] = self.greens[row] = self.read[row] = 0

    def reorder(self, order: NDArray[np.integer] | list[int]) -> None:
        """Give each row the state of the row that ``order`` names."""
        super().reorder(order)
        self.scored, self.greens = self.scored[order], self.greens[order]
        self.read = self.read[order]

    def deltas(self, rows: NDArray[np.integer] | slice = slice(None)) -> Array:
        """Return the bias of each row's next token."""
        return self._schedule(self.scored[rows], self.greens[rows])

    def catch_up(
        self,
        rows: NDArray[np.integer],
        lengths: NDArray[np.integer],
        windows_at: Callable[[Ids, Ids], Ids],
    ) -> None:
        """Count each row's tokens up to its length: one round a new token.

        A text that became shorter is counted again from its beginning: its tokens were taken back.

        Parameters
        ----------
        rows, lengths
            The texts, and how many tokens each has.
        windows_at
            From places in ``rows`` and the place of a token in each text, to (texts,
            context_width + 1) ids: the token behind its context.
        """
        for row in rows[self.read[rows] > lengths]:
            self.clear(int(row))
        while True:
            tokens = np.maximum(self.read[rows], self.first)
            behind = np.flatnonzero(tokens < lengths)
            if behind.size == 0:
                return
            self._add(rows[behind], windows_at(behind, tokens[behind]))
            self.read[rows[behind]] = tokens[behind] + 1

    def _add(self, rows: NDArray[np.integer], windows: Ids) -> None:
        """Score one token a row."""
        counted, green = self.count(rows, windows)
        self.scored[rows[counted]] += 1
        self.greens[rows[counted]] += green
        over = self.scored == self._schedule.n_tokens  # the next token begins a new block
        self.scored[over] = self.greens[over] = 0


class Tracker:
    """Follows a batch of texts of one length and says each one's next bias.

    The ids of the first call are the prompt, which does not count. A row that goes on from another
    (beams, a batch that was reordered) takes over its state; a new one beside such rows is read
    from the end of the prompt. Texts may also go back, as in speculative decoding, where drafted
    tokens are taken back. Any other texts begin with a new prompt. Texts that take turns are
    refused.

    Parameters
    ----------
    scheme, schedule, special_ids
        As for :class:`Counts`.
    one_prompt
        Whether all calls are about the same prompt; a call about another one is then refused.
    """

    def __init__(
        self,
        scheme: Scheme,
        schedule: Schedule,
        special_ids: Collection[int] = (),
        *,
        one_prompt: bool = False,
    ) -> None:
        self._about = scheme, schedule, special_ids
        self._width, self._prompt, self._one_prompt = scheme.context_width, 0, one_prompt
        self._room: Ids = np.zeros((0, 0), np.int64)  # the latest call's ids, and space for more
        self._known = 0  # ids of a text in there
        self._counts = Counts(*self._about)
        self._left: tuple[int, Ids] = 0, self._room  # prompt and ids of the texts before these
        self._kept: tuple[Ids, Counts] | None = None  # texts of the latest step back, their counts

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
        origins = self._origins(texts)
        same = origins == list(range(self._room.shape[0]))
        back = max(origins, default=-1) == -1 and self._follows(
            texts, self._prompt, self._room[:, : self._known]
        )
        if back:
            self._go_back(texts)
        elif -1 in origins:
            if max(origins) == -1:
                self._begin(texts)
            self._counts = Counts(*self._about, rows=rows)
        elif not same:
            self._counts.reorder(origins)
        written = length - self._prompt
        back_to_here = np.arange(self._prompt - self._width, self._prompt + 1)
        self._counts.catch_up(
            np.arange(rows),
            np.full(rows, written),
            lambda which, tokens: texts[which[:, None], tokens[:, None] + back_to_here],
        )
        if back:
            self._kept = texts.copy(), self._counts.copy()
        self._remember(texts, self._known if same else 0)
        if written < self._counts.first:  # the next token will not count either
            return np.zeros(rows)
        return self._counts.deltas()

    def _begin(self, texts: Ids) -> None:
        """Take all ids of a call for the prompt."""
        if self._room.shape[0]:
            longer = texts.shape[1] > self._left[0]  # than a prompt that comes again
            if self._one_prompt or (longer and self._follows(texts, *self._left)):
                raise EngineProblem(
                    "the engine shows a steered mark another text than the one it began with, so "
                    "the mark cannot follow its count.",
                    hint="use a spec without steering, or another way to generate.",
                )
            self._left = self._prompt, self._room[:, : self._known]
        self._prompt, self._kept = texts.shape[1], None

    def _follows(self, texts: Ids, prompt: int, seen: Ids) -> bool:
        """Whether texts go on from a part of others, whose later tokens were taken back.

        They must begin with the same prompt. Where prompts may change they must also be parts of
        the others up to their last token, which is new: so verified drafts continue.
        """
        length = texts.shape[1]
        shared = prompt if self._one_prompt else max(prompt, length - 1)
        alike = texts.shape[0] == seen.shape[0] and shared <= min(length, seen.shape[1])
        return alike and np.array_equal(texts[:, :shared], seen[:, :shared])

    def _go_back(self, texts: Ids) -> None:
        """Return to the state of the latest step back, or to the prompt."""
        if self._kept is not None:
            ids, counts = self._kept
            if np.array_equal(texts[:, : ids.shape[1]], ids):
                self._counts = counts.copy()
                return
        self._counts = Counts(*self._about, rows=texts.shape[0])

    def _origins(self, texts: Ids) -> list[int]:
        """Return the row of the latest call that each text continues, or -1."""
        if texts.shape[1] <= self._known:
            return [-1] * texts.shape[0]
        before, seen = texts[:, : self._known], self._room[:, : self._known]
        if np.array_equal(before, seen):
            return list(range(seen.shape[0]))
        places = {row.tobytes(): place for place, row in enumerate(seen)}
        return [places.get(row.tobytes(), -1) for row in before]

    def _remember(self, texts: Ids, first: int) -> None:
        """Keep the ids from ``first`` on; the others are kept already."""
        rows, length = texts.shape
        if first == 0 or length > self._room.shape[1]:
            self._room, first = np.empty((rows, 2 * length), np.int64), 0
        self._room[:, first:length] = texts[:, first:]
        self._known = length
