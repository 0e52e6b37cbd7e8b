"""``Inspection``: a detection with the state of every token, as JSON and as a page.

The three states of tokens can be told apart without colour: green ones are underlined, red ones are
not, and those that do not count are grey and in italics.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

from powermark.checks import Array
from powermark.counting import SCORED
from powermark.detection.detection import Detection
from powermark.detection.scoring import REASONS, Scores
from powermark.pages import page
from powermark.statistics.p_values import log_e_path

_CALLED = {
    "count": "count of green tokens",
    "winmax": "best window",
    "winmax-c": "text without its worst block",
    "evalue": "evidence at its highest",
}
SHOWN = 20_000  # tokens on a page or in a terminal; more would only slow it down


class Piece(NamedTuple):
    """A stretch of text and its state: green, red, or the reason why it does not count."""

    text: str
    state: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """A detection with its evidence: made by :meth:`powermark.Detector.inspect`.

    ``scores`` has the state of every token, ``words`` the characters of each.
    """

    detection: Detection
    scores: Scores
    words: list[str]

    @property
    def pieces(self) -> list[Piece]:
        """The text, token by token, with the state of each."""
        states = zip(self.scores.state.tolist(), self.scores.green.tolist(), strict=True)
        return [
            Piece(word, ("green" if green else "red") if state == SCORED else REASONS[state])
            for word, (state, green) in zip(self.words, states, strict=True)
        ]

    @property
    def evidence(self) -> Array:
        """The running evidence of the tokens that count, in nats."""
        found = self.detection
        if found.bet <= found.gamma or found.scored == 0:
            return np.zeros(0)
        return log_e_path(self.scores.colours(), found.gamma, found.bet)

    def to_dict(self) -> dict[str, Any]:
        """Return the detection, in plain words too, each token's state, and the evidence."""
        return {
            **self.detection.to_dict(),
            "statement": statement(self.detection),
            "pieces": [piece._asdict() for piece in self.pieces],
            "evidence": self.evidence.tolist(),
        }

    def html(self) -> str:
        """Return a page with no script, no style sheet and no picture from elsewhere."""
        found, shown = self.detection, self.pieces
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in _facts(found)
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in found.warnings)
        tokens = "".join(map(_span, shown[:SHOWN]))
        more = len(shown) - SHOWN
        return _PAGE.substitute(
            verdict=escape(found.verdict),
            statement=escape(statement(found)),
            rows=rows,
            notes=f"<ul>{notes}</ul>" if notes else "",
            tokens=tokens + (f"<p>{more} more tokens are not shown.</p>" if more > 0 else ""),
            chart=_chart(self.evidence, found.alpha / found.looks),
            signature=escape(found.signature),
        )


def _span(piece: Piece) -> str:
    kind = piece.state if piece.state in ("green", "red") else "out"
    return f'<span class="{kind}" title="{escape(piece.state)}">{escape(piece.text)}</span>'


def statement(found: Detection) -> str:
    """Return the verdict in plain words, and its limits."""
    greens = f"{found.green} of {found.scored} counted tokens are green."
    looks = f" (corrected for {found.looks} looks)" if found.looks > 1 else ""
    chance = (
        f"Text without this mark gets such evidence, or more, with probability {found.p:.2g} by "
        f"the {_CALLED[found.detector]}{looks}"
    )
    if found.verdict == "watermarked":
        first = f"{greens} {chance}, which is within the chosen bound of {found.alpha:g}."
    elif found.verdict == "no watermark found":
        first = (
            f"{greens} {chance}. A text marked as planned would have been found with probability "
            f"{found.power:.2f}."
        )
    else:
        first = (
            f"Only {found.scored} tokens count. A marked text of this length would be found with "
            f"probability {found.power:.2f}, so that finding nothing means little."
        )
    return (
        f"{first} This says how the text fits one key's mark. It does not say who wrote it: "
        f"marked text can be quoted, edited or imitated, and a text without the mark may come from "
        f"another model. Among many texts without the mark, a share of up to {found.alpha:g} is "
        f"found marked by chance."
    )


