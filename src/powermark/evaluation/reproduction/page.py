"""The whole reproduction on one page that stands alone."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from string import Template

from powermark.evaluation.reproduction.claims import Claim
from powermark.evaluation.reproduction.summary import Row


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
    told = f"<b>{escape(section.name)}</b> {escape(section.caption)}"
    return f"<figure><figcaption>{told}</figcaption>{shown}</figure>"


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
