"""Scheme ``pm1``: green lists as a pure function of key, context and gamma.

A token is green after a context iff its 32 mixed bits are below ``gamma * 2^32``. Membership is
O(1), independent for each (context, token), the same on every machine, and draws no list.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from powermark.checks import open_unit
from powermark.watermark import kernels
from powermark.watermark.hashing import Seeds, Words, token_ids
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Logits, Mask, Rows, Scheme
from powermark.watermark.threads import over_rows


def threshold(gamma: float) -> np.uint32:
    """Return ``floor(gamma * 2^32)``: the realised green share is this over 2^32, at most gamma."""
    return np.uint32(float(open_unit("gamma", gamma)) * 2.0**32)


class Pm1(Scheme):
    """SipHash of the context, three multiplications per token; see ``docs/pm1.md``."""

    name = "pm1"

    def __init__(
        self, key: SecretKey, *, gamma: float, vocab_size: int, context_width: int
    ) -> None:
        super().__init__(gamma=gamma, vocab_size=vocab_size, context_width=context_width)
        self.siphash_key = key.siphash_key
        self.threshold = threshold(gamma)
        self._k0, self._k1 = (np.uint64(half) for half in self.siphash_key)

    def _seeds(self, contexts: Rows) -> Seeds:
        seeds: Seeds = kernels.siphash(self._k0, self._k1, contexts)
        if seeds.size < contexts.shape[0]:
            token_ids("contexts", contexts)  # says which
        return seeds

    def _colours(self, contexts: Rows, tokens: Words) -> tuple[Seeds, Mask]:
        seeds = self._seeds(contexts)
        return seeds, np.asarray(kernels.are_green(seeds, tokens, self.threshold))

    def _green_masks(self, contexts: Rows) -> Mask:
        return np.asarray(
            kernels.green_masks(self._seeds(contexts), self.vocab_size, self.threshold)
        )

    def _add_bias(self, logits: Logits, contexts: Rows, deltas: Logits, out: Logits | None) -> None:
        arrays = (logits,) if out is None else (logits, out)
        kernel: Callable[..., None] = kernels.add_bias if out is None else kernels.write_bias
        given = (*arrays, self._seeds(contexts), deltas, self.vocab_size, self.threshold)
        over_rows(lambda first, last: kernel(*given, first, last), *logits.shape)