def _facts(found: Detection) -> list[tuple[str, str]]:
    rate = "-" if found.green_rate is None else f"{found.green_rate:.3f}"
    interval = f"{found.green_rate_low:.3f} to {found.green_rate_high:.3f}"
    facts = [
        ("p-value", f"{found.p:.3g} ({found.bits:.1f} bits; {found.detector})"),
        ("alpha", f"{found.alpha:g}"),
        ("tokens", f"{found.tokens}; {found.scored} count, {found.repeated} are repeats"),
        ("green rate", f"{rate} (95 % interval {interval})"),
        ("expected", f"{found.gamma:.3f} without the mark, {found.gamma_prime:.3f} with it"),
        ("power at this length", f"{found.power:.3f}"),
    ]
    if found.keys_tried > 1:
        facts.append(("keys tried", f"{found.keys_tried}; best: {found.key}"))
    if found.looks > 1:
        facts.append(("looks", f"{found.looks}; p is multiplied by their number"))
    return facts


def _chart(path: Array, alpha: float) -> str:
    """Draw the running evidence as SVG, with the line that it must cross."""
    if path.size == 0:
        return "<p>No token counts.</p>"
    step = max(1, path.size // 600)
    values = np.concatenate([[0.0], path])[::step]
    goal = -float(np.log(alpha))
    low, high = min(0.0, float(values.min())), max(goal * 1.2, float(values.max()))

    def y(value: float) -> float:
        return 10.0 + 160.0 * (high - value) / (high - low)

    xs = 40.0 + 550.0 * np.arange(values.size) / max(1, values.size - 1)
    line = " ".join(f"{x:.1f},{y(v):.1f}" for x, v in zip(xs, values, strict=True))
    return (
        '<svg viewBox="0 0 600 190" role="img" aria-label="running evidence in nats">'
        f'<line x1="40" x2="590" y1="{y(goal):.1f}" y2="{y(goal):.1f}" class="goal"/>'
        f'<text x="45" y="{y(goal) - 4:.1f}">{goal:.1f} nats are enough</text>'
        f'<line x1="40" x2="590" y1="{y(0.0):.1f}" y2="{y(0.0):.1f}" class="axis"/>'
        f'<text x="8" y="{y(0.0) + 4:.1f}">0</text><text x="8" y="18">{high:.0f}</text>'
        f'<polyline points="{line}"/>'
        f'<text x="430" y="186">{path.size} counted tokens</text></svg>'
    )


_PAGE = page(
    "$verdict",
    width=46,
    style="""\
th { text-align: left; padding-right: 1.5rem; font-weight: 600 }
.text { white-space: pre-wrap; border: 1px solid #ccc; border-radius: 6px; padding: 1rem;
  overflow-wrap: anywhere }
.green { background: #d9f2dc; text-decoration: underline 2px #1a7f37 }
.red { background: #fbe3e1 } .out { color: #6b6b6b; font-style: italic }
svg { width: 100% } polyline { fill: none; stroke: #1f4e9c; stroke-width: 2 }
.goal { stroke: #8a5a00; stroke-dasharray: 6 4 } .axis { stroke: #999 }
svg text { font: 11px system-ui, sans-serif; fill: #444 }
""",
    body="""\
<h1>$verdict</h1>
<p>$statement</p>
<table>$rows</table>$notes
<h2>Tokens</h2>
<p><span class="green">green</span> <span class="red">red</span>
<span class="out">does not count</span></p>
<div class="text">$tokens</div>
<h2>Running evidence</h2>
<p>Natural logarithm of the evidence for the mark, token by token. At the dashed line it is
enough, whenever one looks.</p>
$chart
<footer><p>$signature</p></footer>
""",
)
