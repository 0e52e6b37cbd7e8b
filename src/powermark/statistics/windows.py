"""WinMax and WinMax-C: detectors for texts that are marked in part.

WinMax (Kirchenbauer et al., 2024) takes the largest z-score of any window; WinMax-C (the paper's
appendix) the largest z-score left after one contiguous block is removed. Neither has a normal law
under H0. Here the law of the iid Bernoulli(gamma) process is simulated, once per detector, length
and gamma, and kept on disk. A p-value is ``(1 + r) / (1 + draws)``; as one table serves many texts,
decisions use an upper confidence limit of r / draws in its place, so that a table which happens to
be too lenient is rare (one in a thousand). Levels too small for the simulation, and very long
texts, are served by a union bound over exact binomial tails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from powermark.checks import Array, Mask, count, open_unit, unit
from powermark.errors import InvalidInput
from powermark.signals.edits import block_length
from powermark.statistics import null_tables
from powermark.statistics import text_kernels as kernels
from powermark.steering.schedule import Schedule
from powermark.theory.power import binomial_tail

Kind = Literal["winmax", "winmax-c"]
SHORTEST = 20  # tokens of the shortest window; fewer can be all green by chance at any gamma
ENOUGH = 20  # null draws beyond a threshold that make its size trustworthy
LONGEST = 5_000  # tokens up to which the null is simulated
_DOUBT = 1e-3  # probability that a simulated null is more lenient than it says
_BATCH = 4_000_000  # colours drawn at a time
_WIDTHS = 65_536  # widths of windows bounded at a time
_LEAST = 1e-200  # below which tails may be too small to be held


@dataclass(frozen=True, slots=True)
class Window:
    """The window that gives a statistic: of the counted tokens, ``start`` to ``stop``.

    For WinMax-C it is the block that was removed.
    """

    statistic: float
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """Reject when the statistic is above ``value``.

    ``size`` is simulated where there are enough draws, and else an upper bound.

    ``value`` is None where no test of this level exists: even the largest value that the statistic
    can have is too likely, and ``size`` is its probability.
    """

    value: float | None
    size: float

    def rejects(self, statistics: Array) -> Mask:
        """Return which statistics are above the threshold; none where no test exists."""
        return np.asarray(statistics > (np.inf if self.value is None else self.value))


@dataclass(frozen=True)
class WindowTest:
    """A window detector at one length and gamma.

    Parameters
    ----------
    kind
        ``"winmax"`` or ``"winmax-c"``.
    n_tokens, gamma
        Tokens that count, and the green share.
    smallest, largest
        Tokens in a window (WinMax) or in the removed block (WinMax-C). By default windows have 20
        tokens or more, and blocks none to half of the text.
    draws, seed
        Of the simulated law under H0.
    keep
        Whether the simulated law is kept on disk, for other processes.
    """

    kind: Kind
    n_tokens: int
    gamma: float
    smallest: int | None = None
    largest: int | None = None
    draws: int | None = None
    seed: int = 0
    keep: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"kind must be one of {get_args(Kind)}; got {self.kind!r}.")
        n = int(count("n_tokens", self.n_tokens))
        open_unit("gamma", self.gamma)
        low, high = (min(SHORTEST, n), n) if self.kind == "winmax" else (0, n // 2)
        low = low if self.smallest is None else self.smallest
        high = high if self.largest is None else self.largest
        first, last = (1, n) if self.kind == "winmax" else (0, n - 1)
        if not first <= low <= high <= last:
            raise InvalidInput(
                f"smallest and largest must be in order between {first} and {last}; "
                f"got {low} and {high}."
            )
        object.__setattr__(self, "smallest", low)
        object.__setattr__(self, "largest", high)
        if self.draws is None:
            object.__setattr__(self, "draws", int(np.clip(4_000_000 // n, 1_999, 99_999)))

    @property
    def _complement(self) -> bool:
        return self.kind == "winmax-c"

    def statistic(self, colours: ArrayLike) -> Window:
        """Return the largest z-score and the window or block it comes from."""
        marks = np.asarray(colours, bool)
        if marks.shape != (self.n_tokens,):
            raise InvalidInput(f"colours must be {self.n_tokens}; got shape {marks.shape}.")
        sums = np.concatenate([[0], np.cumsum(marks)]).astype(np.int32)
        spread = kernels.deviations(self.n_tokens, self.gamma)
        z, width = kernels.best_window(
            sums, self.gamma, self._complement, self.smallest, self.largest, spread
        )
        where = kernels.where_smallest if self._complement else kernels.where_largest
        start = where(sums, width)
        return Window(float(z), int(start), int(start + width))

    def statistics(self, colours: ArrayLike) -> Array:
        """Return the statistic of each row of colours; (rows, n_tokens) -> (rows,)."""
        return np.asarray(
            kernels.statistics(
                np.asarray(colours, bool),
                self.gamma,
                self._complement,
                self.smallest,
                self.largest,
            )
        )

    @cached_property
    def null(self) -> Array:
        """The simulated statistics under H0, ascending; from disk if they were made before."""
        return _null(self)

    def p_value(self, statistic: ArrayLike) -> Array:
        """``(1 + r) / (1 + draws)``, r draws being at or above the statistic: valid on average."""
        return np.asarray((1.0 + self._above(statistic)) / (1.0 + self.null.size))

    def p_safe(self, statistic: ArrayLike) -> Array:
        """An upper limit of the p-value that all but one simulated null in a thousand respect."""
        return self._limit(self._above(statistic))

    def _limit(self, above: Array) -> Array:
        """Upper confidence limit of the p-value of a statistic with this many draws above it."""
        rest = np.maximum(self.null.size - above, 1e-9)
        return np.where(rest < 1.0, 1.0, special.betaincinv(above + 1.0, rest, 1.0 - _DOUBT))

    def _above(self, statistic: ArrayLike) -> Array:
        found = self.null.size - np.searchsorted(self.null, statistic, side="left")
        return np.asarray(found, np.float64)

    def p_bound(self, statistic: float) -> float:
        """An upper bound of the p-value that simulates nothing, for levels below 1/draws.

        The sum over all windows of their exact binomial tails; at most 1, and never 0.
        """
        assert self.smallest is not None
        assert self.largest is not None
        total = 0.0
        for first in range(self.smallest, self.largest + 1, _WIDTHS):
            widths = np.arange(first, min(first + _WIDTHS, self.largest + 1), dtype=np.float64)
            total += self._tails_of(widths, statistic)
            if total >= 1.0:
                return 1.0
        return max(total, _LEAST)

    def _tails_of(self, widths: Array, statistic: float) -> float:
        """Return the expected number of windows of these widths with such a statistic, under H0."""
        lengths = self.n_tokens - widths if self._complement else widths
        places = np.where(widths > 0, self.n_tokens - widths + 1.0, 1.0)
        spread = np.sqrt(lengths * self.gamma * (1.0 - self.gamma))
        # one less than it could be where rounding decides, which only makes the bound larger
        needed = np.ceil(lengths * self.gamma + statistic * spread - 1e-9)
        tails = binomial_tail(lengths, np.maximum(needed, 0.0), self.gamma)
        return float((places * tails).sum())

    def supports(self, alpha: float) -> bool:
        """Whether a simulation is worth it, and has enough draws for a test of this level."""
        return self.n_tokens <= LONGEST and alpha * (1.0 + float(self.draws or 0)) >= ENOUGH

    def threshold(self, alpha: float) -> Threshold:
        """Return the value above which the test rejects at level ``alpha``, and its size."""
        return _threshold(self, float(open_unit("alpha", alpha)))

    def _threshold(self, alpha: float) -> Threshold:
        """Return the threshold; :meth:`threshold` keeps it."""
        if not self.supports(alpha):
            return self._bounded_threshold(alpha)
        ranks = np.arange(np.ceil(alpha * self.null.size) + 1.0)  # a limit is above rank / draws
        allowed = int(np.searchsorted(self._limit(ranks), alpha, side="right")) - 1
        value = float(self.null[max(self.null.size - 1 - allowed, 0)])
        exists = value < self._top * (1.0 - 1e-12)
        side: Literal["left", "right"] = "right" if exists else "left"
        above = int(self.null.size - np.searchsorted(self.null, value, side=side))
        return Threshold(value if exists else None, above / self.null.size)

    @property
    def _top(self) -> float:
        """The statistic of a text that is all green: none can be larger."""
        smallest, largest = self.smallest or 0, self.largest or 0
        longest = self.n_tokens - smallest if self._complement else largest
        return float(np.sqrt(longest * (1.0 - self.gamma) / self.gamma))

    def _bounded_threshold(self, alpha: float) -> Threshold:
        """Return the threshold by the union bound; its true size is below the one stated."""
        at_top = self.p_bound(self._top)
        if at_top > alpha:
            return Threshold(None, at_top)
        low, high = 0.0, self._top
        while high - low > 1e-6:
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.p_bound(middle) <= alpha else (middle, high)
        return Threshold(float(np.nextafter(high, 0.0)), self.p_bound(high))

    def power(
        self, gamma_prime: ArrayLike, alpha: float, *, removal: float = 0.0, **options: Any
    ) -> float:
        """Share of marked texts that the test detects, as by :meth:`powers`."""
        return self.powers(gamma_prime, alpha, (removal,), **options)[0]

    def powers(
        self,
        gamma_prime: ArrayLike,
        alpha: float,
        removals: Sequence[float],
        *,
        weights: ArrayLike | None = None,
        context_width: int = 0,
        draws: int = 20_000,
        rng: np.random.Generator | None = None,
        schedule: Schedule | None = None,
    ) -> list[float]:
        """Shares of marked texts that the test detects after each removal, simulated.

        ``gamma_prime`` is the green rate, or one for each step of several texts, (texts, n_tokens);
        each draw takes one text, by their ``weights``. This share of each text, in one block at a
        uniform place, is replaced by unmarked tokens, and the ``context_width`` tokens after it
        lose their mark. A ``schedule`` replaces ``gamma_prime``.
        """
        bound = self.threshold(alpha).value
        if bound is None:
            return [0.0 for _ in removals]
        rng = rng or np.random.default_rng(self.seed)
        n, found = self.n_tokens, np.zeros(len(removals))
        rates = np.atleast_2d(unit("gamma_prime", gamma_prime))
        chances = None if weights is None else np.asarray(weights) / np.sum(weights)
        blocks = [int(block_length(n, removal)) for removal in removals]
        search = (self.gamma, self._complement, self.smallest, self.largest, bound)
        for rows in _batches(draws, n):
            text = rng.choice(len(rates), rows, p=chances)
            places, numbers = rng.random(rows), rng.random((rows, n), np.float32)
            marked = numbers if schedule is None else ~schedule.draw(rows, n, rng)
            for which, block in enumerate(blocks):
                starts = np.floor(places * (n - block + 1)).astype(np.int64)
                stops = np.where(block, starts + block + context_width, starts)
                texts = (marked, numbers, rates, text, starts, stops)
                found[which] += rows * kernels.share_above(*texts, *search)
        return list(found / draws)


def _batches(draws: int, n: int) -> list[int]:
    size = max(1, _BATCH // n)
    return [min(size, draws - first) for first in range(0, draws, size)]


@lru_cache(maxsize=64)
def _threshold(test: WindowTest, alpha: float) -> Threshold:
    return test._threshold(alpha)


@lru_cache(maxsize=64)
def _null(test: WindowTest) -> Array:
    """Return the table of a test: from disk, or simulated and saved."""
    name = (
        f"{test.kind}-{test.n_tokens}-{test.gamma.hex()}-{test.smallest}-{test.largest}-"
        f"{test.draws}-{test.seed}"
    )
    found = null_tables.load(name)
    if found is None:
        found = _simulated(test)
        if test.keep:
            null_tables.save(name, found)
    return found


def _simulated(test: WindowTest) -> Array:
    rng = np.random.default_rng([test.seed, test.n_tokens, test.kind == "winmax"])
    assert test.draws is not None
    rows = _batches(test.draws, test.n_tokens)
    draws = (test.statistics(rng.random((size, test.n_tokens)) < test.gamma) for size in rows)
    return np.sort(np.concatenate(list(draws)))
