"""Plans for a window detector: the least KL with which it finds texts, whole or with a block lost.

A plan for the count must pay for the replaced block with more signal everywhere else. WinMax-C can
leave the block out, so a mark that turns nearly every token green at a large gamma does as well for
less. The power of such a test has no closed form: texts are drawn from the signal, with the same
random numbers for every design, so that the simulated power rises with delta as the true one does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from powermark.checks import Array
from powermark.errors import Infeasible
from powermark.planning.design import Design
from powermark.planning.request import Answer, Request
from powermark.planning.solver import least_enough, on_grid
from powermark.signals.edits import Edits
from powermark.signals.signal import MAX_DELTA, SignalModel
from powermark.statistics.windows import Kind, WindowTest
from powermark.theory.power import beta_total

_GRID = 500  # gammas that are compared are multiples of 1 / 500
_COARSE, _FINE, _LIKELY = 10, 2, 6  # strides of the search on few texts; how many are tried on all
_ROUGH = 5_000  # draws of the null while designs are compared
_DRAWS, _FINAL = 4_000, 20_000  # marked texts drawn to compare designs, and for what is reported
_TEXTS = 500  # rates of a Beta law
_PRECISION = MAX_DELTA / 2**14  # of delta
_ROUGHLY = 8 * _PRECISION  # while gammas are compared on few texts
_SPARE = 2.0  # standard errors of the simulated power that the chosen delta has to spare


def solve(request: Request) -> Answer:
    """Return the constant mark of least KL with the requested power by a window detector."""
    n, alpha = request.n_tokens, request.alpha
    assert n is not None
    assert alpha is not None
    test = WindowTest(_kind(request), n, 0.5)
    quick = replace(test, draws=min(_ROUGH, test.draws or _ROUGH))
    alike = quick.supports(alpha) == test.supports(alpha)
    some = replace(request, signal=request.signal.representative())
    few = _Search(some, draws=quick.draws if alike else None)
    coarse = few.cheapest(range(_COARSE // 2, _GRID, _COARSE))[0]
    likely = few.cheapest(range(coarse - _COARSE, coarse + _COARSE + 1, _FINE))[:_LIKELY]
    # the likely ones on all texts, with the null of the detector itself, and what is beside them
    every = _Search(request, few=few)
    best = every.cheapest(likely)[0]
    place = every.cheapest(range(best - 1, best + 2))[0]
    delta, kl = every.tried[place]
    if kl == np.inf:
        raise Infeasible(
            f"no design reaches power {request.power:g}, and "
            f"{request.attacked_power or request.power:g} with a share of "
            f"{request.edits.removal:g} replaced, by {request.detector} with n_tokens = {n}, "
            f"alpha = {alpha:g}.",
            hint="allow a smaller removal, more tokens or less power.",
        )
    return Answer(gamma=float(on_grid(place / _GRID)), delta=delta, n_tokens=n, alpha=alpha)


def window_fields(request: Request, design: Design) -> dict[str, Any]:
    """Return the fields of a plan for windows that differ from the count's.

    The powers are shares of ``draws`` simulated texts, which are not those that chose the design.
    """
    test = WindowTest(_kind(request), design.n_tokens, design.gamma, keep=False)
    found = window_powers(test, design.alpha, request.signal, design.delta, request.edits)
    fields: dict[str, Any] = {
        "size": test.threshold(design.alpha).size,
        "power": found.whole,
        "attacked_power": found.edited,
        "draws": _FINAL,
    }
    if design.standard_errors is not None:
        fields["standard_errors"] = design.standard_errors | found.errors()
    return fields


def _kind(request: Request) -> Kind:
    return "winmax" if request.detector == "winmax" else "winmax-c"


class WindowPowers(NamedTuple):
    """Powers by a window detector on whole and edited texts, and how many texts they rest on."""

    whole: float
    edited: float
    texts: float

    def errors(self) -> dict[str, float]:
        """Standard errors at most, from the texts' number alone: each has a power from 0 to 1."""
        named = {"power": self.whole, "attacked_power": self.edited}
        return {k: float(np.sqrt(p * (1.0 - p) / self.texts)) for k, p in named.items()}


