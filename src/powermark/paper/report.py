"""Every figure, table and claim by name, and the page that shows them all."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from string import Template
from typing import TYPE_CHECKING

from powermark.paper import (
    claims,
    claims_contest,
    figures_formulas,
    figures_methods,
    figures_texts,
)
from powermark.paper.claims import Claim
from powermark.paper.results import Row, regressions, survivors
from powermark.paper.settings import AUTHORS_TEMPERATURE
from powermark.paper.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Artefact:
    """Named tables, and a drawing of them; a table that is ``small`` is shown on the page."""

    tables: dict[str, list[Row]]
    figure: Figure | None = None
    small: bool = False


def _roots(_: Study | None) -> Artefact:
    a, b = figures_formulas.root_powers(), figures_formulas.root_crossings()
    return Artefact({"-a": a, "-b": b}, figures_formulas.draw_roots(a, b))


def _long_form(_: Study | None) -> Artefact:
    rows = figures_formulas.needed_kl()
    return Artefact({"": rows}, figures_formulas.draw_needed_kl(rows))


def _r2(study: Study) -> Artefact:
    rows = [
        {"temperature": temperature, **row}
        for temperature in (1.0, AUTHORS_TEMPERATURE)
        for row in figures_texts.line_fits(study.predictions(temperature))
    ]
    return Artefact({"": rows}, small=True)


def _green_rate(study: Study) -> Artefact:
    rows = study.predictions()
    return Artefact({"": rows}, figures_texts.draw_green_rates(rows))


BY_FORMULA: dict[str, Callable[[Study | None], Artefact]] = {
    "table-hypergeometric": lambda _: Artefact(
        {"": figures_formulas.hypergeometric_table()}, small=True
    ),
    "fig-roots": _roots,
    "fig-long-form": _long_form,
}
BY_STUDY: dict[str, Callable[[Study], Artefact]] = {
    "fig-qq": lambda s: Artefact({"": s.quantiles}, figures_texts.draw_quantiles(s.quantiles)),
    "fig-green-rate": _green_rate,
    "table-r2": _r2,
    "table-cells": lambda s: Artefact(
        {"": s.rows, "-final": s.final_rows, "-cooler": s.cooler_rows}
    ),
    "table-false-positives": lambda s: Artefact({"": s.false_positives}),
    "fig-pareto": lambda s: Artefact({"": s.points}, figures_methods.draw_pareto(s.points)),
    "fig-gamma-zero": lambda s: Artefact({"": s.points}, figures_methods.draw_gamma_zero(s.points)),
    "fig-quality": lambda s: Artefact({"": s.quality}, figures_methods.draw_quality(s.quality)),
    "table-quality": lambda s: Artefact({"": regressions(s.quality)}, small=True),
    "table-winmax-c": lambda s: Artefact({"": survivors(s.held), "-cells": s.attacked}, small=True),
    "fig-inflation": lambda s: Artefact(
        {"": s.inflations}, figures_texts.draw_inflations(s.inflations)
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


def all_claims(study: Study) -> list[Claim]:
    """Return every claim, in the paper's order."""
    return [
        claims.hypergeometric(),
        claims.roots(),
        claims.budget(),
        claims.size(),
        claims.long_form(),
        claims.false_positives(study),
        *claims.normality(study),
        *claims.fits(study),
        *claims_contest.pareto(study),
        *claims_contest.cheapest(study),
        claims_contest.below_gamma_zero(study),
        *claims.quality(study),
        *claims_contest.removal(study),
        claims_contest.windows(study),
        claims.inflation(study),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A figure (SVG) or small table under its name."""

    name: str
    caption: str
    figure: bytes | None = None
    rows: Sequence[Row] = field(default=())


def reproduction_page(
    found: Sequence[Claim], sections: Sequence[Section], about: Mapping[str, str]
) -> str:
    """Return HTML with every claim, figures and small tables, and how they were made."""
    return _PAGE.substitute(
        counts=", ".join(
            f"{sum(claim.verdict == word for claim in found)} {word}"
            for word in ("reproduced", "corrected", "differs", "not decided")
        ),
        about="".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in about.items()),
        rows="".join(_row(claim) for claim in found),
        sections="".join(map(_section, sections)),
    )


def _row(claim: Claim) -> str:
    why = f"<br><small>{escape(claim.why)}</small>" if claim.why else ""
    colour = claim.verdict.split()[-1]
    return (
        f"<tr><td>{escape(claim.statement)}</td><td>{escape(claim.paper)}</td>"
        f'<td>{escape(claim.ours)}</td><td class="{colour}">{claim.verdict}{why}</td></tr>'
    )


def _section(section: Section) -> str:
    shown = ""
    if section.figure is not None:
        data = base64.b64encode(section.figure).decode()
        alt = escape(section.caption, quote=True)
        shown = f'<img alt="{alt}" src="data:image/svg+xml;base64,{data}">'
    if section.rows:
        head = "".join(f"<th>{escape(name)}</th>" for name in section.rows[0])
        lines = ("".join(map(_value, row.values())) for row in section.rows)
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        shown += f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
    caption = f"<b>{escape(section.name)}</b> {escape(section.caption)}"
    return f"<figure><figcaption>{caption}</figcaption>{shown}</figure>"


def _value(value: object) -> str:
    shown = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"<td>{escape(shown)}</td>"


_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper, reproduced</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1f24; background: #fff; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .5rem .7rem;
  border-bottom: 1px solid #ddd; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dd { margin: 0; }
.scroll { overflow-x: auto; }
.reproduced { color: #00664b; } .corrected { color: #0a5a8a; } .differs { color: #a04000; }
.decided { color: #666; }
small { color: #555; }
figure { margin: 2rem 0; } img { max-width: 100%; background: #fff; } figcaption { color: #555; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #15181c; } th, td { border-color: #3a3f45; }
  .reproduced { color: #5fd3ae; } .corrected { color: #7cc4f0; } .differs { color: #f0a070; }
  .decided { color: #aaa; }
  small, figcaption { color: #aaa; } }
</style></head><body>
<h1>The paper, reproduced</h1>
<p>Beyond Heuristic Tuning: Power-Calibrated LLM Watermarking (ICML 2026), statement by
statement: $counts. Verdicts are worth what the number of texts below is worth.</p>
<dl>$about</dl>
<div class="scroll"><table><tr><th>statement</th><th>the paper</th><th>here</th><th></th></tr>
$rows</table></div>
$sections
</body></html>
""")
