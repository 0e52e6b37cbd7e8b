"""The tokens of texts: which count (:mod:`powermark.counting`), and which of them are green."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark import counting
from powermark.checks import Array, Ids, Mask, token_ids
from powermark.counting import NO_CONTEXT, PADDING, PROMPT, REPEATED, SCORED, SPECIAL
from powermark.errors import InvalidInput, SpecMismatch
from powermark.statistics import text_kernels as kernels
from powermark.watermark.scheme import Scheme

REASONS = {
    SCORED: "scored",
    NO_CONTEXT: "no context",
    REPEATED: "repeated",
    SPECIAL: "special",
    PADDING: "padding",
}


@dataclass(frozen=True, slots=True)
class Scores:
    """The tokens of one or more texts, end to end: text i has positions offsets[i]:offsets[i+1].

    ``state`` is a key of REASONS; ``green`` is False where a token has no colour.
    """

    ids: Ids
    offsets: Ids
    state: NDArray[np.uint8]
    green: Mask

    @property
    def texts(self) -> int:
        """Number of texts."""
        return self.offsets.size - 1

    @property
    def scored(self) -> Ids:
        """Number of tokens that count, per text."""
        return self.count(SCORED)

    @property
    def greens(self) -> Ids:
        """Number of green tokens among those that count, per text."""
        return self._sums(self.green & (self.state == SCORED))

    def count(self, state: int) -> Ids:
        """Number of tokens in a state, per text."""
        return self._sums(self.state == state)

    def colours(self, text: int = 0) -> Mask:
        """Return the colours of a text's tokens that count, in their order."""
        span = slice(self.offsets[text], self.offsets[text + 1])
        return np.asarray(self.green[span][self.state[span] == SCORED])

    def positions(self, text: int = 0) -> Ids:
        """Return where in a text the tokens that count are."""
        span = slice(self.offsets[text], self.offsets[text + 1])
        return np.flatnonzero(self.state[span] == SCORED)

    def first_greens(self, n: int) -> Array:
        """Return the greens among each text's first n tokens that count; nan where it has fewer."""
        counted = np.flatnonzero(self.state == SCORED)
        sums = np.concatenate([[0], np.cumsum(self.green[counted])])
        starts = np.searchsorted(counted, self.offsets[:-1])
        enough = self.scored >= n
        ends = np.where(enough, starts + n, starts)
        return np.where(enough, sums[ends] - sums[starts], np.nan)

    def first_colours(self, n: int) -> Mask:
        """Return the colours of each text's first n tokens that count, (texts, n).

        Texts with fewer are left out.
        """
        counted = np.flatnonzero(self.state == SCORED)
        starts = np.searchsorted(counted, self.offsets[:-1])[self.scored >= n]
        return np.asarray(self.green[counted[starts[:, None] + np.arange(n)]])

    def _sums(self, marks: Mask) -> Ids:
        return np.asarray(kernels.sums(marks, self.offsets))


def score(
    scheme: Scheme,
    texts: Sequence[ArrayLike] | NDArray[np.integer],
    *,
    prompts: Sequence[ArrayLike] | None = None,
    masks: Sequence[ArrayLike] | None = None,
    skip: ArrayLike = 0,
    special_ids: Collection[int] = (),
) -> Scores:
    """Colour the tokens of a batch of texts and say which of them count.

    Parameters
    ----------
    texts
        Token ids, one sequence a text, of any lengths.
    prompts
        Ids that stood before each text. Its first tokens then have a context; without them
        ``context_width`` tokens are lost.
    masks
        False where a text has padding, as a tokenizer's attention mask.
    skip
        Tokens at the beginning of each text, or of all, that neither count nor are a context: 1
        for a copied text, which may have lost the blank before its first word.
    special_ids
        Ids that never count: begin, end, padding, and other control tokens.
    """
    h, none = scheme.context_width, np.zeros(0, np.int64)
    rows = [_ids(text) for text in texts]
    tails, present = [none] * len(rows), [np.ones(row.size, bool) for row in rows]
    if prompts is not None:
        tails = [_ids(prompt)[max(0, len(prompt) - h) :] for prompt in prompts]  # type: ignore[arg-type]
    if masks is not None:
        present = [np.asarray(mask, bool) for mask in masks]
    for name, others in (("prompts", tails), ("masks", present)):
        if len(others) != len(rows):
            raise InvalidInput(f"{name} must be one per text, {len(rows)}; got {len(others)}.")
    for row, mask in zip(rows, present, strict=True):
        if row.shape != mask.shape:
            raise InvalidInput(f"a mask must have its text's {row.size} entries; got {mask.size}.")
    pairs = list(zip(tails, rows, strict=True))
    sizes = [tail.size + row.size for tail, row in pairs]
    known = [np.ones(tail.size, bool) for tail in tails]
    return score_flat(
        scheme,
        np.concatenate([none, *chain.from_iterable(pairs)]),
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        prompts=np.array([tail.size for tail in tails], np.int64),
        present=np.concatenate(
            [none.astype(bool), *chain.from_iterable(zip(known, present, strict=True))]
        ),
        skip=skip,
        special_ids=special_ids,
    )


def score_flat(
    scheme: Scheme,
    ids: Ids,
    offsets: Ids,
    *,
    prompts: Ids | None = None,
    present: Mask | None = None,
    skip: ArrayLike = 0,
    special_ids: Collection[int] = (),
) -> Scores:
    """As :func:`score`, for texts that lie end to end: text i is ids[offsets[i] to [i+1]].

    It begins with the last ``prompts[i]`` ids of its prompt; ``present`` is False at padding.
    """
    prompts = np.zeros(offsets.size - 1, np.int64) if prompts is None else prompts
    present = np.ones(ids.size, bool) if present is None else present
    real, size = ids[present], scheme.vocab_size
    if real.size and not (int(real.min()) >= 0 and int(real.max()) < size):
        raise SpecMismatch(
            f"the spec is for token ids below {size}; the text has "
            f"{real.min() if real.min() < 0 else real.max()}.",
            hint="was it tokenised with the tokenizer that the spec is for?",
        )
    skipped, h = np.broadcast_to(np.asarray(skip, np.int64), prompts.shape), scheme.context_width
    special = scheme.id_mask(special_ids)[np.where(present, ids, 0)]
    found = counting.states(special, present, offsets, prompts, skipped, h)
    places = np.flatnonzero(found == SCORED)
    tokens = ids[places].astype(np.uint32)
    seeds, green = scheme.colours(ids[places[:, None] - np.arange(h, 0, -1)], tokens)
    counting.mark_repeats(found, places, offsets, seeds, tokens)
    colours = np.zeros(ids.size, bool)
    colours[places] = green
    if prompts.any():
        kept = found != PROMPT
        ids, found, colours = ids[kept], found[kept], colours[kept]
        offsets = offsets - np.concatenate([[0], np.cumsum(prompts)])
    return Scores(ids=ids, offsets=offsets, state=found, green=colours)


def _ids(values: ArrayLike) -> Ids:
    ids = np.asarray(values)
    if ids.ndim != 1:
        raise InvalidInput(f"a text must be a row of token ids; got shape {ids.shape}.")
    if ids.dtype == np.int64:
        return ids
    return token_ids("token ids", ids).astype(np.int64)
