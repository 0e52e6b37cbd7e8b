"""Which tokens count, and which of them are green.

A token counts once it has a whole context, is no special token, and is the first of its text with
its seed and id (v2 of *Three Bricks to Consolidate Watermarks*, Fernandez et al., 2023, on seeds
in place of contexts: two contexts with one seed share their list, so a second look at it would
bring no evidence of its own). Under H0 the colours that count are then independent, each green
with probability gamma, and the green count is exactly Binomial.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark.checks import Array
from powermark.detection import kernels
from powermark.detection.kernels import NO_CONTEXT, PADDING, PROMPT, REPEATED, SCORED, SPECIAL
from powermark.errors import InvalidInput, SpecMismatch
from powermark.watermark.hashing import token_ids
from powermark.watermark.scheme import Mask, Scheme

REASONS = {
    SCORED: "scored",
    NO_CONTEXT: "no context",
    REPEATED: "repeated",
    SPECIAL: "special",
    PADDING: "padding",
}
Ids = NDArray[np.int64]


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
    special_ids
        Ids that never count: begin, end, padding, and other control tokens.
    """
    h = scheme.context_width
    rows = [_ids(text) for text in texts]
    tails = [_ids(p)[max(0, len(p) - h) :] for p in prompts] if prompts is not None else []  # type: ignore[arg-type]
    present = [np.asarray(mask, bool) for mask in masks] if masks is not None else []
    for name, others in (("prompts", tails), ("masks", present)):
        if others and len(others) != len(rows):
            raise InvalidInput(f"{name} must be one per text, {len(rows)}; got {len(others)}.")
    for row, mask in zip(rows, present, strict=False):
        if row.shape != mask.shape:
            raise InvalidInput(f"a mask must have its text's {row.size} entries; got {mask.size}.")
    if not present:
        present = [np.ones(row.size, bool) for row in rows]
    lengths = np.array([tail.size for tail in tails] or [0] * len(rows), np.int64)
    if tails:
        rows = [both for pair in zip(tails, rows, strict=True) for both in pair]
        ones = [np.ones(tail.size, bool) for tail in tails]
        present = [both for pair in zip(ones, present, strict=True) for both in pair]
    sizes = np.array([row.size for row in rows], np.int64)
    if tails:
        sizes = sizes[0::2] + sizes[1::2]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = np.concatenate([np.zeros(0, np.int64), *rows])
    return _score(scheme, ids, np.concatenate([np.zeros(0, bool), *present]), offsets, lengths,
                  special_ids)  # fmt: skip


def score_flat(
    scheme: Scheme, ids: Ids, offsets: Ids, *, special_ids: Collection[int] = ()
) -> Scores:
    """As :func:`score`, for texts that lie end to end: text i is ids[offsets[i] to [i+1]]."""
    no_prompts = np.zeros(offsets.size - 1, np.int64)
    return _score(scheme, ids, np.ones(ids.size, bool), offsets, no_prompts, special_ids)


def _score(
    scheme: Scheme,
    ids: Ids,
    present: Mask,
    offsets: Ids,
    prompts: Ids,
    special_ids: Collection[int],
) -> Scores:
    """Score texts that lie end to end, each behind the last ids of its prompt."""
    size, h = scheme.vocab_size, scheme.context_width
    real = ids[present]
    if real.size and not (int(real.min()) >= 0 and int(real.max()) < size):
        raise SpecMismatch(
            f"the spec is for token ids below {size}; the text has "
            f"{real.min() if real.min() < 0 else real.max()}.",
            hint="was it tokenised with the tokenizer that the spec is for?",
        )
    special = np.zeros(size, bool)
    special[[token for token in special_ids if 0 <= token < size]] = True
    found = kernels.states(np.where(present, ids, 0), present, offsets, prompts, h, special)
    positions = np.flatnonzero(found == SCORED)
    contexts = ids[positions[:, None] - np.arange(h, 0, -1)]
    tokens = ids[positions].astype(np.uint32)
    seeds, green = scheme.colours(contexts, tokens)
    kernels.mark_repeats(found, positions, offsets, seeds, tokens)
    colours = np.zeros(ids.size, bool)
    colours[positions] = green
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
