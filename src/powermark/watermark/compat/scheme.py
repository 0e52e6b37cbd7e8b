"""The five schemes of other tools as a :class:`~powermark.watermark.scheme.Scheme`.

``context_width`` counts the ids *before* the token here as everywhere in powermark. Selfhash in
the other tools counts the token too: their 4 is our 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from powermark.checks import Mask, token_ids
from powermark.errors import InvalidInput
from powermark.watermark.compat import seeds
from powermark.watermark.compat.permutation import add_to_first, are_among_first, first_entries
from powermark.watermark.hashing import Seeds, Words
from powermark.watermark.keys import HashKey
from powermark.watermark.scheme import Logits, Rows, Scheme


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a scheme seeds its lists; ``candidates`` if the token itself takes part."""

    seeds: Callable[[seeds.Integers, int], Words]
    context_width: int
    candidates: int | None = None
    any_width: bool = False

    def check(self, name: str, context_width: int) -> None:
        """Refuse a context width that the scheme cannot have."""
        least = 0 if self.candidates else 1
        fixed = context_width != self.context_width and not self.any_width
        if context_width < least or fixed:
            allowed = f"{least} or more" if self.any_width else self.context_width
            raise InvalidInput(f"context_width of {name} must be {allowed}; got {context_width}.")


COMPAT_SCHEMES = {
    "kgw-lefthash": _Rule(seeds.lefthash, 1),
    "kgw-minhash": _Rule(seeds.minhash, 4, any_width=True),
    "kgw-selfhash": _Rule(
        lambda grams, key: seeds.selfhash(grams, key, seeds.KGW_TABLE_SEED), 3, 41, any_width=True
    ),
    "hf-lefthash": _Rule(seeds.lefthash, 1),
    "hf-selfhash": _Rule(lambda grams, key: seeds.selfhash(grams, key, key), 0, 40, any_width=True),
}


class Compat(Scheme):
    """A green list of exactly ``int(vocab_size * gamma)`` ids, drawn as another tool draws it.

    Selfhash colours a token by a list that depends on the token itself. Marking with it biases the
    greens among the 41 (KGW) or 40 (HF) likeliest candidates only, so the closed forms of a plan
    do not describe it.
    """

    def __init__(
        self,
        name: str,
        key: HashKey,
        *,
        gamma: float,
        vocab_size: int,
        context_width: int | None = None,
    ) -> None:
        self.name = name
        self._rule = COMPAT_SCHEMES[name]
        self._key = key
        width = self._rule.context_width if context_width is None else context_width
        super().__init__(gamma=gamma, vocab_size=vocab_size, context_width=width)
        self._rule.check(name, width)
        self.list_size = int(self.vocab_size * self.gamma)

    def _seeds(self, grams: Rows) -> Words:
        token_ids("contexts", grams)
        return self._rule.seeds(grams.astype(np.int64), self._key.value)

    def _colours(self, contexts: Rows, tokens: Words) -> tuple[Seeds, Mask]:
        if tokens.size and int(tokens.max()) >= self.vocab_size:
            raise InvalidInput(
                f"tokens must be below vocab_size = {self.vocab_size}; got {tokens.max()}."
            )
        if self._rule.candidates:
            drawn = self._seeds(np.column_stack([contexts, tokens]))
        else:
            drawn = self._seeds(contexts)
        order = np.argsort(drawn, kind="stable")  # equal seeds share their draws
        green = np.empty(tokens.size, np.bool_)
        green[order] = are_among_first(drawn[order], self.vocab_size, self.list_size, tokens[order])
        return drawn.astype(np.uint64), green

    def _green_masks(self, contexts: Rows) -> Mask:
        masks = np.zeros((contexts.shape[0], self.vocab_size), np.bool_)
        if self._rule.candidates:
            everything = np.arange(self.vocab_size, dtype=np.uint32)
            for row, context in enumerate(contexts):
                repeated = np.broadcast_to(context, (self.vocab_size, context.size))
                masks[row] = self._colours(repeated, everything)[1]
        else:
            lists = first_entries(self._seeds(contexts), self.vocab_size, self.list_size)
            np.put_along_axis(masks, lists.astype(np.int64), True, axis=1)
        return masks

    def _add_bias(self, logits: Logits, contexts: Rows, deltas: Logits, out: Logits | None) -> None:
        target = logits if out is None else out
        if out is not None:
            np.copyto(out, logits)
        if self._rule.candidates is None:
            drawn = self._seeds(contexts)
            add_to_first(target, drawn, self.vocab_size, self.list_size, deltas)
            return
        best = _likeliest(logits[:, : self.vocab_size], self._rule.candidates)
        rows = np.repeat(contexts, best.shape[1], axis=0)
        green = self._colours(rows, best.ravel().astype(np.uint32))[1].reshape(best.shape)
        bias = np.where(green, deltas[:, None], np.float32(0.0))
        np.put_along_axis(target, best, np.take_along_axis(target, best, axis=1) + bias, axis=1)


def _likeliest(logits: Logits, candidates: int) -> seeds.Integers:
    """Return the ids of each row's largest logits."""
    size = min(candidates, logits.shape[1])
    return np.asarray(np.argpartition(logits, -size, axis=1)[:, -size:])
