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
    """Named tables, and a drawing of them."""

    tables: dict[str, list[Row]]
    figure: Figure | None = None


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
    return Artefact({"": rows})


def _green_rate(study: Study) -> Artefact:
    rows = study.predictions()
    return Artefact({"": rows}, green_rate.draw_green_rates(rows))


BY_FORMULA: dict[str, Callable[[Study | None], Artefact]] = {
    "table-hypergeometric": lambda _: Artefact({"": hypergeometric.hypergeometric_table()}),
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
    "table-quality": lambda s: Artefact({"": regressions(s.likeness)}),
    "table-winmax-c": lambda s: Artefact({"": survivors(s.held), "-cells": s.attacked}),
    "fig-inflation": lambda s: Artefact(
        {"": s.inflations}, inflation.draw_inflations(s.inflations)
    ),
}
