"""The figures of the proof, from its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from powermark.plotting.canvas import BLUE, GREEN, GREY, ORANGE, new_figure, render
from powermark.statistics.calls import DETECTORS
from proof.scale import ALPHAS
from proof.size import DATASETS, HUMAN, SIMULATED, TEMPLATES, text_of

_EDGE = 3.0  # of the drawn sizes, in alphas
Rows = Sequence[dict[str, Any]]


def sizes(rows: Rows, limit: float) -> bytes:
    """Draw every measured size over its alpha, and below it the evidence that it is above.

    A cell of few texts can be far above by chance, and is drawn at the edge; what counts is the
    evidence, which must stay below the limit.
    """
    figure = new_figure(9.0, 5.2)
    panels = figure.subplots(2, len(DETECTORS), sharex=True, sharey="row")
    rng = np.random.default_rng(0)
    for (above, below), detector in zip(panels.T, DETECTORS, strict=True):
        for text, colour, label, place in (
            (SIMULATED, BLUE, "random tokens", -0.28),
            (HUMAN, ORANGE, "human text", 0.0),
            (TEMPLATES, GREEN, "templates", 0.28),
        ):
            mine = [
                row
                for row in rows
                if row["detector"] == detector and text_of(row["source"]) == text
            ]
            places = np.array([ALPHAS.index(row["alpha"]) + place for row in mine])
            places = places + rng.uniform(-0.1, 0.1, len(mine))
            ratios = np.array([row["size"] / row["alpha"] for row in mine])
            for marker, some in ((".", ratios <= _EDGE), ("^", ratios > _EDGE)):
                shown = np.minimum(ratios[some], _EDGE)
                above.plot(
                    places[some], shown, marker, color=colour, markersize=2.5, rasterized=True
                )
            evidence = [row["log_evidence"] for row in mine]
            below.plot(
                places, evidence, ".", color=colour, markersize=2.5, label=label, rasterized=True
            )
        above.axhline(1.0, color=GREY, linewidth=0.8)
        below.axhline(limit, color=GREY, linewidth=0.8)
        below.set_xticks(range(len(ALPHAS)), [f"{alpha:g}" for alpha in ALPHAS])
        below.set_xlabel("alpha")
        above.set_title(detector)
    panels[0, 0].set_ylabel("size / alpha, mean over keys")
    panels[1, 0].set_ylabel("log evidence against it")
    panels[1, 0].legend(frameon=False, markerscale=4, loc="center left")
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
