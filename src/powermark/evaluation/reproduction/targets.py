"""Every figure and table by name: its data, and the picture where there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from powermark.evaluation.figures import (
    green_rate,
    hypergeometric,
    inflation,
    long_form,
    pareto,
    qq,
    quality,
    roots,
)
from powermark.evaluation.reproduction.attacked import survivors
from powermark.evaluation.reproduction.likeness import regressions
from powermark.evaluation.reproduction.scales import AUTHORS_TEMPERATURE
from powermark.evaluation.reproduction.study import Study
from powermark.evaluation.reproduction.summary import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Artefact:
    """Named tables, and a drawing of them; a table that is ``small`` is shown on the page."""

    tables: dict[str, list[Row]]
    figure: Figure | None = None
    small: bool = False


def _roots(_: Study | None) -> Artefact:
    a, b = roots.panel_a(), roots.panel_b()
    return Artefact({"-a": a, "-b": b}, roots.draw_roots(a, b))


def _long_form(_: Study | None) -> Artefact:
    rows = long_form.needed_kl()
    return Artefact({"": rows}, long_form.draw_needed_kl(rows))


def _r2(study: Study) -> Artefact:
    rows = [
        {"temperature": temperature, **row}
        for temperature in (1.0, AUTHORS_TEMPERATURE)
        for row in green_rate.fits(study.predictions(temperature))
    ]
    return Artefact({"": rows}, small=True)


def _green_rate(study: Study) -> Artefact:
    rows = study.predictions()
    return Artefact({"": rows}, green_rate.draw_green_rates(rows))


BY_FORMULA: dict[str, Callable[[Study | None], Artefact]] = {
    "table-hypergeometric": lambda _: Artefact(
        {"": hypergeometric.hypergeometric_table()}, small=True
    ),
    "fig-roots": _roots,
    "fig-long-form": _long_form,
}
BY_STUDY: dict[str, Callable[[Study], Artefact]] = {
    "fig-qq": lambda s: Artefact({"": s.quantiles}, qq.draw_quantiles(s.quantiles)),
    "fig-green-rate": _green_rate,
    "table-r2": _r2,
    "table-cells": lambda s: Artefact(
        {"": s.rows, "-final": s.final_rows, "-cooler": s.cooler_rows}
    ),
    "table-false-positives": lambda s: Artefact({"": s.false_positives}),
    "fig-pareto": lambda s: Artefact({"": s.points}, pareto.draw_pareto(s.points)),
    "fig-gamma-zero": lambda s: Artefact({"": s.points}, pareto.draw_gamma_zero(s.points)),
    "fig-quality": lambda s: Artefact({"": s.likeness}, quality.draw_quality(s.likeness)),
    "table-quality": lambda s: Artefact({"": regressions(s.likeness)}, small=True),
    "table-winmax-c": lambda s: Artefact({"": survivors(s.held), "-cells": s.attacked}, small=True),
    "fig-inflation": lambda s: Artefact(
        {"": s.inflations}, inflation.draw_inflations(s.inflations)
    ),
}
CAPTIONS = {
    "table-hypergeometric": "The green rate of Theorem 3.5, exact and for a large vocabulary.",
    "fig-roots": "Powers of the two green shares that cost a KL budget, and where they cross.",
    "fig-long-form": "KL that a power of .95 costs, against the length of texts.",
    "fig-qq": "Standardised green counts against the normal law, unmarked (H0) and marked (H1).",
    "fig-green-rate": "Measured against predicted green rates, temperature 1; dashed y = kx, grey "
    "y = x.",
    "table-r2": "Fits y = kx of green rate and KL: slope, R², and R² of y = x.",
    "table-cells": "Every cell of the search, of the final and of the cooler run.",
    "table-false-positives": "Tests on unmarked texts, for every gamma compared.",
    "fig-pareto": "TPR against −log KL. Above, all cells of the search, with the frontier (dashed) "
    "and logistic curve of each method; below, those that were written anew. Exact tests of size "
    "at most .05, but for the authors'.",
    "fig-gamma-zero": "The grid by whether gamma is below gamma_zero(delta).",
    "fig-quality": "TPR against likeness to the unmarked text of the same prompt.",
    "table-quality": "Likeness as a linear function of KL.",
    "table-winmax-c": "Least KL (and its −log) that keeps TPR .95 before and after a share of a "
    "text is replaced, by detector; empty where no cell does.",
    "fig-inflation": "Overdispersion of green counts, gamma .2, delta 1.",
}
