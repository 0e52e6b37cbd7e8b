"""The mark of least KL that a window detector finds, whole and after a block was replaced.

A plan for the count must pay for the replaced block with more signal everywhere else. WinMax-C can
leave the block out, so a mark that turns nearly every token green at a large gamma does as well for
less. The power of such a test has no closed form: texts are drawn from the signal, with the same
random numbers for every design, so that the simulated power rises with delta as the true one does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

import numpy as np
from scipy import special

from powermark.calibration.design import Design, evaluate, fields_of
from powermark.calibration.edits import CONTEXT_WIDTH, Edits
from powermark.calibration.signal import MAX_DELTA, PlugIn, SignalModel
from powermark.calibration.solve import on_grid
from powermark.checks import Array, count, in_interval, open_unit
from powermark.detection.windows import Kind, WindowTest
from powermark.errors import Infeasible, InvalidInput
from powermark.signature import signature
from powermark.theory.power import beta_total

LONGEST = 400  # tokens; a search takes time in the square of a text's length, here minutes
MOST_POWER = 0.999  # that a few thousand texts can show
_COARSE, _FINE = 0.02, 0.002  # steps of gamma: over all, and around the best
_ROUGH = 10_000  # draws of the null while designs are compared
_DRAWS, _FINAL = 4_000, 20_000  # marked texts drawn to compare designs, and for what is reported
_TEXTS = 500  # rates of a Beta law
_BIASES = 0.005  # precision of delta
_SPARE = 2.0  # standard errors of the simulated power that the chosen delta has to spare


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan(Design):
    """A design for a window detector; ``size`` and powers without a prefix are the count's.

    ``window_power`` and ``window_attacked_power`` are shares of ``draws`` simulated texts, whole
    and with a block of the share ``removal`` replaced; they are not those that chose the design.
    """

    detector: Kind
    window_size: float
    window_power: float
    window_attacked_power: float
    draws: int

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (name, value, remark) for people to read."""
        gamma, delta, *_ = Design.rows(self)
        kl = ("kl", f"{self.kl:.4f}", "nats per token")
        whole, edited = self.window_power, self.window_attacked_power
        return [
            gamma,
            delta,
            kl,
            ("window_power", f"{whole:.4f}", f"of {self.detector}, {self.draws:,} texts simulated"),
            (
                "window_attacked_power",
                f"{edited:.4f}",
                f"with a share of {self.removal:g} replaced",
            ),
            ("window_size", f"{self.window_size:.3g}", f"at most alpha = {self.alpha:g}"),
            ("power", f"{self.power:.4f}", "of the count"),
            ("attacked_power", f"{self.attacked_power:.4f}", "of the count"),
            ("gamma_prime", f"{self.gamma_prime:.4f}", f"green rate under the mark, {self.signal}"),
        ]


def plan_for_windows(
    *,
    n_tokens: int,
    alpha: float,
    power: float,
    removal: float,
    detector: Kind = "winmax-c",
    signal: SignalModel | None = None,
    attacked_power: float | None = None,
    context_width: int = CONTEXT_WIDTH,
) -> WindowPlan:
    """Return the constant mark of least KL with this power by a window detector.

    Parameters
    ----------
    n_tokens, alpha
        Tokens that count, and the level.
    power
        On whole texts; after the removal too where ``attacked_power`` is not given.
    removal
        Share of the text that is replaced, in one block at a uniform place. The
        ``context_width`` tokens after it lose their context, and with it the mark.
    detector
        ``"winmax-c"`` or ``"winmax"``.
    signal
        What the mark does on your model; the plug-in by default.

    Examples
    --------
    >>> found = plan_for_windows(n_tokens=50, alpha=0.05, power=0.95, removal=0.2)
    >>> round(found.gamma, 2), round(found.kl, 2)  # the best for the count costs 0.17
    (0.88, 0.12)
    """
    n = int(count("n_tokens", n_tokens))
    in_interval("n_tokens", n, 1, LONGEST, closed="both")
    in_interval("alpha", alpha, 0.0, MOST_POWER, closed="neither")
    if detector not in get_args(Kind):
        raise InvalidInput(f"detector must be one of {get_args(Kind)}; got {detector!r}.")
    attacked = power if attacked_power is None else attacked_power
    for name, value in (("power", power), ("attacked_power", attacked)):
        in_interval(name, value, alpha, MOST_POWER, closed="high")
    edits = Edits(removal=float(open_unit("removal", removal)), context_width=context_width)
    search = _Search(n, alpha, detector, signal or PlugIn(), edits, (power, attacked))
    gamma, delta = search.best()
    design = evaluate(gamma, delta, n_tokens=n, alpha=alpha, signal=search.signal, edits=edits)
    test = search.test(gamma)
    told = window_powers(test, alpha, search.signal, delta, edits)
    fields = fields_of(design)
    if design.standard_errors is not None:
        fields["standard_errors"] = design.standard_errors | told.errors()
    fields["signature"] = signature(
        "window-plan",
        detector=detector,
        signal=search.signal.name,
        n=n,
        a=alpha,
        pi=power,
        pi_attacked=attacked_power,
        removal=removal,
        h=context_width,
    )
    return WindowPlan(
        **fields,
        detector=detector,
        window_size=test.threshold(alpha).size,
        window_power=told.whole,
        window_attacked_power=told.edited,
        draws=_FINAL,
    )


class WindowPowers(NamedTuple):
    """Powers by a window detector on whole and edited texts, and how many texts they rest on."""

    whole: float
    edited: float
    texts: float

    def errors(self) -> dict[str, float]:
        """Standard errors at most, from the texts' number alone: each has a power from 0 to 1."""
        named = {"window_power": self.whole, "window_attacked_power": self.edited}
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
    rates, weights = _rates(signal, test.n_tokens, test.gamma, delta)

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


def _rates(
    signal: SignalModel, n_tokens: int, gamma: float, delta: float
) -> tuple[Array, Array | None]:
    """Return green rates of texts, (texts, steps), and the texts' weights.

    A signal that knows no texts, but how much they vary, has rates of a Beta law.
    """
    each = signal.text_rates(gamma, np.array([delta]), n_tokens)
    if each is not None:
        return each[0][..., 0], each[1]
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
            test = self.test(gamma)
            low, high = 0.0, MAX_DELTA
            if not self._enough(test, high):
                continue
            while high - low > _BIASES and self.signal.kl(gamma, low) < least:
                middle = (low + high) / 2.0
                low, high = (low, middle) if self._enough(test, middle) else (middle, high)
            delta = float(np.float32(high))
            if (kl := float(self.signal.kl(gamma, delta))) < least:
                best, least = (gamma, delta), kl
        return best

    def test(self, gamma: float) -> WindowTest:
        """Return the detector at a gamma; of many that are tried one will be used."""
        return WindowTest(self.detector, self.n, gamma, draws=self.null_draws, keep=False)

    def _enough(self, test: WindowTest, delta: float) -> bool:
        """Whether a design has the powers that are asked for, with some to spare."""
        told = window_powers(test, self.alpha, self.signal, delta, self.edits, draws=_DRAWS, seed=0)
        found = zip(told[:2], self.asked, strict=True)
        return all(got >= p + _SPARE * np.sqrt(p * (1.0 - p) / _DRAWS) for got, p in found)
