"""Plans for a window detector: the least KL with which it finds texts, whole or with a block lost.

A plan for the count must pay for the replaced block with more signal everywhere else. WinMax-C can
leave the block out, so a mark that turns nearly every token green at a large gamma does as well for
less. The power of such a test has no closed form: texts are drawn from the signal, with the same
random numbers for every design, so that the simulated power rises with delta as the true one does.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from powermark.checks import Array
from powermark.errors import Infeasible
from powermark.planning.design import Design
from powermark.planning.request import Answer, Request
from powermark.planning.solver import on_grid
from powermark.signals.edits import Edits
from powermark.signals.signal import MAX_DELTA, SignalModel
from powermark.statistics.windows import Kind, WindowTest
from powermark.theory.power import beta_total

_COARSE, _FINE = 0.02, 0.002  # steps of gamma: over all, and around the best
_ROUGH = 10_000  # draws of the null while designs are compared
_DRAWS, _FINAL = 4_000, 20_000  # marked texts drawn to compare designs, and for what is reported
_TEXTS = 500  # rates of a Beta law
_STRIDES = 2**14  # biases that are compared, up to the largest
_BIASES = MAX_DELTA / _STRIDES  # precision of delta
_SPARE = 2.0  # standard errors of the simulated power that the chosen delta has to spare


def solve(request: Request) -> Answer:
    """Return the constant mark of least KL with the requested power by a window detector."""
    n, alpha, power = request.n_tokens, request.alpha, request.power
    assert n is not None
    assert alpha is not None
    assert power is not None
    attacked = power if request.attacked_power is None else request.attacked_power
    search = _Search(n, alpha, _kind(request), request.signal, request.edits, (power, attacked))
    gamma, delta = search.best()
    return Answer(gamma=gamma, delta=delta, n_tokens=n, alpha=alpha)


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

    def power(removal: float) -> float:
        return test.power(
            rates,
            alpha,
            weights=weights,
            removal=removal,
            context_width=edits.context_width,
            draws=draws,
            rng=np.random.default_rng(seed),
        )

    texts = np.inf if weights is None else weights.sum() ** 2 / (weights**2).sum()
    return WindowPowers(power(0.0), power(edits.removal or 0.0), float(texts))


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


@dataclass(frozen=True)
class _Search:
    """Gamma over a grid and delta by halving, for one request."""

    n: int
    alpha: float
    detector: Kind
    signal: SignalModel
    edits: Edits
    asked: tuple[float, float]
    null_draws: int | None = None

    def best(self) -> tuple[float, float]:
        """Return gamma and delta: a coarse look over gamma, a finer one, and then exactly."""
        test = self.test(0.5)
        quick = replace(test, draws=min(_ROUGH, test.draws or _ROUGH))
        alike = quick.supports(self.alpha) == test.supports(self.alpha)
        rough = replace(
            self, signal=self.signal.thinned(), null_draws=quick.draws if alike else None
        )
        found = rough.cheapest(np.arange(1.0 - _COARSE, _COARSE / 2.0, -_COARSE))
        if found is not None:
            found = rough.cheapest(found[0] + np.arange(_COARSE, -_COARSE, -_FINE)) or found
            # what the rough null allowed the detector's own may just refuse, or the reverse
            found = self.cheapest(found[0] + _FINE * np.arange(2.0, -5.0, -1.0))
        if found is None:
            raise Infeasible(
                f"no design reaches power {self.asked[0]:g}, and {self.asked[1]:g} with a share of "
                f"{self.edits.removal:g} replaced, by {self.detector} with n_tokens = {self.n}, "
                f"alpha = {self.alpha:g}.",
                hint="allow a smaller removal, more tokens or less power.",
            )
        return found

    def cheapest(self, gammas: Array) -> tuple[float, float] | None:
        """Return the cheapest gamma and delta with enough power; None where none has it."""
        best, least = None, np.inf
        inside = gammas[(gammas > 0.0) & (gammas < 1.0)]
        for gamma in on_grid(inside).tolist():
            cheaper = partial(self._cheaper, gamma, least)
            dear = bisect_left(range(_STRIDES + 1), True, 1, key=lambda i: not cheaper(i))
            low, high, test = 0, dear - 1, self.test(gamma)
            if high < 1 or not self._enough(test, high * _BIASES):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                enough = self._enough(test, middle * _BIASES)
                low, high = (low, middle) if enough else (middle, high)
            delta = float(np.float32(high * _BIASES))
            best, least = (gamma, delta), float(self.signal.kl(gamma, delta))
        return best

    def _cheaper(self, gamma: float, least: float, strides: int) -> bool:
        """Whether a bias costs less than the best design so far."""
        return least == np.inf or float(self.signal.kl(gamma, strides * _BIASES)) < least

    def test(self, gamma: float) -> WindowTest:
        """Return the detector at a gamma; of many that are tried one will be used."""
        return WindowTest(self.detector, self.n, gamma, draws=self.null_draws, keep=False)

    def _enough(self, test: WindowTest, delta: float) -> bool:
        """Whether a design has the powers that are asked for, with some to spare."""
        found = window_powers(
            test, self.alpha, self.signal, delta, self.edits, draws=_DRAWS, seed=0
        )
        pairs = zip(found[:2], self.asked, strict=True)
        return all(got >= p + _SPARE * np.sqrt(p * (1.0 - p) / _DRAWS) for got, p in pairs)
