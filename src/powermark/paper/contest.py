"""Which method needs the least KL for a TPR: chosen on some texts, decided on others.

A search over many cells with few texts each finds lucky cells. So the cheapest cells of every
method are written anew, on prompts that no choice was made on, and intervals decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from powermark.paper.figures_methods import STYLES
from powermark.paper.methods import FOR_REMOVAL, OURS, REMOVED
from powermark.paper.results import Row
from powermark.paper.settings import ALPHA, ENOUGH, N_TOKENS
from powermark.planning.paper_method import published_pair

Outcome = Literal["won", "lost", "not decided"]
_OTHERS = tuple(method for method in STYLES if method not in OURS)


def finalists(rows: Sequence[Row], held: Sequence[Row]) -> set[str]:
    """Return the names of the cells of one corpus to be written anew.

    ``rows`` are those of its cells, ``held`` those after removal. A cell is chosen if any of the
    rules below chooses it.
    """
    valid = [row for row in rows if row["size"] <= ALPHA and row["method"] in STYLES]
    after = [row for row in held if row["removal"] == REMOVED[-1]]
    return (
        _authors_point(rows)
        | _our_plans(rows)
        | _others_as_cheap(valid, _least_kl(valid, OURS))
        | _others_as_cheap(after, _second_least_kl(after))
        | _cheapest_of_each(valid)
        | _cheapest_of_each_after_removal(after)
    )


def _authors_point(rows: Iterable[Row]) -> set[str]:
    """Rule: the authors' plan, which no exact test of the level detects."""
    point = published_pair(N_TOKENS, ALPHA)
    return {row["cell"] for row in rows if (row["gamma"], row["delta"]) == point}


def _our_plans(rows: Iterable[Row]) -> set[str]:
    """Rule: all our plans for the TPR, and all for removal."""
    return {
        row["cell"]
        for row in rows
        if row["method"] in FOR_REMOVAL or (row["method"] in OURS and row["target"] >= ENOUGH)
    }


def _others_as_cheap(rows: Iterable[Row], kl: float) -> set[str]:
    """Rule: cells of other methods that may reach the TPR at no more than this KL."""
    others = (row for row in rows if row["method"] not in (*OURS, *FOR_REMOVAL))
    return {row["cell"] for row in others if row["tpr_high"] >= ENOUGH and row["kl_low"] <= kl}


def _cheapest_of_each(rows: Sequence[Row]) -> set[str]:
    """Rule: each other method's cheapest cell that may reach the TPR, and its cheapest that did."""
    return {
        cell
        for method in _OTHERS
        for cells in _by_kl(row for row in rows if row["method"] == method)
        for cell in cells[:1]
    }


def _cheapest_of_each_after_removal(rows: Sequence[Row]) -> set[str]:
    """Rule: each other method's cheapest cell that kept the TPR, or else may have."""
    found = (_by_kl(row for row in rows if row["method"] == method) for method in _OTHERS)
    return {cell for may, did in found for cell in (did or may)[:1]}


def _least_kl(rows: Iterable[Row], ours: Sequence[str]) -> float:
    """Return the upper end of the KL of our cheapest that reached the TPR; 0 if none did."""
    reached = [row for row in rows if row["method"] in ours and row["tpr"] >= ENOUGH]
    return min((float(row["kl_high"]) for row in reached), default=0.0)


def _second_least_kl(rows: Sequence[Row]) -> float:
    """Return the greater KL of our two cheapest kinds of plan for removal."""
    cheapest = sorted(filter(None, (_least_kl(rows, [kind]) for kind in FOR_REMOVAL)))[:2]
    return max(cheapest, default=0.0)


def _by_kl(rows: Iterable[Row]) -> tuple[list[str], list[str]]:
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
    """Return whether our cheapest row is cheaper than every other method's.

    "lost" if another row reached the TPR and its interval of KL is below ours; "not decided" if a
    row that may reach it may be as cheap, or if none of ours did. Cells ``searched`` that are not
    in the final count with their results of the search.
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
