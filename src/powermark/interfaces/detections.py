"""A detection as every interface answers: the same JSON on the command line and on the web."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from powermark.detection.report import evidence_path, statement

if TYPE_CHECKING:
    from powermark.detection.detection import Detection
    from powermark.detection.report import Piece
    from powermark.detection.scoring import Scores


def answer(found: Detection, source: str) -> dict[str, Any]:
    """Return what was found in the text that came from ``source``."""
    return {"source": source, **found.to_dict()}


def inspection(found: Detection, scores: Scores, shown: list[Piece]) -> dict[str, Any]:
    """Return what goes beyond the verdict: plain words, each token's state, running evidence."""
    return {
        "statement": statement(found),
        "pieces": [piece._asdict() for piece in shown],
        "evidence": evidence_path(scores, found).tolist(),
    }
