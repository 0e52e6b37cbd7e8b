"""One statement of the paper beside what was found, and what to make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["reproduced", "corrected", "differs", "not decided"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper, its number, ours, and whether they agree; ``why`` if not."""

    statement: str
    paper: str
    ours: str
    verdict: Verdict
    why: str = ""
