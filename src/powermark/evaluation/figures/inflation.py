"""Overdispersion of green counts, corpus by corpus: the paper's c-hat and how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from powermark.checks import Array
from powermark.evaluation.figures.canvas import BLUE, GREEN, GREY, ORANGE, new_figure
from powermark.evaluation.reproduction.summary import inflation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS = 2_000


def inflations(counts: dict[str, Array], predicted: dict[str, float]) -> list[dict[str, Any]]:
    """Return c-hat of each corpus with its bootstrap interval, and what the profile says.

    ``counts`` are greens of texts that were marked alike.
    """
    rows = []
    for corpus, found in counts.items():
        seen = found[np.isfinite(found)]
        rng = np.random.default_rng(0)
        draws = [inflation(rng.choice(seen, seen.size)) for _ in range(DRAWS if seen.size else 0)]
        spread = np.array([draw for draw in draws if np.isfinite(draw)])
        low, high = np.quantile(spread, [0.025, 0.975]) if spread.size else (np.nan, np.nan)
        rows.append(
            {
                "corpus": corpus,
                "texts": int(seen.size),
                "c_hat": inflation(seen),
                "low": float(low),
                "high": float(high),
                "profile": predicted[corpus],
            }
        )
    return rows


def draw_inflations(rows: list[dict[str, Any]]) -> Figure:
    """Draw a bar with its interval for each corpus, and the profile's value as a diamond."""
    figure = new_figure(5.2, 3.2)
    axes = figure.subplots()
    axes.axhline(1.0, color=GREY, lw=1, ls=":", label="independent tokens")
    places = np.arange(len(rows))
    value, low, high, told = (
        np.array([row[k] for row in rows]) for k in ("c_hat", "low", "high", "profile")
    )
    axes.vlines(places, low, high, color=BLUE)
    axes.plot(places, value, "o", color=GREEN, label="texts, with 95 % bootstrap interval")
    axes.plot(places, told, "D", color=ORANGE, ms=5, label="profile")
    axes.set_xticks(places, [row["corpus"] for row in rows])
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_ylabel("variance inflation c")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure
