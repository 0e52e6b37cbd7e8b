"""``Verification``: what was promised of a mark beside what was measured."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from powermark.evaluation.measure import Estimate
from powermark.tables import table


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One quantity: what was promised, what other signal models say, what was measured.

    ``holds`` is None where too little was measured, or is known of the promise, to say.
    """

    name: str
    promised: float
    plug_in: float
    profile: float | None
    measured: Estimate
    holds: bool | None

    @property
    def verdict(self) -> str:
        """One word."""
        return {True: "kept", False: "BROKEN", None: "unknown"}[self.holds]

    def cells(self) -> list[str]:
        """Return the numbers as words: promised, profile, plug-in, measured and its interval."""
        seen = self.measured
        words = [f"{self.promised:.4f}", "-" if self.profile is None else f"{self.profile:.4f}"]
        words.append(f"{self.plug_in:.4f}")
        if not seen.known:
            return [*words, "-", "-"]
        return [*words, f"{seen.value:.4f}", f"{max(seen.low, 0.0):.4f} to {seen.high:.4f}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Every check, and how many texts they rest on.

    ``texts`` were written with the mark and as many without; ``marked`` and ``unmarked`` of them
    had the tokens that the test needs. ``speed`` is in tokens per second, where it was measured.
    """

    checks: tuple[Check, ...]
    n_tokens: int
    alpha: float
    gamma: float
    delta: float
    texts: int
    marked: int
    unmarked: int
    notes: tuple[str, ...]
    signature: str
    speed: dict[str, float] | None = None

    @property
    def broken(self) -> list[str]:
        """Names of the checks that failed."""
        return [check.name for check in self.checks if check.holds is False]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints."""
        found = dataclasses.asdict(self)
        for check, plain in zip(self.checks, found["checks"], strict=True):
            plain["measured"] = check.measured.to_dict()
        return {**found, "broken": self.broken}

    def table(self) -> list[list[str]]:
        """Return the checks as rows of words, with a heading."""
        heading = ["", "promised", "profile", "plug-in", "measured", "interval", ""]
        return [heading, *([check.name, *check.cells(), check.verdict] for check in self.checks)]

    def __str__(self) -> str:
        lines = [table(self.table(), "<"), self.verdict(), *self.notes, self.signature]
        return "\n".join(lines)

    def verdict(self) -> str:
        """Say in one sentence whether the promise holds."""
        seen = (
            f"{self.marked} marked and {self.unmarked} unmarked texts of {self.n_tokens} counted "
            f"tokens"
        )
        if self.broken:
            return f"The promise is broken on {seen}: {', '.join(self.broken)}."
        unknown = [check.name for check in self.checks if check.holds is None]
        if unknown:
            return f"Too little is known to say, on {seen}: {', '.join(unknown)}."
        return f"The promise holds on {seen}."
