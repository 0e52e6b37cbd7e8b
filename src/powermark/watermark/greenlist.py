"""Scheme ``pm1``: green lists as a pure function of key, context and gamma.

A token is green after a context iff its 32 mixed bits are below ``gamma * 2^32``. Membership is
O(1), independent for each (context, token), the same on every machine, and draws no list.
"""

from __future__ import annotations

import numpy as np

from powermark.checks import open_unit
from powermark.watermark import kernels
from powermark.watermark.hashing import Seeds, Words
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Logits, Mask, Scheme
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

    def _seeds(self, contexts: Words) -> Seeds:
        k0, k1 = self.siphash_key
        return np.asarray(kernels.siphash(np.uint64(k0), np.uint64(k1), contexts))

    def _are_green(self, contexts: Words, tokens: Words) -> Mask:
        return np.asarray(kernels.are_green(self._seeds(contexts), tokens, self.threshold))

    def _green_masks(self, contexts: Words) -> Mask:
        return np.asarray(
            kernels.green_masks(self._seeds(contexts), self.vocab_size, self.threshold)
        )

    def _add_bias(
        self, logits: Logits, contexts: Words, deltas: Logits, out: Logits | None
    ) -> None:
        seeds = self._seeds(contexts)

        def part(rows: slice) -> None:
            if out is None:
                kernels.add_bias(
                    logits[rows], seeds[rows], deltas[rows], self.vocab_size, self.threshold
                )
            else:
                kernels.write_bias(
                    logits[rows],
                    out[rows],
                    seeds[rows],
                    deltas[rows],
                    self.vocab_size,
                    self.threshold,
                )

        over_rows(part, *logits.shape)
