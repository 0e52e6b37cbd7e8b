"""Forged texts that the detector accepts, against the marked tokens collected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from powermark.plotting.canvas import BLUE, GREY, ORANGE, PURPLE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {1: ORANGE, 2: BLUE, 4: PURPLE}
MARKERS = {1: "o", 2: "s", 4: "^"}


def draw_forging(rows: list[dict[str, Any]], alpha: float) -> Figure:
    """Draw a panel for each mark, a line for each context width, and what chance gives, dotted."""
    marks = list(dict.fromkeys((row["gamma"], row["delta"]) for row in rows))
    figure = new_figure(3.1 * len(marks), 3.1)
    panels = figure.subplots(1, len(marks), sharey=True, squeeze=False)[0]
    for panel, (gamma, delta) in zip(panels, marks, strict=True):
        mine = [r for r in rows if (r["gamma"], r["delta"]) == (gamma, delta) and r["collected"]]
        for h in dict.fromkeys(row["context_width"] for row in mine):
            line = [row for row in mine if row["context_width"] == h]
            amounts = [row["collected"] for row in line]
            shares = [row[f"found_{alpha:g}"] for row in line]
            panel.plot(amounts, shares, marker=MARKERS[h], color=COLOURS[h], ms=4, label=f"h = {h}")
        panel.axhline(alpha, color=GREY, lw=1, ls=":")
        panel.set_xscale("log")
        panel.set_title(f"γ = {gamma:g}, δ = {delta:g}", fontsize=10)
        panel.set_xlabel("marked tokens collected")
    panels[0].set_ylabel(f"forged texts accepted, α = {alpha:g}")
    panels[0].legend(frameon=False, fontsize=8)
    return figure
