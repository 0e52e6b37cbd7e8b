"""Detections against text quality: one panel for each metric, one row for each corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from powermark.evaluation.figures.canvas import new_figure
from powermark.evaluation.figures.pareto import STYLES
from powermark.evaluation.reproduction.fits import frontier, logistic
from powermark.evaluation.reproduction.likeness import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_quality(rows: list[dict[str, Any]]) -> Figure:
    """Draw TPR against each metric, with the curve through each method's frontier."""
    corpora = list(dict.fromkeys(row["corpus"] for row in rows))
    figure = new_figure(10.5, 3.2 * len(corpora) + 0.6)
    panels = figure.subplots(len(corpora), len(METRICS), squeeze=False, sharey=True)
    for line, corpus in zip(panels, corpora, strict=True):
        for axes, (metric, label) in zip(line, METRICS.items(), strict=True):
            for method in STYLES:
                mine = [r for r in rows if (r["corpus"], r["method"]) == (corpus, method)]
                _method(axes, mine, method, metric)
            axes.set_title(f"{corpus}, {label}", fontsize=10)
        line[0].set_ylabel("TPR")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _method(axes: Axes, rows: list[dict[str, Any]], method: str, metric: str) -> None:
    colour, marker = STYLES[method]
    x, y = (np.array([row[key] for row in rows], float) for key in (metric, "tpr"))
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    axes.plot(x, y, marker, color=colour, label=method, ms=4, alpha=0.8)
    best = frontier(x, y, 0.0)
    curve = logistic(x[best], y[best]) if best.any() else None
    if curve is not None:
        along = np.linspace(x.min(), x.max(), 100)
        axes.plot(along, special.expit(curve[0] * (curve[1] - along)), color=colour, lw=0.8)
