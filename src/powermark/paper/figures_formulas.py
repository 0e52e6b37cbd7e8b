"""Figures and tables that follow from formulas: the data first, then the drawing."""

from __future__ import annotations

import dataclasses
import itertools
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize

from powermark.paper.settings import ALPHA, ENOUGH, N_TOKENS
from powermark.planning.paper_method import branch_intersection, branch_powers
from powermark.planning.plan import plan
from powermark.planning.solver import rate_for
from powermark.plotting.canvas import BLACK, BLUE, GREY, ORANGE, new_figure
from powermark.signals.signal import PlugIn, SignalModel
from powermark.theory.bounds import information_limit
from powermark.theory.distortion import gamma_zero, kl_divergence
from powermark.theory.green_rate import gamma_prime, gamma_prime_finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELTA_A = 2.0  # of Figure 1(a)
DELTAS_B = np.round(np.arange(0.55, 8.0, 0.1), 2)  # of Figure 1(b)
LENGTHS = (25, 50, 100, 200, 400, 800, 1600)
USUAL = {"γ = .25, δ = 2": (0.25, 2.0), "γ = .5, δ = 2": (0.5, 2.0)}
COUNTS = (
    3,
    5,
    8,
    12,
    16,
    20,
    25,
    30,
    35,
    40,
    44,
    47,
    49,
    50,
)  # critical; each has its gamma


def hypergeometric_table() -> list[dict[str, float]]:
    """Return the rows of Table 1: ``2F1 = gamma_prime / (gamma exp(delta))``, limit, error."""
    rows = []
    for vocab_size, gamma, delta in itertools.product(
        (500, 1000), (0.2, 0.3, 0.5, 0.7), (0.5, 1.0, 2.0)
    ):
        scale = gamma * float(np.exp(delta))
        exact = float(gamma_prime_finite(gamma, delta, vocab_size)) / scale
        limit = float(gamma_prime(gamma, delta)) / scale
        rows.append(
            {
                "gamma": gamma,
                "delta": delta,
                "vocab_size": vocab_size,
                "hyp2f1": exact,
                "limit": limit,
                "error": limit - exact,
            }
        )
    return rows


def root_powers() -> list[dict[str, float]]:
    """Return powers of gamma_l and gamma_h as the KL budget varies at delta = 2."""
    peak = float(kl_divergence(gamma_zero(DELTA_A), DELTA_A))
    kl = peak * np.linspace(0.01, 0.999, 120)
    columns = branch_powers(DELTA_A, kl, n_tokens=N_TOKENS, alpha=ALPHA)
    names = ("kl", "gamma_l", "gamma_h", "power_l", "power_h")
    return [dict(zip(names, row, strict=True)) for row in np.stack([kl, *columns], axis=1).tolist()]


def root_crossings() -> list[dict[str, float]]:
    """Return the power at which the branches cross, for delta in (0.5, 8), where they do."""
    found = [branch_intersection(d, n_tokens=N_TOKENS, alpha=ALPHA) for d in DELTAS_B.tolist()]
    return [dataclasses.asdict(point) for point in found if point.gamma_h - point.gamma_l > 1e-4]


def least_crossing_delta() -> float:
    """Return the delta below which the branches do not cross, as gamma_l leads at every KL.

    They cross where gamma_h leads just below the largest KL; here that lead changes its sign.
    """

    def lead(delta: float) -> float:
        kl = kl_divergence(gamma_zero(delta), delta) * (1.0 - 1e-6)
        *_, power_l, power_h = branch_powers(delta, kl, n_tokens=N_TOKENS, alpha=ALPHA)
        return float(power_h - power_l)

    return float(optimize.brentq(lead, 0.1, 2.0))


def draw_roots(a: list[dict[str, float]], b: list[dict[str, float]]) -> Figure:
    """Draw both panels."""
    figure = new_figure(7.2, 3.2)
    left, right = figure.subplots(1, 2)
    kl = [row["kl"] for row in a]
    left.plot(kl, [row["power_l"] for row in a], color=ORANGE, ls="--", label="lower root γₗ")
    left.plot(kl, [row["power_h"] for row in a], color=BLUE, label="higher root γₕ")
    left.set_xlabel(f"KL budget at δ = {DELTA_A:g}")
    left.set_ylabel("power, Eq. (1)")
    left.legend(frameon=False, fontsize=8)
    right.plot([row["delta"] for row in b], [row["power"] for row in b], color=BLUE)
    right.axhline(0.8, color="black", lw=0.8, ls=":")
    right.set_xlabel("δ")
    right.set_ylabel("power where the roots cross")
    return figure


