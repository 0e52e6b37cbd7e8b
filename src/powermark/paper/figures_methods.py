"""Figures that compare methods: detections against KL and against text quality."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from powermark.checks import Array
from powermark.paper.fits import frontier, logistic
from powermark.paper.results import METRICS
from powermark.paper.settings import ALPHA, N_TOKENS
from powermark.plotting.canvas import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    YELLOW,
    new_figure,
)
from powermark.theory.bounds import information_limit
from powermark.theory.distortion import gamma_zero

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


STYLES = {
    "grid": (GREY, "."),
    "opt": (PURPLE, "x"),
    "dp, fixed": (YELLOW, "+"),
    "dp, dual ascent": (ORANGE, "^"),
    "authors": (BLACK, "s"),
    "exact": (SKY, "o"),
    "profile": (BLUE, "D"),
    "steered": (GREEN, "*"),
}


def points(rows: list[dict[str, Any]], stage: str) -> list[dict[str, Any]]:
    """Return x = -log KL and y = TPR of each cell, and whether it is on its method's frontier.

    ``stage`` is "search", or "final" for cells that were written anew. The authors' points are
    judged by their own z-test, whose size exceeds alpha; all others by the exact test.
    """
    found = []
    for row in rows:
        if row["method"] not in STYLES or not row["kl"] > 0.0:
            continue
        z = "_z" if row["method"] == "authors" else ""
        names = ("corpus", "method", "gamma", "delta", "target", "texts", "kl", "kl_low", "kl_high")
        shown = {"stage": stage, **{key: row[key] for key in names}}
        shown |= {f"tpr{end}": row[f"tpr{z}{end}"] for end in ("", "_low", "_high")}
        found.append(shown | {"size": row[f"size{z}"], "neg_log_kl": -float(np.log(row["kl"]))})
    for corpus in dict.fromkeys(row["corpus"] for row in found):
        for method in STYLES:
            mine = [r for r in found if (r["corpus"], r["method"]) == (corpus, method)]
            x, y = (np.array([row[k] for row in mine]) for k in ("neg_log_kl", "tpr"))
            for row, kept in zip(mine, frontier(x, y), strict=True):
                row["on_frontier"] = bool(kept)
    return found


def draw_pareto(rows: list[dict[str, Any]]) -> Figure:
    """Draw for each corpus the search, with frontiers and curves, and below it the final."""
    corpora = list(dict.fromkeys(row["corpus"] for row in rows))
    figure = new_figure(max(9.0, 4.4 * len(corpora)), 8.4)
    panels = figure.subplots(2, len(corpora), squeeze=False, sharey="row")
    for (above, below), corpus in zip(panels.T, corpora, strict=True):
        for method in STYLES:
            search, final = (
                [r for r in rows if (r["corpus"], r["method"], r["stage"]) == (corpus, method, s)]
                for s in ("search", "final")
            )
            x, y = _columns(search, "neg_log_kl", "tpr")
            kept = np.array([row["on_frontier"] for row in search], bool)
            draw_method(above, method, x, y, kept)
            order = np.argsort(x[kept])
            above.step(x[kept][order], y[kept][order], color=STYLES[method][0], lw=0.5, ls="--")
            _draw_final(below, method, final)
        for axes in (above, below):
            _limit(axes)
        above.set_title(f"{corpus}: search", fontsize=10)
        above.set_xlim(-1.0, 4.0)
        below.set_title(f"{corpus}: written anew, 95 % intervals", fontsize=10)
        below.set(xlim=(0.8, 3.2), ylim=(0.72, 1.01), xlabel="−log KL (right is better)")
    for axes in panels[:, 0]:
        axes.set_ylabel(f"TPR at α = {ALPHA:g}, n = {N_TOKENS}")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def draw_method(axes: Axes, method: str, x: Array, y: Array, kept: NDArray[np.bool_]) -> None:
    """Draw a method's points, and the curve through those that are kept."""
    colour, marker = STYLES[method]
    label = "authors (z-test of size 6.3 %)" if method == "authors" else method
    axes.plot(x, y, marker, color=colour, label=label, ms=6 if marker != "." else 4, alpha=0.45)
    curve = logistic(x[kept], y[kept])
    if curve is not None:
        a, b = curve
        along = np.linspace(x.min(), x.max(), 100)
        axes.plot(along, special.expit(a * (b - along)), color=colour, lw=0.9)


def _columns(rows: list[dict[str, Any]], *names: str) -> list[Array]:
    return [np.array([row[name] for row in rows], float) for name in names]


def _draw_final(axes: Axes, method: str, rows: list[dict[str, Any]]) -> None:
    colour, marker = STYLES[method]
    y, low, high = _columns(rows, "tpr", "tpr_low", "tpr_high")
    ends = _columns(rows, "kl", "kl_high", "kl_low")
    x, left, right = (-np.log(np.clip(kl, 1e-3, 1e3)) for kl in ends)  # of few texts: anything
    axes.errorbar(
        x,
        y,
        xerr=np.abs([x - left, right - x]),
        yerr=np.abs([y - low, high - y]),
        fmt="o" if marker == "." else marker,
        color=colour,
        ms=6,
        elinewidth=0.6,
    )


def _limit(axes: Axes) -> None:
    powers = np.linspace(0.06, 0.999, 200)
    x = -np.log(information_limit(N_TOKENS, ALPHA, powers))
    axes.plot(x, powers, color=BLACK, lw=1, ls=":", label="information limit")


def draw_gamma_zero(rows: list[dict[str, Any]]) -> Figure:
    """Draw the grid's points by whether gamma is below gamma_zero(delta): those are never best."""
    corpora = list(dict.fromkeys(row["corpus"] for row in rows))
    figure = new_figure(3.6 * len(corpora), 3.6)
    panels = figure.subplots(1, len(corpora), squeeze=False, sharey=True)[0]
    for axes, corpus in zip(panels, corpora, strict=True):
        mine = [
            row
            for row in rows
            if (row["corpus"], row["method"], row["stage"]) == (corpus, "grid", "search")
        ]
        below = np.array([row["gamma"] < float(gamma_zero(row["delta"])) for row in mine], bool)
        x, y = (np.array([row[k] for row in mine]) for k in ("neg_log_kl", "tpr"))
        axes.plot(x[~below], y[~below], "o", color=BLUE, ms=4, label="γ ≥ γ₀(δ)")
        axes.plot(x[below], y[below], "x", color=ORANGE, ms=5, label="γ < γ₀(δ)")
        axes.set_title(corpus, fontsize=10)
        axes.set_xlabel("−log KL")
    panels[0].set_ylabel("TPR")
    panels[0].legend(frameon=False, fontsize=8)
    return figure


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
