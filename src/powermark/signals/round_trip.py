"""Which tokens of recorded texts a detector counts, and which of them carry the mark's signal.

A step that repeats an earlier token after an earlier context is left out: a detector does not count
it, and in marked text it is unlike other steps, because loops persist where their tokens are green.

A reader has the text, not the ids: a copy stripped of surrounding blanks, in which tokenising again
may change some ids. A position carries its step's signal only if its token and the
``context_width`` tokens before it are the sampled ones; elsewhere a token is green with probability
gamma.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from powermark import counting
from powermark.counting import NO_CONTEXT, SCORED


@dataclass(frozen=True, eq=False)
class RoundTrip:
    """The texts of a profile after a round trip: decoded, stripped and tokenised again.

    Parameters
    ----------
    text, ids
        (tokens,) the number of the text that a token belongs to, and its id.
    step
        (tokens,) the profile's step that sampled it; -1 if the tokenizer chose another token.
    returns
        (steps,) bits: 1 if a step's id comes back from the exact text, 2 if it comes back from the
        prompt and the text together.
    """

    text: NDArray[np.int32]
    ids: NDArray[np.int32]
    step: NDArray[np.int32]
    returns: NDArray[np.uint8]

    def shares(self) -> dict[str, float]:
        """Share of the sampled ids that come back from a copy, and from the exact text."""
        return {
            "copy": float((self.step >= 0).sum() / self.returns.size),
            "text": float((self.returns & 1 > 0).mean()),
            "behind_prompt": float((self.returns & 2 > 0).mean()),
        }

    def positions(self, context_width: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return text and step of each token that a detector counts; -1 where it has no signal.

        The first token of a copy may have lost the blank before it, so it is neither counted nor
        used as context.
        """
        h = context_width
        counted = np.flatnonzero(_states(self.ids, self.text, h, skip=1) == SCORED)
        steps = self.step[counted[:, None] - np.arange(h + 1)].astype(np.int64)
        whole = (steps[:, 0] >= 0) & (steps == steps[:, :1] - np.arange(h + 1)).all(axis=1)
        return self.text[counted], np.where(whole, steps[:, 0], -1)

    def of_texts(self, texts: NDArray[np.int32], kept: NDArray[np.bool_]) -> RoundTrip:
        """Return the round trip of some texts, whose steps are ``kept``, (steps,)."""
        mine = np.isin(self.text, texts)
        places = np.append(np.cumsum(kept) - 1, -1)
        step = places[self.step[mine]].astype(np.int32)
        return RoundTrip(self.text[mine], self.ids[mine], step, self.returns[kept])


def counted_steps(
    ids: NDArray[np.int32], text: NDArray[np.int32], context_width: int
) -> NDArray[np.bool_]:
    """Return which sampled tokens count; those at the start have their context in the prompt."""
    return np.isin(_states(ids, text, context_width), (SCORED, NO_CONTEXT))


def _states(
    ids: NDArray[np.int32], text: NDArray[np.int32], context_width: int, *, skip: int = 0
) -> NDArray[np.uint8]:
    """Return the state of each token, as defined in :mod:`powermark.counting`."""
    offsets = np.append(np.flatnonzero(np.diff(text, prepend=text[:1] - 1)), ids.size)
    none, nothing = np.zeros(offsets.size - 1, np.int64), np.zeros(ids.size, bool)
    found = counting.states(nothing, ~nothing, offsets, none, none + skip, context_width)
    places = np.flatnonzero(found == SCORED)
    seeds = np.zeros(places.size, np.uint64)
    for back in range(1, context_width + 1):  # equal contexts, and only they, get equal numbers
        pairs = seeds << 32 | ids[places - back].astype(np.uint32)
        seeds = np.unique(pairs, return_inverse=True)[1].astype(np.uint64)
    counting.mark_repeats(found, places, offsets, seeds, ids[places].astype(np.uint32))
    return np.asarray(found)
