"""What a detector will find: its power and size at a length, and the length that it needs."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from powermark.detection.evalue import bets
from powermark.detection.result import Kind
from powermark.detection.windows import WindowTest
from powermark.errors import Infeasible, InvalidInput
from powermark.theory.power import binomial_tail, critical_count
from powermark.theory.required_length import required_length
from powermark.watermark.spec import WatermarkSpec

ENOUGH_POWER = 0.8  # below, finding nothing means nothing
_LONGEST_WALK = 20_000  # tokens of a simulated walk of evidence
_LONGEST_WINDOWED = 1_000  # tokens of a text that a window detector's power is simulated for
_LENGTHS = 4_096  # of which power and size are kept; a detector may live for long
_DRAWS = 2_000  # marked texts simulated for the power of a window or e-value detector


class Foresight:
    """Power and size of one kind of detector that tries some keys; kept once computed.

    ``power_at`` and ``size_at`` take the number of counted tokens.
    """

    def __init__(
        self, spec: WatermarkSpec, detector: Kind, alpha: float, gamma_prime: float, keys: int
    ) -> None:
        self._gamma, self._rate, self._schedule = spec.gamma, gamma_prime, spec.schedule
        self._detector, self._alpha, self._keys = detector, alpha, keys
        self._level = alpha / keys
        self.power_at = lru_cache(maxsize=_LENGTHS)(self._power_at)
        self.size_at = lru_cache(maxsize=_LENGTHS)(self._size_at)

    def _size_at(self, n: int) -> float:
        if self._detector != "count":
            return self._alpha
        k = critical_count(max(n, 1), self._gamma, self._level)
        one = float(binomial_tail(max(n, 1), k, self._gamma)) if n else 0.0
        return float(-np.expm1(self._keys * np.log1p(-one)))

    def _power_at(self, n: int) -> float:
        if n == 0 or self._rate <= self._gamma:
            return 0.0
        if self._detector == "count":
            k = int(critical_count(n, self._gamma, self._level))
            if self._schedule is not None:
                return self._schedule.power(n, k)
            return float(binomial_tail(n, k, self._rate))
        rng = np.random.default_rng(n)
        if self._detector == "evalue":
            return self._evalue_power(min(n, _LONGEST_WALK), rng)
        # a longer text has more power, and a search takes time in the square of its length
        test = WindowTest(self._detector, min(n, _LONGEST_WINDOWED), self._gamma)
        return test.power(self._rate, self._level, draws=_DRAWS, rng=rng, schedule=self._schedule)

    def diluted_power(self, n: int, foreign: float) -> float | None:
        """Power on a steered text of which a share is foreign; None where it is not known."""
        if self._detector != "count" or self._schedule is None:
            return None
        k = int(critical_count(n, self._gamma, self._level))
        return self._schedule.diluted_power(n, k, foreign)

    def _evalue_power(self, n: int, rng: np.random.Generator) -> float:
        """Simulate walks of n tokens, some at a time; a longer text only has more power."""
        up, down = bets(self._gamma, self._rate)
        reached, part = 0, 100
        for _ in range(_DRAWS // part):
            if self._schedule is None:
                green = rng.random((part, n)) < self._rate
            else:
                green = self._schedule.draw(part, n, rng)
            steps = np.where(green, up, down)
            reached += int((np.cumsum(steps, axis=1).max(axis=1) >= -np.log(self._level)).sum())
        return reached / _DRAWS

    @cached_property
    def tokens_needed(self) -> int | None:
        """Counted tokens with which the count finds four marked texts in five; None for others."""
        if self._detector != "count":
            return None
        if self._schedule is not None:
            return self._schedule.tokens_needed(self._level, ENOUGH_POWER)
        try:
            return required_length(self._gamma, self._rate, self._level, ENOUGH_POWER)
        except (Infeasible, InvalidInput):
            return None