def window_powers(
    test: WindowTest,
    alpha: float,
    signal: SignalModel,
    delta: float,
    edits: Edits,
    *,
    draws: int = _FINAL,
    seed: int = 1,
) -> WindowPowers:
    """Return a design's powers by a window detector, simulated on whole and on edited texts."""
    rates, weights = rates_of(signal, test.n_tokens, test.gamma, delta)
    whole, edited = test.powers(
        rates,
        alpha,
        (0.0, edits.removal or 0.0),
        weights=weights,
        context_width=edits.context_width,
        draws=draws,
        rng=np.random.default_rng(seed),
    )
    texts = np.inf if weights is None else weights.sum() ** 2 / (weights**2).sum()
    return WindowPowers(whole, edited, float(texts))


def rates_of(
    signal: SignalModel, n_tokens: int, gamma: float, delta: float
) -> tuple[Array, Array | None]:
    """Return green rates of texts, (texts, steps), and the texts' weights.

    A signal that knows no texts, but how much they vary, has rates of a Beta law.
    """
    each = signal.text_rates(gamma, np.array([delta]), n_tokens)
    if each is not None:
        rates, weights, kept = each
        return np.where(kept, rates[..., 0], gamma), weights
    rate = signal.green_rate(gamma, delta)
    c = signal.variance_inflation(n_tokens, gamma, delta)
    if c <= 1.0 + 1e-9 or rate >= 1.0:
        return rate, None
    alike = beta_total(n_tokens, c)
    places = (np.arange(_TEXTS) + 0.5) / _TEXTS
    drawn = special.betaincinv(rate * alike, (1.0 - rate) * alike, places)
    return np.asarray(drawn, np.float64)[:, None], None


class _Search:
    """The least bias of each gamma of a grid, for one request; those that were found are kept.

    A search over all texts takes what one over few texts found, ``few``, for a first guess.
    """

    def __init__(self, request: Request, *, few: _Search | None = None, draws: int | None = None):
        self.request, self.few, self.draws = request, few, draws
        self.precision = _ROUGHLY if few is None else _PRECISION
        self.tried: dict[int, tuple[float, float]] = {}

    def _try(self, place: int) -> None:
        """Find the least bias at a gamma of the grid, and its KL; inf if there is none."""
        gamma = float(on_grid(place / _GRID))
        delta = self.least_bias(gamma, self._near(place))
        kl = float(self.request.signal.kl(gamma, delta)) if delta < np.inf else np.inf
        self.tried[place] = delta, kl

    def cheapest(self, places: Iterable[int]) -> list[int]:
        """Return all gammas that were tried, these among them, from the cheapest."""
        for place in places:
            if 0 < place < _GRID and place not in self.tried:
                self._try(place)
        return sorted(self.tried, key=lambda each: self.tried[each][1])

    def _near(self, place: int) -> float:
        """Return the bias of the nearest gamma that has one."""
        known = self.tried | (self.few.tried if self.few is not None else {})
        finite = {at: delta for at, (delta, _) in known.items() if delta < np.inf}
        return finite[min(finite, key=lambda at: abs(at - place))] if finite else 1.0

    def test(self, gamma: float) -> WindowTest:
        """Return the detector at a gamma; of many that are tried one will be used."""
        n = self.request.n_tokens
        assert n is not None
        return WindowTest(_kind(self.request), n, gamma, draws=self.draws, keep=False)

    def least_bias(self, gamma: float, near: float) -> float:
        """Return the least bias with the powers that are asked for; inf where none has them."""
        test = self.test(gamma)

        @cache
        def surplus(delta: float) -> float:
            return self._surplus(test, delta)

        found = least_enough(surplus, near, self.precision)
        if found is None:
            return np.inf
        least, surely = found
        steps = (float(np.float32(least + i * self.precision)) for i in range(8))
        return next((each for each in steps if surplus(each) >= 0.0), surely)

    def _surplus(self, test: WindowTest, delta: float) -> float:
        """Return the logits of the simulated powers above those asked for, the lesser of both."""
        asked, signal, edits = self.request, self.request.signal, self.request.edits
        assert asked.alpha is not None
        assert asked.power is not None
        attacked = asked.power if asked.attacked_power is None else asked.attacked_power
        found = window_powers(test, asked.alpha, signal, delta, edits, draws=_DRAWS, seed=0)
        return min(_above(found.whole, asked.power), _above(found.edited, attacked))


def _above(found: float, asked: float) -> float:
    """Return how far a simulated power is above one asked for, with some to spare, in logits."""
    wanted = asked + _SPARE * np.sqrt(asked * (1.0 - asked) / _DRAWS)
    few = 0.5 / _DRAWS
    return float(
        special.logit(np.clip(found, few, 1.0 - few)) - special.logit(min(wanted, 1.0 - few))
    )
