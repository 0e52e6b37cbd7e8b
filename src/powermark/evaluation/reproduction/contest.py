"""Which method needs the least KL for a TPR: chosen on some texts, decided on others.

A search over many cells with few texts each finds cells that were lucky. So the cheapest cells of
every method are written anew, on prompts that nothing was chosen on, and intervals decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from powermark.calibration.authors import published_pair
from powermark.evaluation.figures.pareto import STYLES
from powermark.evaluation.reproduction.cells import FOR_REMOVAL, OURS, REMOVED
from powermark.evaluation.reproduction.scales import ALPHA, ENOUGH, N_TOKENS
from powermark.evaluation.reproduction.summary import Row

Outcome = Literal["won", "lost", "not decided"]


def finalists(rows: Sequence[Row], held: Sequence[Row]) -> set[str]:
    """Return the names of the cells of one corpus to be written anew.

    ``rows`` are those of its cells, ``held`` those after removal. All our plans for the TPR; of
    every other method whatever may be as cheap as our cheapest, and after the largest removal as
    the cheapest of our two cheapest kinds of plan for it; besides, of every other method, the
    cheapest cell that may reach the TPR, the cheapest that did, and the cheapest that kept it
    after removal, or else may have; and the authors' plan, which no exact test of the level
    detects.
    """
    theirs = published_pair(N_TOKENS, ALPHA)
    chosen = {row["cell"] for row in rows if (row["gamma"], row["delta"]) == theirs}
    chosen |= {
        row["cell"]
        for row in rows
        if row["method"] in FOR_REMOVAL or (row["method"] in OURS and row["target"] >= ENOUGH)
    }
    fair = [row for row in rows if row["size"] <= ALPHA and row["method"] in STYLES]
    most = [row for row in held if row["removal"] == REMOVED[-1]]
    cheapest = sorted(filter(None, (_limit(most, [plan]) for plan in FOR_REMOVAL)))[:2]
    chosen |= _threats(fair, _limit(fair, OURS)) | _threats(most, max(cheapest, default=0.0))
    for method in (method for method in STYLES if method not in OURS):
        may, did = _in_order(row for row in fair if row["method"] == method)
        chosen |= {*may[:1], *did[:1]}
        may, did = _in_order(row for row in most if row["method"] == method)
        chosen |= {*(did or may)[:1]}
    return chosen


def _limit(rows: Iterable[Row], ours: Sequence[str]) -> float:
    """Return the upper end of the KL of our cheapest that reached the TPR; 0 if none did."""
    reached = [row for row in rows if row["method"] in ours and row["tpr"] >= ENOUGH]
    return min((float(row["kl_high"]) for row in reached), default=0.0)


def _threats(rows: Iterable[Row], limit: float) -> set[str]:
    """Return others' cells that may reach the TPR for at most this KL."""
    others = (row for row in rows if row["method"] not in (*OURS, *FOR_REMOVAL))
    return {row["cell"] for row in others if row["tpr_high"] >= ENOUGH and row["kl_low"] <= limit}


def _in_order(rows: Iterable[Row]) -> tuple[list[str], list[str]]:
    """Return the cells that may reach the TPR and those that did, cheapest first."""
    in_order = sorted((row for row in rows if row["kl"] > 0.0), key=lambda row: row["kl"])
    may = [row["cell"] for row in in_order if row["tpr_high"] >= ENOUGH]
    return may, [row["cell"] for row in in_order if row["tpr"] >= ENOUGH]


def best_of_each(rows: Iterable[Row]) -> dict[str, Row]:
    """Return each method's cheapest row that reached the TPR, cheapest method first."""
    best: dict[str, Row] = {}
    for row in sorted((row for row in rows if row["tpr"] >= ENOUGH), key=lambda row: row["kl"]):
        best.setdefault(row["method"], row)
    return best


def outcome(rows: Sequence[Row], ours: Sequence[str], searched: Sequence[Row] = ()) -> Outcome:
    """Say whether our cheapest row is cheaper than every other method's.

    Lost to a row that reached the TPR and whose interval of KL is below ours; not decided where a
    row that may reach it may be as cheap, or where we have none. Cells ``searched`` that are not
    in the final count with what the search showed.
    """
    best = best_of_each(rows)
    mine = next((row for method, row in best.items() if method in ours), None)
    others = [row for row in rows if row["method"] not in ours]
    if mine is None:
        may = any(row["method"] in ours and row["tpr_high"] >= ENOUGH for row in rows)
        return "lost" if best and not may else "not decided"
    if any(row["tpr"] >= ENOUGH and row["kl_high"] < mine["kl_low"] for row in others):
        return "lost"
    others += [row for row in unseen(rows, searched) if row["method"] not in ours]
    if any(row["tpr_high"] >= ENOUGH and row["kl_low"] <= mine["kl_high"] for row in others):
        return "not decided"
    return "won"


def unseen(rows: Sequence[Row], searched: Sequence[Row]) -> list[Row]:
    """Return the rows searched whose cells are not in the final."""
    final = {row["cell"] for row in rows}
    return [row for row in searched if row["cell"] not in final]
