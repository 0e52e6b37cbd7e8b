"""Green rates and KL of real texts against the paper's formula and against the model's profile."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from powermark.calibration.signal import PlugIn, SignalModel
from powermark.evaluation.figures.canvas import BLUE, GREY, ORANGE, new_figure
from powermark.evaluation.reproduction.fits import through_origin
from powermark.evaluation.reproduction.scales import FITTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PREDICTORS = {"plug-in": ORANGE, "profile": BLUE}
AUTHORS = "plug-in at .7 delta"  # what their fits compare with
_MEASURED = {("green_rate", ""): "green_rate", ("kl", ""): "kl_step", ("kl", AUTHORS): "kl_plain"}


def predicted(
    rows: list[dict[str, Any]], profile: SignalModel, temperature: float = 1.0
) -> list[dict[str, Any]]:
    """Return the cells of the linear fits with what each signal model says of them.

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
        told: dict[str, Any] = {}
        for name, signal, factor in predictors:
            delta = factor * row["delta"]
            told[f"green_rate, {name}"] = float(signal.green_rate(row["gamma"], delta))
            told[f"kl, {name}"] = float(signal.kl(row["gamma"], delta))
        measured = {key: row[key] for key in ("green_rate", "kl_step", "kl_plain")}
        if np.isfinite([*measured.values()]).all():
            shown = ("corpus", "gamma", "delta", "texts")
            found.append({key: row[key] for key in shown} | measured | told)
    return found


def fits(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return slope and R^2 for each corpus, quantity and predictor."""
    found = []
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        mine = [row for row in rows if row["corpus"] == corpus]
        for quantity, name in product(("green_rate", "kl"), (*PREDICTORS, AUTHORS)):
            if f"{quantity}, {name}" not in mine[0]:
                continue
            told = np.array([row[f"{quantity}, {name}"] for row in mine])
            measured = _MEASURED.get((quantity, name), _MEASURED[quantity, ""])
            line = through_origin(told, np.array([row[measured] for row in mine]))
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
    lines = fits(rows)
    for axes, corpus in zip(panels, corpora, strict=True):
        mine = [row for row in rows if row["corpus"] == corpus]
        axes.plot([0, 1], [0, 1], color=GREY, lw=1)
        for name, colour in PREDICTORS.items():
            told = [row[f"green_rate, {name}"] for row in mine]
            k = next(
                line["k"]
                for line in lines
                if (line["corpus"], line["quantity"], line["predictor"])
                == (corpus, "green_rate", name)
            )
            seen = [row["green_rate"] for row in mine]
            axes.plot(told, seen, ".", color=colour, label=f"{name}, k = {k:.3f}")
            axes.plot([0, 1], [0, k], color=colour, lw=0.7, ls="--")
        axes.set_title(corpus, fontsize=10)
        axes.set_xlabel("predicted green rate")
        axes.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("measured green rate")
    return figure
