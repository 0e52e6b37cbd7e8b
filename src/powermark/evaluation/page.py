"""A verification for people: a page that stands alone."""

from __future__ import annotations

from html import escape

from powermark.evaluation.verification import Check, Verification
from powermark.pages import page

_CALLED = {
    "gamma_prime": "green rate",
    "kl": "KL, nats per token",
    "power": "power",
    "size": "size (false positives)",
    "attacked_power": "power after edits",
    "window_power": "power of the window detector",
    "window_size": "its size (false positives)",
    "window_attacked_power": "its power after edits",
}


def verification_page(found: Verification) -> str:
    """Return a page with no script, no style sheet and no picture from elsewhere."""
    return _PAGE.substitute(
        title=_title(found),
        verdict=escape(found.verdict()),
        mark=escape(
            f"gamma {found.gamma:.4f}, delta {found.delta:.3f}; planned for {found.n_tokens} "
            f"counted tokens at alpha = {found.alpha:g}"
        ),
        rows="".join(_row(check) for check in found.checks),
        notes="".join(f"<p>{escape(note)}</p>" for note in found.notes),
        signature=escape(found.signature),
    )


def _title(found: Verification) -> str:
    if found.broken:
        return "promise broken"
    kept = all(check.holds for check in found.checks)
    return "promise kept" if kept else "too little is known"


def _row(check: Check) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in check.cells())
    word = check.verdict.lower()
    drawn = _bar(check) if check.measured.known else ""
    return (
        f"<tr><th>{escape(_CALLED[check.name])}</th>{cells}"
        f'<td class="{word}">{word}</td><td>{drawn}</td></tr>'
    )


def _bar(check: Check) -> str:
    """Draw the interval as a line, the measurement as a dot and the promise as a stroke."""
    seen = check.measured
    points = [seen.low, seen.high, check.promised, check.plug_in]
    low, high = min(points), max(points)
    room = (high - low) or 1.0

    def x(value: float) -> float:
        return 8.0 + 144.0 * (value - low) / room

    return (
        '<svg viewBox="0 0 160 24" role="img" aria-label="interval, measurement and promise">'
        f'<line class="interval" x1="{x(seen.low):.1f}" x2="{x(seen.high):.1f}" y1="12" y2="12"/>'
        f'<circle cx="{x(seen.value):.1f}" cy="12" r="4"/>'
        f'<line class="promise" x1="{x(check.promised):.1f}" x2="{x(check.promised):.1f}" y1="3" '
        f'y2="21"/>'
        f'<line class="plain" x1="{x(check.plug_in):.1f}" x2="{x(check.plug_in):.1f}" y1="6" '
        f'y2="18"/></svg>'
    )


_PAGE = page(
    "$title",
    width=56,
    style="""\
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd }
.wide { overflow-x: auto } .broken { color: #a40000; font-weight: 700 } .kept { color: #1a7f37 }
svg { width: 10rem } .interval { stroke: #1f4e9c; stroke-width: 3 } circle { fill: #1f4e9c }
.promise { stroke: #1b1b1b; stroke-width: 2 } .plain { stroke: #8a5a00; stroke-dasharray: 3 2 }
""",
    body="""\
<h1>$title</h1>
<p>$verdict</p>
<p>$mark</p>
<div class="wide"><table>
<tr><th></th><th>promised</th><th>profile</th><th>plug-in</th><th>measured</th><th>interval</th>
<th></th><th></th></tr>
$rows</table></div>
<p>Of each row: the interval of the measurement as a line with a dot, the promise as a stroke, what
the plug-in says as a dashed one. The intervals hold together with 95 %.</p>
$notes
<footer><p>$signature</p></footer>
""",
)
