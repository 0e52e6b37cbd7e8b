"""The power and size of a detector at a length, and the length that it needs."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from powermark.errors import Infeasible, InvalidInput
from powermark.planning.request import Detector as Kind
from powermark.signals.spread import Spread
from powermark.statistics.evalue import EvalueTest
from powermark.statistics.windows import WindowTest
from powermark.theory.power import binomial_tail, critical_count
from powermark.theory.required_length import required_length
from powermark.watermark.spec import WatermarkSpec

ENOUGH_POWER = 0.8  # below, finding nothing means nothing
_LONGEST_WALK = 20_000  # tokens that the e-value's power is computed for
_LONGEST_WINDOWED = 1_000  # tokens of a text that a window detector's power is simulated for
_LENGTHS = 4_096  # whose power and size are cached
_TEXTS = 20  # green rates that represent all texts, where texts differ
_SETTLED = 4  # iterations for the length that is needed
_DRAWS = 2_000  # marked texts simulated for the power of a window detector, or on a steered text


class DetectorPower:
    """Power and size of one or more tests that try some keys, cached by length.

    ``power_at`` and ``size_at`` take the number of counted tokens. The power of several tests is
    that of the best one at its share of alpha, a lower bound. ``bet`` is the green rate that the
    e-value bets on.
    """

    def __init__(
        self,
        spec: WatermarkSpec,
        detectors: tuple[Kind, ...],
        alpha: float,
        gamma_prime: float,
        keys: int,
        *,
        bet: float,
    ) -> None:
        self._gamma, self._rate, self._schedule = spec.gamma, gamma_prime, spec.schedule
        self.bet = bet
        self._spread = _spread_of(spec, gamma_prime)
        self._detectors, self._alpha, self._keys = detectors, alpha, keys
        self._level = alpha / (keys * len(detectors))
        self.power_at = lru_cache(maxsize=_LENGTHS)(self._power_at)
        self.size_at = lru_cache(maxsize=_LENGTHS)(self._size_at)

    def _size_at(self, n: int) -> float:
        if self._detectors != ("count",):
            return self._alpha
        k = critical_count(max(n, 1), self._gamma, self._level)
        one = float(binomial_tail(max(n, 1), k, self._gamma)) if n else 0.0
        return float(-np.expm1(self._keys * np.log1p(-one)))

    def _power_at(self, n: int) -> float:
        if n == 0 or self._rate <= self._gamma:
            return 0.0
        return max(self._power_of(detector, n) for detector in self._detectors)

    def _power_of(self, detector: Kind, n: int) -> float:
        if detector == "count":
            k = int(critical_count(n, self._gamma, self._level))
            if self._schedule is not None:
                return self._schedule.power(n, k)
            return self._spread.power(n, k)
        rng = np.random.default_rng(n)
        if detector == "evalue":
            return self._evalue_power(min(n, _LONGEST_WALK), rng)
        # a longer text has more power, and a search takes time in the square of its length
        test = WindowTest(detector, min(n, _LONGEST_WINDOWED), self._gamma)
        each = self._spread.text_rates(test.n_tokens, _TEXTS)[:, None]
        rates = np.broadcast_to(each, (each.size, test.n_tokens))
        return test.power(rates, self._level, draws=_DRAWS, rng=rng, schedule=self._schedule)

    def diluted_power(self, n: int, foreign: float) -> float | None:
        """Power on a steered text with a foreign share; None where it is not known."""
        if "count" not in self._detectors or self._schedule is None:
            return None
        k = int(critical_count(n, self._gamma, self._level))
        return self._schedule.diluted_power(n, k, foreign)

    def _evalue_power(self, n: int, rng: np.random.Generator) -> float:
        """Exact for a constant bias, simulated for a steered one; longer texts have more power."""
        test = EvalueTest(n, self._gamma, self.bet)
        if self._schedule is None:
            rates = self._spread.text_rates(n, _TEXTS)[:, None]
            return float(test.powers(rates, self._level).mean())
        threshold, reached, part = test.threshold(self._level), 0, 100
        for _ in range(_DRAWS // part):  # some at a time, for the memory
            colours = self._schedule.draw(part, n, rng)
            reached += int(threshold.rejects(test.statistics(colours)).sum())
        return reached / _DRAWS

    @cached_property
    def tokens_needed(self) -> int | None:
        """Counted tokens with which the count finds four marked texts in five; None for others."""
        if "count" not in self._detectors:
            return None
        if self._schedule is not None:
            return self._schedule.tokens_needed(self._level, ENOUGH_POWER)
        try:
            rate, inflation = self._rate, 1.0
            for _ in range(_SETTLED):  # the moments are those of the length that is looked for
                n = required_length(self._gamma, rate, self._level, ENOUGH_POWER, inflation)
                rate, inflation = self._spread.moments(n)
            return n
        except (Infeasible, InvalidInput):
            return None


def _spread_of(spec: WatermarkSpec, gamma_prime: float) -> Spread:
    """Return how marked texts vary: as the plan says, or not at all around another green rate."""
    plan = spec.plan
    if plan is not None and plan.spread and gamma_prime == plan.gamma_prime:
        return Spread.from_list(plan.spread)
    return Spread(np.array([2.0]), np.array([gamma_prime]), np.zeros(1))
