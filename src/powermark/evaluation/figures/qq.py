"""Q-Q plots of the standardised green count, under both hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from powermark.evaluation.figures.canvas import BLUE, GREY, ORANGE, new_figure
from powermark.evaluation.reproduction.summary import counts_of
from powermark.evaluation.writing import Record
from powermark.theory.green_rate import gamma_prime

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def quantiles(
    unmarked: Sequence[Record], marked: Sequence[Record], gamma: float, delta: float, n_tokens: int
) -> list[dict[str, Any]]:
    """Return quantiles of both hypotheses beside the normal's.

    Under H1 the count is standardised twice: with the green rate that the paper's theorem says, and
    with the mean of the texts, as the authors do. Colours of unmarked texts must be those of gamma.
    """
    rows: list[dict[str, Any]] = []
    for name, records, rate in (
        ("H0", unmarked, gamma),
        ("H1, predicted rate", marked, float(gamma_prime(gamma, delta))),
        ("H1, rate of the texts", marked, None),
    ):
        counts = counts_of(records, n_tokens)
        counts = np.sort(counts[np.isfinite(counts)])
        p = counts.mean() / n_tokens if rate is None else rate
        z = (counts - n_tokens * p) / np.sqrt(n_tokens * p * (1.0 - p))
        normal = special.ndtri((np.arange(z.size) + 0.5) / max(z.size, 1))
        rows += [
            {"hypothesis": name, "normal": float(x), "observed": float(y)}
            for x, y in zip(normal, z, strict=True)
        ]
    return rows


def draw_quantiles(rows: list[dict[str, Any]]) -> Figure:
    """Draw observed against normal quantiles, H0 left and H1 right."""
    figure = new_figure(7.2, 3.6)
    panels = figure.subplots(1, 2, sharex=True)
    colours = {"H0": BLUE, "H1, predicted rate": ORANGE, "H1, rate of the texts": BLUE}
    for axes, title in zip(panels, ("H0: unmarked", "H1: marked"), strict=True):
        axes.plot([-3, 3], [-3, 3], color=GREY, lw=1)
        for name, colour in colours.items():
            mine = [row for row in rows if row["hypothesis"] == name and name[:2] == title[:2]]
            if mine:
                x, y = ([row[k] for row in mine] for k in ("normal", "observed"))
                axes.plot(x, y, ".", ms=4, color=colour, label=name.partition(", ")[2] or None)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("standard normal quantile")
    panels[0].set_ylabel("standardised green count")
    panels[1].legend(frameon=False, fontsize=8)
    return figure
