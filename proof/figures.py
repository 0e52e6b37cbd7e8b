"""The figures of the proof, from its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from powermark.evaluation.figures.canvas import BLUE, GREEN, GREY, ORANGE, new_figure, render
from proof.scale import ALPHAS
from proof.size import DATASETS, DETECTORS, SIMULATED

Rows = Sequence[dict[str, Any]]


def sizes(rows: Rows) -> bytes:
    """Draw every measured size over its alpha: nothing may stand above 1 by more than chance."""
    figure = new_figure(9.0, 3.2)
    panels = figure.subplots(1, len(DETECTORS), sharey=True)
    rng = np.random.default_rng(0)
    for ax, detector in zip(panels, DETECTORS, strict=True):
        for human, colour, label in ((False, BLUE, "random tokens"), (True, ORANGE, "human text")):
            mine = [
                row
                for row in rows
                if row["detector"] == detector and (row["source"] != SIMULATED) == human
            ]
            places = [ALPHAS.index(row["alpha"]) + (0.18 if human else -0.18) for row in mine]
            ratios = [row["size"] / row["alpha"] for row in mine]
            spread = rng.uniform(-0.13, 0.13, len(mine))
            ax.plot(places + spread, ratios, ".", color=colour, markersize=2.5, label=label)
        ax.axhline(1.0, color=GREY, linewidth=0.8)
        ax.set_xticks(range(len(ALPHAS)), [f"{alpha:g}" for alpha in ALPHAS])
        ax.set_xlabel("alpha")
        ax.set_title(detector)
    panels[0].set_ylabel("size / alpha, mean over keys")
    panels[0].legend(frameon=False, markerscale=4)
    return render(figure, Path("sizes.svg"))


def keys(rows: Rows, *, gamma: float, n_tokens: int, alpha: float) -> bytes:
    """Draw how the rate varies with the key, by context width: wider contexts are safer."""
    figure = new_figure(8.0, 3.0)
    panels = figure.subplots(1, len(DATASETS), sharey=True)
    lines = (
        ("mean", "size", GREY),
        ("median key", "median_key", GREEN),
        ("95 % of keys below", "p95_key", BLUE),
        ("worst key", "worst_key", ORANGE),
    )
    for ax, name in zip(panels, DATASETS, strict=True):
        wanted = {"source": name, "scheme": "pm1", "gamma": gamma, "n_tokens": n_tokens}
        mine = chosen(rows, **wanted, alpha=alpha, detector="count")
        widths = [row["context_width"] for row in mine]
        for label, column, colour in lines:
            ax.plot(widths, [row[column] for row in mine], "o-", color=colour, label=label)
        ax.axhline(alpha, color=GREY, linewidth=0.8, linestyle=":")
        ax.set_xlabel("context_width")
        ax.set_title(name)
    panels[0].set_ylabel(f"called marked at alpha = {alpha:g}")
    panels[-1].legend(frameon=False)
    return render(figure, Path("keys.svg"))


def promises(rows: Rows) -> bytes:
    """Draw power, promised and measured."""
    figure = new_figure(5.0, 3.4)
    ax = figure.subplots()
    for name, colour in (("power", BLUE), ("attacked_power", ORANGE)):
        numbers = ("measured", "low", "high")
        mine = [
            row
            for row in rows
            if row["check"].removeprefix("window_") == name and row["low"] is not None
        ]
        values = np.array([[row[key] for key in numbers] for row in mine]).reshape(-1, 3)
        errors = np.abs(values[:, 1:].T - values[:, 0])
        promised = [row["promised"] for row in mine]
        ax.errorbar(promised, values[:, 0], errors, fmt="o", color=colour, label=name)
    ax.plot([0.5, 1.0], [0.5, 1.0], color=GREY, linewidth=0.8)
    ax.set_xlabel("promised")
    ax.set_ylabel("measured")
    ax.legend(frameon=False)
    return render(figure, Path("promises.svg"))


def chosen(rows: Rows, **wanted: Any) -> list[dict[str, Any]]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]
