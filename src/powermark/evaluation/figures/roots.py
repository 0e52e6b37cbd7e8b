"""Figure 1 of the paper: the two roots of the KL budget, and the power where they meet."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from powermark.calibration.frontier import branch_intersection, branch_powers
from powermark.evaluation.figures.canvas import BLUE, ORANGE, new_figure
from powermark.theory.distortion import gamma_zero, kl_divergence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_TOKENS, ALPHA = 50, 0.05  # the paper's setting, both panels
DELTA_A = 2.0
DELTAS_B = np.round(np.arange(0.55, 8.0, 0.1), 2)


def panel_a() -> list[dict[str, float]]:
    """Return powers of gamma_l and gamma_h as the KL budget varies at delta = 2."""
    peak = float(kl_divergence(gamma_zero(DELTA_A), DELTA_A))
    kl = peak * np.linspace(0.01, 0.999, 120)
    columns = branch_powers(DELTA_A, kl, n_tokens=N_TOKENS, alpha=ALPHA)
    names = ("kl", "gamma_l", "gamma_h", "power_l", "power_h")
    return [dict(zip(names, row, strict=True)) for row in np.stack([kl, *columns], axis=1).tolist()]


def panel_b() -> list[dict[str, float]]:
    """Return the power at which the branches cross, for delta in (0.5, 8), where they do."""
    found = [branch_intersection(d, n_tokens=N_TOKENS, alpha=ALPHA) for d in DELTAS_B.tolist()]
    return [dataclasses.asdict(point) for point in found if point.gamma_h - point.gamma_l > 1e-4]


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
