"""The p-values of a scanned corpus, one histogram per mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from powermark.plotting.canvas import BLUE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_p_values(marks: Sequence[dict[str, Any]]) -> Figure:
    """Draw histograms of p-values; marked documents are at the left end."""
    figure = new_figure(6.0, 2.6 * len(marks))
    axes = figure.subplots(len(marks), squeeze=False)[:, 0]
    for ax, mark in zip(axes, marks, strict=True):
        bins = mark["p_histogram"]
        ax.bar([(i + 0.5) / len(bins) for i in range(len(bins))], bins, 0.9 / len(bins), color=BLUE)
        ax.set_xlabel(f"p, {mark['documents']} documents, mark {mark['mark']}")
        ax.set_ylabel("documents")
    return figure
