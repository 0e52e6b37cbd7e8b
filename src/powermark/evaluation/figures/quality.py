"""Detections against text quality: one panel for each metric, one row for each corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from powermark.evaluation.figures.canvas import new_figure
from powermark.evaluation.figures.pareto import STYLES, draw_method
from powermark.evaluation.reproduction.fits import frontier
from powermark.evaluation.reproduction.likeness import METRICS

if TYPE_CHECKING:
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
                x, y = (np.array([r[key] for r in mine], float) for key in (metric, "tpr"))
                known = np.isfinite(x) & np.isfinite(y)
                x, y = x[known], y[known]
                draw_method(axes, method, x, y, frontier(x, y, 0.0))
            axes.set_title(f"{corpus}, {label}", fontsize=10)
        line[0].set_ylabel("TPR")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
