"""The paper's assumptions about green indicators, measured on a profile.

Theorem 3.8 makes three assumptions (Assumptions 3.6 and 3.7) about the indicators I_t that counted
token t is green: the information between past and future indicators falls geometrically with their
distance, the indicators are stationary, and the variance of their sum is proportional to its
length.

Given the next-token distributions, indicators are independent with the green rates r_t of their
steps, because each counted pair of context and token has its own colour. So ``Cov(I_s, I_t) =
Cov(r_s, r_t)`` over texts, which a profile shows. Their mutual information follows, because both
are 0 or 1; it is a lower bound of the information in the assumption. A profile does not show how
the colour of a drawn token affects later distributions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import special

from powermark.checks import Array
from powermark.errors import InvalidInput
from powermark.signals.profile import Profile
from powermark.tables import table


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """Indicators that are ``first`` to ``last`` counted tokens apart.

    ``correlation`` has a jackknife standard error over texts; ``information`` is in nats per pair.
    """

    first: int
    last: int
    correlation: float
    error: float
    information: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The paper's assumptions, measured on a profile for one gamma and delta.

    ``lags`` should fall to 0. ``quarters`` are green rates in each quarter of a text, and should be
    equal; ``drift`` is the last minus the first, with its standard error. ``inflation`` is the
    variance inflation c by length, and should become constant.
    """

    gamma: float
    delta: float
    gamma_prime: float
    texts: int
    lags: tuple[Lags, ...]
    quarters: tuple[float, ...]
    drift: float
    drift_error: float
    inflation: dict[int, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [
            (
                f"lag {lag.first}" + (f" to {lag.last}" if lag.last > lag.first else ""),
                f"{lag.correlation:+.4f} +- {lag.error:.4f}",
                f"correlation of indicators; {lag.information:.2g} nats",
            )
            for lag in self.lags
        ]
        quarters = " ".join(f"{rate:.4f}" for rate in self.quarters)
        rows += [
            ("drift", f"{self.drift:+.4f} +- {self.drift_error:.4f}", f"quarters {quarters}"),
            *((f"c at {n}", f"{c:.3f}", "variance inflation") for n, c in self.inflation.items()),
        ]
        return table(rows)


def measure_assumptions(profile: Profile, gamma: float, delta: float) -> Assumptions:
    """Measure information decay, stationarity and long-run variance at one gamma and delta.

    Texts with fewer than 8 counted tokens are left out.
    """
    every, shares = profile.rates_by_text(gamma, delta)
    kept = [i for i, text in enumerate(every) if text.size >= 8 and shares[i] > 0.0]
    if len(kept) < 3:
        raise InvalidInput(
            "assumptions are measured on 3 or more texts of 8 or more counted tokens.",
            hint="record a profile with more --texts or --n-tokens.",
        )
    texts, weights = [every[i] for i in kept], shares[kept] / shares[kept].sum()
    means = np.array([text.mean() for text in texts])
    rate = float(weights @ means)
    longest = int(np.median([text.size for text in texts]))
    variance = rate * (1.0 - rate)
    lags = []
    for power in range(int(np.log2(longest))):
        first, last = 2**power, 2 ** (power + 1) - 1
        sums = np.array([_products(text, first, last) for text in texts])
        found, error = _jackknife(sums, means, weights)
        lags.append(
            Lags(
                first=first,
                last=last,
                correlation=found / variance,
                error=error / variance,
                information=_information(rate, found),
            )
        )
    parts = np.array([[part.mean() for part in np.array_split(text, 4)] for text in texts])
    change = parts[:, 3] - parts[:, 0]
    drift = float(weights @ change)
    return Assumptions(
        gamma=gamma,
        delta=delta,
        gamma_prime=rate,
        texts=len(texts),
        lags=tuple(lags),
        quarters=tuple((weights @ parts).tolist()),
        drift=drift,
        drift_error=float(np.sqrt(_variance_of_mean(change, weights))),
        inflation={
            n: profile.variance_inflation(n, gamma, delta)
            for n in (longest // 4, longest // 2, longest)
        },
    )


def _products(text: Array, first: int, last: int) -> tuple[float, float, float]:
    """Return sums over the pairs at some lags: of products, of both values, and of ones."""
    pairs = [(text[:-lag], text[lag:]) for lag in range(first, min(last, text.size - 1) + 1)]
    return (
        float(sum(a @ b for a, b in pairs)),
        float(sum(a.sum() + b.sum() for a, b in pairs)),
        float(sum(a.size for a, _ in pairs)),
    )


def _covariance(sums: Array, means: Array, weights: Array) -> float:
    """Return the covariance over texts, corrected for the estimated mean."""
    mean = weights @ means
    product, both, pairs = sums.T
    each = (product - mean * both) / np.maximum(pairs, 1.0) + mean**2
    held = weights * (pairs > 0.0)
    return float(held @ each / held.sum() + _variance_of_mean(means, weights))


def _variance_of_mean(values: Array, weights: Array) -> float:
    squares = weights**2
    return float(squares @ (values - weights @ values) ** 2 / (1.0 - squares.sum()))


def _jackknife(sums: Array, means: Array, weights: Array) -> tuple[float, float]:
    """Return the covariance, and its standard error from leaving out each text in turn."""
    without = []
    for i in range(len(means)):
        left = np.where(np.arange(len(means)) == i, 0.0, weights)
        without.append(_covariance(sums, means, left / left.sum()))
    spread = np.var(without) * (len(means) - 1)
    return _covariance(sums, means, weights), float(np.sqrt(spread))


def _information(rate: float, covariance: float) -> float:
    """Return the mutual information of two indicators of one rate, in nats."""
    margins = np.outer([rate, 1.0 - rate], [rate, 1.0 - rate])
    joint = np.clip(margins + covariance * np.array([[1.0, -1.0], [-1.0, 1.0]]), 0.0, 1.0)
    return max(0.0, float(special.rel_entr(joint, margins).sum()))
