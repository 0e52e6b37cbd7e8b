"""Priors fitted to a profile: how well the paper's family fits a real model.

A step of total concentration A has green mass Beta(gamma A, (1-gamma) A). Its log-likelihood in A
is ``A t - log B(gamma A, (1-gamma) A)`` up to a constant, with the one statistic
``t = gamma log y + (1-gamma) log(1-y)``. So expectation-maximisation needs only t.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, special

from powermark.checks import Array, count
from powermark.signals.priors import BetaMixture, Dirichlet
from powermark.signals.profile import Profile

_DRAWS = 8  # green lists drawn for each step, with a fixed seed
_BINS = 4000  # of t; a finer histogram changes nothing
_ROUNDS = 500
_CONCENTRATIONS = (1e-3, 1e6)


def fit_mixture(profile: Profile, gamma: float, components: int = 3) -> BetaMixture:
    """Fit a mixture of Beta laws to a profile's green masses at one gamma, by EM."""
    count("components", components)
    t, weights = _statistic(profile.green_masses(gamma, _DRAWS, np.random.default_rng(0)), gamma)
    shares = np.full(components, 1.0 / components)
    spread = np.geomspace(0.3, 100.0, components) if components > 1 else np.array([3.0])
    for _ in range(_ROUNDS):
        logs = (
            np.log(shares)
            + t[:, None] * spread
            - special.betaln(gamma * spread, (1.0 - gamma) * spread)
        )
        blame = special.softmax(logs, axis=1) * weights[:, None]  # (bins, components)
        before, shares = (shares, spread), np.maximum(blame.sum(axis=0), 1e-12)
        spread = np.array(
            [_concentration(blame[:, j] @ t / shares[j], gamma) for j in range(components)]
        )
        shares = shares / shares.sum()
        if np.allclose(before[0], shares, rtol=1e-7) and np.allclose(before[1], spread, rtol=1e-7):
            break
    return BetaMixture(tuple(shares), tuple(spread))


def fit_concentration(profile: Profile, gamma: float, vocab_size: int) -> Dirichlet:
    """Fit the concentration of the paper's prior to a profile at one gamma."""
    return Dirichlet(vocab_size, fit_mixture(profile, gamma, 1).concentrations[0] / vocab_size)


def _statistic(y: Array, gamma: float) -> tuple[Array, Array]:
    """Return a histogram of t: the means in its bins, and their shares."""
    y = np.clip(y, 1e-12, 1.0 - 1e-12)
    t = gamma * np.log(y) + (1.0 - gamma) * np.log1p(-y)
    edges = np.quantile(t, np.linspace(0.0, 1.0, _BINS + 1))
    place = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, _BINS - 1)
    total = np.bincount(place, minlength=_BINS)
    kept = total > 0
    means = np.bincount(place, t, _BINS)[kept] / total[kept]
    return means, total[kept] / total.sum()


def _concentration(mean: float, gamma: float) -> float:
    """Return the A whose expected t is ``mean``; it rises with A."""

    def excess(log_a: float) -> float:
        a = np.exp(log_a)
        expected = gamma * special.digamma(gamma * a)
        expected += (1.0 - gamma) * special.digamma((1.0 - gamma) * a) - special.digamma(a)
        return float(expected - mean)

    low, high = np.log(_CONCENTRATIONS)
    if excess(low) >= 0.0 or excess(high) <= 0.0:
        return float(np.exp(low if excess(low) >= 0.0 else high))
    return float(np.exp(optimize.brentq(excess, low, high, xtol=1e-10)))
