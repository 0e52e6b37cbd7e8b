"""KL that power costs as texts grow longer: what is possible, what plans need, what people use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from powermark.calibration.plan import plan
from powermark.evaluation.figures.canvas import BLACK, BLUE, GREY, ORANGE, new_figure
from powermark.theory.bounds import information_limit
from powermark.theory.distortion import kl_divergence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (25, 50, 100, 200, 400, 800, 1600)
ALPHA, POWER = 0.05, 0.95
HABITS = {"γ = .25, δ = 2": (0.25, 2.0), "γ = .5, δ = 2": (0.5, 2.0)}


def needed_kl() -> list[dict[str, Any]]:
    """Return, for each length, the limit and the KL of the best plan, plug-in signal."""
    rows = []
    for n in LENGTHS:
        request = {"n_tokens": n, "alpha": ALPHA, "power": POWER}
        best, paper = plan(**request), plan(**request, method="paper")  # type: ignore[arg-type]
        rows.append(
            {
                "n_tokens": n,
                "limit": float(information_limit(n, ALPHA, POWER)),
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
    for name, (gamma, delta) in HABITS.items():
        axes.axhline(float(kl_divergence(gamma, delta)), color=GREY, lw=0.8)
        axes.annotate(
            name, (lengths[0], float(kl_divergence(gamma, delta))), fontsize=8, va="bottom"
        )
    axes.set_xlabel("scored tokens n")
    axes.set_ylabel("KL per token (nats)")
    axes.set_title(f"power {POWER:g} at α = {ALPHA:g}", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return figure
