"""Evidence that may be looked at any time: an e-process, for whole texts and for streams.

    E_t = prod (g'/g)^I ((1 - g')/(1 - g))^(1 - I)        g = gamma, g' = gamma_prime

is a martingale with mean 1 under H0, so ``P0(E_t >= 1/alpha for some t) <= alpha`` (Ville, 1939):
one may stop whenever one likes. Under the mark log E grows by the plug-in KL per token: the nats
that were spent are the nats of evidence that are gained.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import Array, in_interval, open_unit
from powermark.detection import kernels
from powermark.errors import InvalidInput, SpecMismatch
from powermark.theory.green_rate import gamma_prime as plug_in_rate
from powermark.watermark.embed import scheme_of
from powermark.watermark.hashing import token_ids
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import WatermarkSpec

_NEAR_ONE = 1.0 - 1e-6  # a bet that a red token can never come would lose everything on the first


def planned_rate(spec: WatermarkSpec) -> float:
    """Return gamma_prime of the spec's plan; without one its schedule's mean, or the plug-in's."""
    if spec.design is not None and isinstance(spec.design.get("gamma_prime"), float):
        return float(spec.design["gamma_prime"])
    schedule = spec.schedule
    if schedule is not None:
        n = schedule.n_tokens
        return float(schedule.law(n) @ np.arange(n + 1)) / n
    return float(plug_in_rate(spec.gamma, spec.delta))


def log_e_path(colours: ArrayLike, gamma: float, gamma_prime: float) -> Array:
    """Return log E_t after each token that counts."""
    up, down = bets(gamma, gamma_prime)
    return np.cumsum(np.where(np.asarray(colours, bool), up, down))


def bets(gamma: float, gamma_prime: float) -> tuple[float, float]:
    """Return what a green and a red token add to log E."""
    g = float(open_unit("gamma", gamma))
    rate = min(float(in_interval("gamma_prime", gamma_prime, g, 1.0, closed="high")), _NEAR_ONE)
    return float(np.log(rate / g)), float(np.log1p(-rate) - np.log1p(-g))


class StreamDetector:
    """A detector that is fed as text arrives, a token or a chunk at a time.

    The work per token does not grow with the text. ``log_e`` is the evidence now, ``max_log_e`` the
    most so far; ``detected`` from when that first reached ``log(1/alpha)``.

    Parameters
    ----------
    spec, key
        The mark to look for.
    alpha
        Probability of ever calling an unmarked stream marked.
    gamma_prime
        Green rate to bet on; the plan's by default.
    special_ids
        Ids that never count.
    """

    def __init__(
        self,
        spec: WatermarkSpec,
        key: SecretKey | HashKey,
        *,
        alpha: float,
        gamma_prime: float | None = None,
        special_ids: Collection[int] = (),
    ) -> None:
        self.alpha = float(open_unit("alpha", alpha))
        self._scheme = scheme_of(spec, key)
        self._rate = planned_rate(spec) if gamma_prime is None else gamma_prime
        self._bets = np.array(bets(spec.gamma, self._rate)[::-1])
        self._special = np.isin(np.arange(spec.vocab_size), list(special_ids))
        self._digest, self._special_ids = spec.digest, sorted(special_ids)
        self._ids = np.empty(64, np.int64)
        self._seen = kernels.new_pairs(64)  # type: ignore[no-untyped-call]
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
        h, before = self._scheme.context_width, self.tokens
        self._keep(new)
        first = max(before, h)
        places = np.arange(first, self.tokens)
        places = places[~self._special[self._ids[places]]]
        contexts = self._ids[places[:, None] - np.arange(h, 0, -1)]
        tokens = self._ids[places].astype(np.uint32)
        seeds, green = self._scheme.colours(contexts, tokens)
        if 2 * (self.scored + places.size) > self._seen[0].size:
            room = 4 * (self.scored + places.size)
            self._seen = kernels.grown_pairs(self._seen, room)  # type: ignore[no-untyped-call]
        used, kept_seeds, kept_tokens = self._seen
        fresh = kernels.add_pairs(used, kept_seeds, kept_tokens, seeds, tokens)
        colours = green[fresh]
        path = self.log_e + np.cumsum(self._bets[colours.astype(np.int64)])
        if path.size:
            self.log_e = float(path[-1])
            self.max_log_e = max(self.max_log_e, float(path.max()))
            reached = np.flatnonzero(path >= -np.log(self.alpha))
            if reached.size and self.detected_at is None:
                self.detected_at = int(places[fresh][reached[0]]) + 1
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
            "ids": self._ids[: self.tokens].tolist(),
        }

    @classmethod
    def from_dict(
        cls, state: dict[str, Any], spec: WatermarkSpec, key: SecretKey | HashKey
    ) -> Self:
        """Take up where :meth:`to_dict` left off, with the same spec and key."""
        try:
            digest, ids = state["spec"], state["ids"]
            options = {name: state[name] for name in ("alpha", "gamma_prime", "special_ids")}
        except (KeyError, TypeError):
            raise InvalidInput("this is not the state of a stream detector.") from None
        if digest != spec.digest:
            raise SpecMismatch(f"the stream was begun with the spec {digest}; got {spec.digest}.")
        return cls(spec, key, **options).feed(ids)
