"""Detection while text arrives: evidence that may be looked at after any token."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import open_unit, token_ids
from powermark.errors import InvalidInput, SpecMismatch
from powermark.statistics.p_values import bets
from powermark.watermark.tracker import Counting
from powermark.watermark.watermark import Watermark


class StreamDetector:
    """A detector that takes a text as it arrives, a token or a chunk at a time.

    The work per token does not grow with the text. ``log_e`` is the present evidence, ``max_log_e``
    its maximum so far; ``detected`` is True once that has reached ``log(1/alpha)``.

    Parameters
    ----------
    mark
        The mark to look for.
    alpha
        Probability of ever calling an unmarked stream marked.
    gamma_prime
        Green rate to bet on; the plan's bet by default.
    special_ids
        Ids that never count.
    copied
        Whether the ids are those of a copied text, whose first token may have lost the blank
        before it: it then neither counts nor is a context.
    """

    def __init__(
        self,
        mark: Watermark,
        *,
        alpha: float,
        gamma_prime: float | None = None,
        special_ids: Collection[int] = (),
        copied: bool = False,
    ) -> None:
        self.alpha = float(open_unit("alpha", alpha))
        spec, self._scheme = mark.spec, mark.scheme
        self._rate = spec.bet if gamma_prime is None else gamma_prime
        self._bets = np.array(bets(spec.gamma, self._rate)[::-1])
        self._digest, self._special_ids = spec.digest, sorted(special_ids)
        self._copied = copied
        self._counting = Counting(self._scheme, special_ids, skipped=max(spec.skipped, copied))
        self._ids = np.empty(64, np.int64)
        self.tokens = self.scored = self.green = 0
        self.log_e = self.max_log_e = 0.0
        self.detected_at: int | None = None

    @property
    def detected(self) -> bool:
        """Whether the evidence has ever reached 1/alpha."""
        return self.detected_at is not None

    def feed(self, ids: ArrayLike) -> Self:
        """Take the next token ids, in order."""
        new = np.atleast_1d(token_ids("ids", ids)).astype(np.int64)
        if new.size == 0:
            return self
        if int(new.max()) >= self._scheme.vocab_size:
            raise SpecMismatch(
                f"the spec is for token ids below {self._scheme.vocab_size}; got {new.max()}."
            )
        h = self._scheme.context_width
        places = np.arange(max(self.tokens, self._counting.first), self.tokens + new.size)
        self._keep(new)
        windows = self._ids[places[:, None] + np.arange(-h, 1)]
        counted, colours = self._counting.count(np.zeros(places.size, np.int64), windows)
        path = self.log_e + np.cumsum(self._bets[colours.astype(np.int64)])
        if path.size:
            self.log_e = float(path[-1])
            self.max_log_e = max(self.max_log_e, float(path.max()))
            reached = np.flatnonzero(path >= -np.log(self.alpha))
            if reached.size and self.detected_at is None:
                self.detected_at = int(places[counted[reached[0]]]) + 1
        self.scored += int(colours.size)
        self.green += int(colours.sum())
        return self

    def _keep(self, new: np.ndarray[Any, Any]) -> None:
        end = self.tokens + new.size
        if end > self._ids.size:
            self._ids = np.concatenate([self._ids, np.empty(2 * end - self._ids.size, np.int64)])
        self._ids[self.tokens : end] = new
        self.tokens = end

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON: the tokens so far, and no secret."""
        return {
            "spec": self._digest,
            "alpha": self.alpha,
            "gamma_prime": self._rate,
            "special_ids": self._special_ids,
            "copied": self._copied,
            "ids": self._ids[: self.tokens].tolist(),
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any], mark: Watermark) -> Self:
        """Resume from the state of :meth:`to_dict`, with the same mark."""
        try:
            digest, ids = state["spec"], state["ids"]
            options = {name: state[name] for name in ("alpha", "gamma_prime", "special_ids")}
            options["copied"] = state.get("copied", False)  # missing in 0.1
        except (KeyError, TypeError):
            raise InvalidInput("this is not the state of a stream detector.") from None
        own = mark.spec.digest
        if digest != own:
            raise SpecMismatch(f"the stream was begun with the spec {digest}; got {own}.")
        return cls(mark, **options).feed(ids)