def needed_kl() -> list[dict[str, Any]]:
    """Return, for each length, the limit and the KL of the best plan, plug-in signal."""
    rows = []
    for n in LENGTHS:
        request = {"n_tokens": n, "alpha": ALPHA, "power": ENOUGH}
        best, paper = plan(**request), plan(**request, method="paper")  # type: ignore[arg-type]
        rows.append(
            {
                "n_tokens": n,
                "limit": float(information_limit(n, ALPHA, ENOUGH)),
                "exact": best.kl,
                "gamma": best.gamma,
                "delta": best.delta,
                "half": plan(**request, gamma=0.5).kl,  # type: ignore[arg-type]
                "paper": paper.kl,
                "paper_size": paper.size,
            }
        )
    return rows


def draw_needed_kl(rows: list[dict[str, Any]]) -> Figure:
    """Draw KL against length, both on logarithmic axes."""
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    lengths = [row["n_tokens"] for row in rows]
    for name, colour, line, label in (
        ("limit", BLACK, ":", "information limit"),
        ("exact", BLUE, "-", "best plan"),
        ("half", ORANGE, "-", "best δ at γ = .5"),
        ("paper", BLUE, "--", "the paper's approximation (its size exceeds α)"),
    ):
        axes.loglog(lengths, [row[name] for row in rows], line, color=colour, label=label)
    for name, (gamma, delta) in USUAL.items():
        axes.axhline(float(kl_divergence(gamma, delta)), color=GREY, lw=0.8)
        axes.annotate(
            name, (lengths[0], float(kl_divergence(gamma, delta))), fontsize=8, va="bottom"
        )
    axes.set_xlabel("scored tokens n")
    axes.set_ylabel("KL per token (nats)")
    axes.set_title(f"power {ENOUGH:g} at α = {ALPHA:g}", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return figure


def steering_curves(profile: SignalModel | None = None) -> list[dict[str, Any]]:
    """Return a row for each critical count and signal: the plug-in, and a profile if given."""
    signals = [("plug-in", PlugIn()), *([] if profile is None else [("profile", profile)])]
    rows = []
    for name, signal in signals:
        for k in COUNTS:
            gamma = float(rate_for(N_TOKENS, k, ALPHA)) * (1.0 - 1e-9)
            found = plan(
                n_tokens=N_TOKENS,
                alpha=ALPHA,
                power=ENOUGH,
                gamma=gamma,
                signal=signal,
                steer=True,
                kl_cap=inf,
            )
            assert found.constant is not None
            rows.append(
                {
                    "signal": name,
                    "gamma": gamma,
                    "constant": found.constant["kl"],
                    "steered": found.kl,
                    "limit": float(information_limit(N_TOKENS, ALPHA, ENOUGH)),
                }
            )
    return rows


def draw_steering(rows: list[dict[str, Any]]) -> Figure:
    """Draw KL against gamma; the plug-in dashed where a profile is there."""
    figure = new_figure(7.2, 4.0)
    axes = figure.subplots()
    signals = list(dict.fromkeys(row["signal"] for row in rows))
    for signal in signals:
        mine = [row for row in rows if row["signal"] == signal]
        gammas = [row["gamma"] for row in mine]
        line = "-" if signal == signals[-1] else "--"
        for kind, colour in (("constant", ORANGE), ("steered", BLUE)):
            label = f"{kind} bias, {signal}"
            axes.plot(gammas, [row[kind] for row in mine], line, color=colour, label=label)
    axes.axhline(rows[0]["limit"], color=GREY, lw=1, ls=":", label="information limit")
    axes.set_xlabel("green share γ")
    axes.set_ylabel("KL per token (nats)")
    axes.set_ylim(0.0, None)
    axes.set_title(f"power {ENOUGH:g} at α = {ALPHA:g}, n = {N_TOKENS}", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return figure
