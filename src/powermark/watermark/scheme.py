"""Schemes: they colour tokens after contexts, and bias the logits of green ones.

``Scheme`` is the interface; ``Pm1`` is powermark's own scheme. Those of other tools are in
:mod:`powermark.watermark.compat`.

A *context* is the ``context_width`` token ids before a token, oldest first. Arrays are rows: one
context, one token or one row of logits each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import ArrayLike, NDArray

from powermark.checks import Array, Ids, Mask, count, open_unit, token_ids
from powermark.errors import InvalidInput
from powermark.watermark import hash_kernels as kernels
from powermark.watermark.hashing import Seeds, Words
from powermark.watermark.keys import SecretKey
from powermark.watermark.threads import over_rows

Logits = NDArray[np.float32]
Rows = Ids  # contexts; their ids are checked where they are hashed


class Scheme(ABC):
    """A keyed rule that colours each (context, token), for one gamma and one vocabulary.

    A scheme of one's own is a subclass with the methods that are abstract here: colours of tokens,
    masks of whole lists, and the bias on logits.

    Parameters
    ----------
    gamma, vocab_size, context_width
        Green share, number of token ids, and tokens before one that choose its list.
    """

    name: str

    def __init__(self, *, gamma: float, vocab_size: int, context_width: int) -> None:
        self.gamma = float(open_unit("gamma", gamma))
        self.vocab_size = int(count("vocab_size", vocab_size))
        self.context_width = int(count("context_width", context_width, at_least=0))

    def are_green(self, contexts: ArrayLike, tokens: ArrayLike) -> Mask:
        """Whether each token is green after its context; (rows, h), (rows,) -> (rows,)."""
        return self.colours(contexts, tokens)[1]

    def colours(self, contexts: ArrayLike, tokens: ArrayLike) -> tuple[Seeds, Mask]:
        """Return the seed of each token's green list, and whether the token is on it.

        Equal seed and token mean the same draw, whatever the contexts were: it tells a detector
        which tokens bring evidence of their own.
        """
        rows, ids = self._rows(contexts), token_ids("tokens", tokens)
        if ids.shape != rows.shape[:1]:
            raise InvalidInput(
                f"tokens must be one per context, shape {rows.shape[:1]}; got shape {ids.shape}."
            )
        return self._colours(rows, ids)

    def green_masks(self, contexts: ArrayLike) -> Mask:
        """Return the green list of each context as a mask; (rows, h) -> (rows, vocab_size)."""
        return self._green_masks(self._rows(contexts))

    def add_bias(
        self,
        logits: Logits,
        contexts: ArrayLike,
        deltas: ArrayLike,
        *,
        out: Logits | None = None,
    ) -> Logits:
        """Add a bias per row to the green logits: in place, or into ``out``.

        Parameters
        ----------
        logits
            (rows, width), float32, also a view with strides; width may exceed ``vocab_size``
            (padded embeddings), and the columns beyond are left alone.
        contexts
            (rows, context_width) token ids.
        deltas
            One bias per row, or one for all; a row with 0 is not marked.
        out
            Array like ``logits`` to write to; ``logits`` is then only read.
        """
        rows = self._rows(contexts)
        for array in (logits, logits if out is None else out):
            if array.dtype != np.float32 or array.ndim != 2:
                raise InvalidInput(
                    f"logits must be float32 rows; got {array.dtype}, shape {array.shape}."
                )
            if array.shape != logits.shape:
                raise InvalidInput(f"out must have shape {logits.shape}; got {array.shape}.")
        if logits.shape[0] != rows.shape[0] or logits.shape[1] < self.vocab_size:
            raise InvalidInput(
                f"logits must have a row per context ({rows.shape[0]}) and at least "
                f"{self.vocab_size} columns, one per token id; got shape {logits.shape}."
            )
        biases = np.empty(rows.shape[0], np.float32)
        biases[:] = deltas
        self._add_bias(logits, rows, biases, out)
        return logits if out is None else out

    def id_mask(self, ids: Collection[int]) -> Mask:
        """Return a mask of some ids over the vocabulary; ids outside it are left out."""
        mask = np.zeros(self.vocab_size, bool)
        mask[[token for token in ids if 0 <= token < self.vocab_size]] = True
        return mask

    def __reduce__(self) -> str:
        raise InvalidInput(
            "a scheme holds its key and is not pickled, so that no file gets it by accident.",
            hint="make it anew where it is needed, from the spec and the key.",
        )

    def _rows(self, contexts: ArrayLike) -> Rows:
        ids = np.asarray(contexts)
        if ids.ndim != 2 or ids.shape[1] != self.context_width:
            raise InvalidInput(
                f"contexts must be rows of {self.context_width} token ids; got shape {ids.shape}."
            )
        if ids.dtype != np.int64:
            ids = token_ids("contexts", ids).astype(np.int64)
        return np.ascontiguousarray(ids)

    @abstractmethod
    def _colours(self, contexts: Rows, tokens: Words) -> tuple[Seeds, Mask]: ...

    @abstractmethod
    def _green_masks(self, contexts: Rows) -> Mask: ...

    @abstractmethod
    def _add_bias(
        self, logits: Logits, contexts: Rows, deltas: Logits, out: Logits | None
    ) -> None: ...


def threshold(gamma: float) -> np.uint32:
    """Return ``floor(gamma * 2^32)``: the realised green share is this over 2^32, at most gamma."""
    return np.uint32(float(open_unit("gamma", gamma)) * 2.0**32)


class Pm1(Scheme):
    """Green lists as a pure function of key, context and gamma; see ``docs/pm1.md``.

    SipHash of the context, three multiplications per token. A token is green after a context iff
    its 32 mixed bits are below ``gamma * 2^32``: O(1), independent for each (context, token), the
    same on every machine, and without drawing a list.
    """

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


def measure_bias(logits: Logits, marked: Logits) -> Array:
    """Return KL(marked || original), green mass and green rate of rows; (rows, width) -> (rows, 3).

    From the two rows of logits alone, by definition: nothing of the mark is assumed but that it
    raises green tokens. Tokens with a logit of minus infinity are not there.
    """
    out = np.empty((logits.shape[0], 3))
    rows = (np.ascontiguousarray(logits), np.ascontiguousarray(marked), out)
    over_rows(lambda first, last: kernels.measure_bias(*rows, first, last), *logits.shape)
    return out
