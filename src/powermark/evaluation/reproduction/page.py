"""The whole reproduction on one page that stands alone."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from string import Template

from powermark.evaluation.reproduction.claims import Claim


def reproduction_page(
    found: Sequence[Claim], figures: Mapping[str, bytes], about: Mapping[str, str]
) -> str:
    """Return HTML with every claim, every figure (SVG) and how they were made."""
    return _PAGE.substitute(
        counts=", ".join(
            f"{sum(claim.verdict == word for claim in found)} {word}"
            for word in ("reproduced", "corrected", "differs", "not decided")
        ),
        about="".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in about.items()),
        rows="".join(_row(claim) for claim in found),
        figures="".join(_figure(name, content) for name, content in figures.items()),
    )


def _row(claim: Claim) -> str:
    why = f"<br><small>{escape(claim.why)}</small>" if claim.why else ""
    colour = claim.verdict.split()[-1]
    return (
        f"<tr><td>{escape(claim.statement)}</td><td>{escape(claim.paper)}</td>"
        f'<td>{escape(claim.ours)}</td><td class="{colour}">{claim.verdict}{why}</td></tr>'
    )


def _figure(name: str, content: bytes) -> str:
    data = base64.b64encode(content).decode()
    return (
        f'<figure><img alt="{escape(name)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(name)}</figcaption></figure>"
    )


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
$figures
</body></html>
""")
