"""``Verification``: promised beside measured values, as a table, JSON or a page."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from powermark.measuring.estimates import Estimate
from powermark.pages import page
from powermark.tables import table

_CALLED = {
    "gamma_prime": "green rate",
    "kl": "KL, nats per token that counts",
    "power": "power",
    "size": "size (false positives)",
    "attacked_power": "power after edits",
    "coverage": "coverage: share of answers found",
    "attacked_coverage": "coverage after edits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One quantity: its promised value, what other signal models predict, and the measured one.

    ``by_ids`` is measured on the sampled ids. ``holds`` is None if too little was measured, or is
    known of the promise, to decide; ``texts_needed`` is then the number of texts that would be
    enough if the same share of them is found.
    """

    name: str
    promised: float
    plug_in: float
    profile: float | None
    measured: Estimate
    by_ids: Estimate | None
    holds: bool | None
    texts_needed: int | None

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.texts_needed is not None:
            return "not enough texts"
        return {True: "kept", False: "BROKEN", None: "unknown"}[self.holds]

    def cells(self) -> list[str]:
        """Return the numbers as text: promised, profile, plug-in, measured, interval, by ids."""
        measured = self.measured
        words = [f"{self.promised:.4f}", "-" if self.profile is None else f"{self.profile:.4f}"]
        words.append(f"{self.plug_in:.4f}")
        if not measured.known:
            return [*words, "-", "-", "-"]
        words += [f"{measured.value:.4f}", f"{max(measured.low, 0.0):.4f} to {measured.high:.4f}"]
        return [*words, "-" if self.by_ids is None else f"{self.by_ids.value:.4f}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Every check, and the number of texts behind them.

    ``texts`` were written with the mark and as many without; ``marked`` and ``unmarked`` of them
    have the plan's number of tokens. ``read`` says whether copies of the ``text`` or the sampled
    ``ids`` were judged. ``speed`` is in tokens per second, if it was measured. ``about`` names what
    was verified: model, sampling, prompts, spec, key, date and version.
    """

    checks: tuple[Check, ...]
    n_tokens: int
    alpha: float
    gamma: float
    delta: float
    read: Literal["text", "ids"]
    texts: int
    marked: int
    unmarked: int
    notes: tuple[str, ...]
    signature: str
    speed: dict[str, float] | None = None
    about: dict[str, str] | None = None

    @property
    def broken(self) -> list[str]:
        """Names of the checks that failed."""
        return [check.name for check in self.checks if check.holds is False]

    @property
    def outcome(self) -> Literal["kept", "broken", "not enough texts", "unknown"]:
        """All checks together."""
        if self.broken:
            return "broken"
        if any(check.texts_needed is not None for check in self.checks):
            return "not enough texts"
        return "kept" if all(check.holds for check in self.checks) else "unknown"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints."""
        found = dataclasses.asdict(self)
        for check, plain in zip(self.checks, found["checks"], strict=True):
            plain["measured"] = check.measured.to_dict()
            plain["by_ids"] = None if check.by_ids is None else check.by_ids.to_dict()
        return {**found, "broken": self.broken, "outcome": self.outcome}

    def table(self) -> list[list[str]]:
        """Return the checks as rows of text, with a heading."""
        heading = ["", "promised", "profile", "plug-in", "measured", "interval", "by ids", ""]
        return [heading, *([check.name, *check.cells(), check.verdict] for check in self.checks)]

    def __str__(self) -> str:
        lines = [table(self.table(), "<"), self.verdict(), *self.notes, self.signature]
        return "\n".join(lines)

    def verdict(self) -> str:
        """Return one sentence: whether the promise holds."""
        seen = f"{self.texts} marked and as many unmarked texts, judged by their {self.read}"
        if self.outcome == "broken":
            return f"The promise is broken on {seen}: {', '.join(self.broken)}."
        few = {c.name: c.texts_needed for c in self.checks if c.texts_needed is not None}
        if few:
            needed = ", ".join(f"{name} needs {texts:,}" for name, texts in few.items())
            return f"There are not enough texts to say, on {seen}: {needed}."
        unknown = [check.name for check in self.checks if check.holds is None]
        if unknown:
            return f"Too little is known to say, on {seen}: {', '.join(unknown)}."
        return f"The promise holds on {seen}."


def verification_page(found: Verification) -> str:
    """Return a self-contained page: no script, and nothing loaded from elsewhere."""
    return _PAGE.substitute(
        title=_title(found),
        verdict=escape(found.verdict()),
        mark=escape(
            f"gamma {found.gamma:.4f}, delta {found.delta:.3f}; planned for {found.n_tokens} "
            f"counted tokens at alpha = {found.alpha:g}"
        ),
        rows="".join(_row(check) for check in found.checks),
        notes="".join(f"<p>{escape(note)}</p>" for note in found.notes),
        about="".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in (found.about or {}).items()
        ),
        signature=escape(found.signature),
    )


def _title(found: Verification) -> str:
    words = {"kept": "promise kept", "broken": "promise broken", "unknown": "too little is known"}
    return words.get(found.outcome, found.outcome)


def _row(check: Check) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in check.cells())
    word = check.verdict.lower()
    drawn = _bar(check) if check.measured.known else ""
    return (
        f"<tr><th>{escape(_CALLED[check.name])}</th>{cells}"
        f'<td class="{word.replace(" ", "-")}">{word}</td><td>{drawn}</td></tr>'
    )


def _bar(check: Check) -> str:
    """Draw the interval as a line, the measurement as a dot, promise and plug-in as strokes."""
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
<th>by ids</th><th></th><th></th></tr>
$rows</table></div>
<p>The pictures show the measurement's interval (line), the measurement (dot), the promise (stroke)
and the plug-in's value (dashed stroke). The intervals hold together with 95 %.</p>
$notes
<table>$about</table>
<footer><p>$signature</p></footer>
""",
)
