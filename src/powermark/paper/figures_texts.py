"""Figures of what texts show: Q-Q plots, green rates, overdispersion; data first, then drawing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from powermark.checks import Array
from powermark.generation.writing import Record
from powermark.paper.fits import through_origin
from powermark.paper.results import counts_of, inflation
from powermark.paper.settings import FITTED
from powermark.plotting.canvas import BLUE, GREEN, GREY, ORANGE, new_figure
from powermark.signals.signal import PlugIn, SignalModel
from powermark.theory.green_rate import gamma_prime

if TYPE_CHECKING:
    from matplotlib.figure import Figure
PREDICTORS = {"plug-in": ORANGE, "profile": BLUE}
AUTHORS = "plug-in at .7 delta"  # the predictor of their own fits
_MEASURED = {("green_rate", ""): "green_rate", ("kl", ""): "kl_step", ("kl", AUTHORS): "kl_plain"}
DRAWS = 2_000  # of the bootstrap


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


def predicted(
    rows: list[dict[str, Any]], profile: SignalModel, temperature: float = 1.0
) -> list[dict[str, Any]]:
    """Return the cells of the linear line_fits with what each signal model says of them.

    A cell's delta acts after temperature; the authors' is added before, so is ``temperature``
    times that. They measure KL without temperature (``kl_plain``), and compare it and the green
    rate with the plug-in at ``temperature`` times their delta.
    """
    predictors = [("plug-in", PlugIn(), 1.0), ("profile", profile, 1.0)]
    if temperature != 1.0:
        predictors.append((AUTHORS, PlugIn(), temperature**2))
    found = []
    for row in rows:
        meant = row["delta"] * temperature
        if row["method"] != "grid" or not np.isclose(meant, FITTED).any():
            continue
        by_model: dict[str, Any] = {}
        for name, signal, factor in predictors:
            delta = factor * row["delta"]
            by_model[f"green_rate, {name}"] = float(signal.green_rate(row["gamma"], delta))
            by_model[f"kl, {name}"] = float(signal.kl(row["gamma"], delta))
        measured = {key: row[key] for key in ("green_rate", "kl_step", "kl_plain")}
        if np.isfinite([*measured.values()]).all():
            shown = ("corpus", "gamma", "delta", "texts")
            found.append({key: row[key] for key in shown} | measured | by_model)
    return found


def line_fits(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return slope and R^2 for each corpus, quantity and predictor."""
    found = []
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        mine = [row for row in rows if row["corpus"] == corpus]
        for quantity, name in product(("green_rate", "kl"), (*PREDICTORS, AUTHORS)):
            if f"{quantity}, {name}" not in mine[0]:
                continue
            by_model = np.array([row[f"{quantity}, {name}"] for row in mine])
            measured = _MEASURED.get((quantity, name), _MEASURED[quantity, ""])
            line = through_origin(by_model, np.array([row[measured] for row in mine]))
            found.append(
                {
                    "corpus": corpus,
                    "quantity": quantity,
                    "predictor": name,
                    "cells": len(mine),
                    "k": line.slope,
                    "r2": line.r2,
                    "r2_identity": line.r2_identity,
                }
            )
    return found


def draw_green_rates(rows: list[dict[str, Any]]) -> Figure:
    """Draw measured against predicted green rates, a panel a corpus, with k of each fit."""
    corpora = list(dict.fromkeys(row["corpus"] for row in rows))
    figure = new_figure(3.4 * len(corpora), 3.6)
    panels = figure.subplots(1, len(corpora), squeeze=False)[0]
    lines = line_fits(rows)
    for axes, corpus in zip(panels, corpora, strict=True):
        mine = [row for row in rows if row["corpus"] == corpus]
        axes.plot([0, 1], [0, 1], color=GREY, lw=1)
        for name, colour in PREDICTORS.items():
            by_model = [row[f"green_rate, {name}"] for row in mine]
            k = next(
                line["k"]
                for line in lines
                if (line["corpus"], line["quantity"], line["predictor"])
                == (corpus, "green_rate", name)
            )
            seen = [row["green_rate"] for row in mine]
            axes.plot(by_model, seen, ".", color=colour, label=f"{name}, k = {k:.3f}")
            axes.plot([0, 1], [0, k], color=colour, lw=0.7, ls="--")
        axes.set_title(corpus, fontsize=10)
        axes.set_xlabel("predicted green rate")
        axes.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("measured green rate")
    return figure


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
    value, low, high, by_model = (
        np.array([row[k] for row in rows]) for k in ("c_hat", "low", "high", "profile")
    )
    axes.vlines(places, low, high, color=BLUE)
    axes.plot(places, value, "o", color=GREEN, label="texts, with 95 % bootstrap interval")
    axes.plot(places, by_model, "D", color=ORANGE, ms=5, label="profile")
    axes.set_xticks(places, [row["corpus"] for row in rows])
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_ylabel("variance inflation c")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure
