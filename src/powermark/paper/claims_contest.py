"""Claims about which method is cheapest, on intact texts and after removal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from powermark.measuring.estimates import mean_per_token
from powermark.paper.claims import Claim, Verdict
from powermark.paper.contest import Outcome, best_of_each, outcome, unseen
from powermark.paper.figures_methods import STYLES
from powermark.paper.methods import FOR_REMOVAL, FOR_WINDOWS, OURS, REMOVED
from powermark.paper.results import Row
from powermark.paper.settings import ALPHA, ENOUGH, N_TOKENS
from powermark.planning.paper_method import published_pair
from powermark.theory.distortion import gamma_zero

if TYPE_CHECKING:
    from powermark.paper.study import Study


_RIVALS = tuple(method for method in STYLES if method not in (*OURS, "authors"))
_DETECTORS = ("count", "winmax-c")
_VERDICTS: dict[Outcome, Verdict] = {
    "won": "reproduced",
    "lost": "differs",
    "not decided": "not decided",
}


def pareto(study: Study) -> Iterator[Claim]:
    """The paper's own comparison: everyone by the z-test, whatever its size."""
    theirs = published_pair(N_TOKENS, ALPHA)
    for corpus in study.corpora:
        rows, searched = (
            [row for row in some if row["corpus"] == corpus]
            for some in (study.final_rows, study.rows)
        )
        mine = next((row for row in rows if (row["gamma"], row["delta"]) == theirs), None)
        if mine is None:
            continue
        rivals = [row for row in rows if row["method"] in _RIVALS]
        known = [*rivals, *(row for row in unseen(rows, searched) if row["method"] in _RIVALS)]
        better = [
            row
            for row in rivals
            if row["kl_high"] < mine["kl_low"] and row["tpr_z"] >= mine["tpr_z"]
        ]
        maybe = [
            row
            for row in known
            if row["kl_low"] <= mine["kl_high"] and row["tpr_z_high"] >= mine["tpr_z_low"]
        ]
        yield Claim(
            f"the calibrated point is on the frontier of grid, DP and OPT on {corpus}, by z-tests",
            "on the frontier",
            f"KL {mine['kl']:.3f}, TPR {mine['tpr_z']:.2f}; of {len(rivals)} finalists "
            f"{len(better)} have less KL and no less TPR; of all {len(known)} cells {len(maybe)} "
            f"may have",
            "differs" if better else "not decided" if maybe else "reproduced",
            f"its test has size {mine['size_z']:.1%}",
        )


def cheapest(study: Study) -> Iterator[Claim]:
    """The same by exact tests, with our plans."""
    for corpus in study.corpora:
        rows, searched = (
            [
                row
                for row in some
                if row["corpus"] == corpus and row["method"] in STYLES and row["size"] <= ALPHA
            ]
            for some in (study.final_rows, study.rows)
        )
        found = outcome(rows, OURS, searched)
        won = "the authors' best point is not in it: its size is above alpha"
        yield Claim(
            f"least KL at TPR ≥ .95 and size ≤ .05 on {corpus}: a calibrated plan's",
            "calibrated parameters lie on the frontier",
            _listed(rows),
            _VERDICTS[found],
            won if found == "won" else _why(rows, OURS, found, searched),
        )


def below_gamma_zero(study: Study) -> Claim:
    """The grid's points by gamma_zero."""
    searched = [row for row in study.points if (row["method"], row["stage"]) == ("grid", "search")]
    kept = [row for row in searched if row["tpr"] >= 0.8 and row["on_frontier"]]
    below = [row for row in kept if _is_below(row)]
    sure = [row for row in below if _beats_all_above(row, searched)]
    gammas = sorted({row["gamma"] for row in searched}) or [np.nan]
    verdict: Verdict = "reproduced" if kept and not below else "not decided"
    return Claim(
        "no gamma below gamma_zero(delta) is on the frontier, for powers above .8",
        "shown in colour",
        f"{len(below)} of {len(kept)} frontier points of the grid are below, {len(sure)} of them "
        f"beyond doubt; gammas {gammas[0]:g} to {gammas[-1]:g}",
        "differs" if sure else verdict,
        "with few texts a cell, TPRs scatter by more than the tolerance" if below else "",
    )


def _is_below(row: Row) -> bool:
    return bool(row["gamma"] < float(gamma_zero(row["delta"])))


def _beats_all_above(row: Row, others: list[Row]) -> bool:
    """Whether a point has more TPR than any above that may be as cheap, interval by interval."""
    as_cheap = [
        other
        for other in others
        if other["corpus"] == row["corpus"]
        and not _is_below(other)
        and other["kl_low"] <= row["kl_high"]
    ]
    return all(other["tpr_high"] < row["tpr_low"] for other in as_cheap)


def removal(study: Study) -> Iterator[Claim]:
    """Which plan for removal is cheaper than grid, DP and OPT, by any detector; or the authors'."""
    for corpus in study.corpora:
        rows, searched = (
            _after_removal(some, corpus) for some in (study.held, study.held_in_search)
        )
        for plan in FOR_REMOVAL:
            methods = (plan, *_RIVALS)
            against, before = (
                [row for row in some if row["plan"] in methods] for some in (rows, searched)
            )
            ours = [f"{plan} ({detector})" for detector in _DETECTORS]
            found = outcome(against, ours, before)
            won = (
                "at gamma .946 and 50 tokens WinMax-C has no test of level .05; a plan made for "
                "removal keeps its power"
            )
            yield Claim(
                f"less KL than grid, DP and OPT for TPR ≥ {ENOUGH:g} before and after 20 % is "
                f"replaced, on {corpus}: {plan}",
                "the calibrated clean plan with WinMax-C, −log KL 2.56 to 2.69; DP 1.34 to 1.98, "
                "GRID 1.87 to 2.22, OPT 1.68 to 2.13",
                _listed(against),
                "corrected" if found == "won" else _VERDICTS[found],
                won if found == "won" else _why(against, ours, found, before),
            )
        yield _beside_authors(corpus, rows, searched)


def _after_removal(held: list[Row], corpus: str) -> list[Row]:
    """Return the rows of a corpus after the largest removal; a detector makes another method."""
    return [
        {**row, "plan": row["method"], "method": f"{row['method']} ({row['detector']})"}
        for row in held
        if (row["corpus"], row["removal"]) == (corpus, REMOVED[-1])
    ]


def _beside_authors(corpus: str, rows: list[Row], searched: list[Row]) -> Claim:
    """The authors' own points, the weaker ones too, beside our plans for removal."""
    methods = (*FOR_REMOVAL, "authors")
    against, before = ([row for row in some if row["plan"] in methods] for some in (rows, searched))
    ours = [f"{plan} ({detector})" for plan in FOR_REMOVAL for detector in _DETECTORS]
    found = outcome(against, ours, before)
    verdicts: dict[Outcome, Verdict] = {"won": "corrected", "lost": "reproduced"}
    return Claim(
        f"a calibrated point has TPR ≥ {ENOUGH:g} before and after 20 % is replaced, on {corpus}, "
        "and no plan made for that costs less",
        "the calibrated clean plan with WinMax-C, −log KL 2.56 to 2.69",
        _listed(against),
        verdicts.get(found, "not decided"),
        "a plan made for removal costs less"
        if found == "won"
        else _why(against, ours, found, before),
    )


def windows(study: Study) -> Claim:
    """WinMax-C beside the full count, on the same attacked texts."""
    at = {
        (row["corpus"], row["cell"], row["detector"]): row
        for row in study.attacked
        if row["removal"] == REMOVED[-1] and row["size"] > 0.0
    }
    pairs = [
        (row["tpr"], at[corpus, cell, "winmax-c"]["tpr"])
        for (corpus, cell, detector), row in at.items()
        if detector == "count" and (corpus, cell, "winmax-c") in at and row["method"] != FOR_WINDOWS
    ]
    gain = mean_per_token([[after - before] for before, after in pairs])
    verdict: Verdict = "not decided"
    if gain.known and gain.low > 0.0:
        verdict = "reproduced"
    elif gain.known and gain.high < 0.0:
        verdict = "differs"
    shown = "no cell has both tests"
    if pairs:
        full, window = np.mean(pairs, axis=0)
        shown = (
            f"over {len(pairs)} finalists that have both tests and were not made for WinMax-C: TPR "
            f"{full:.3f} by the full count, {window:.3f} by WinMax-C; difference "
            f"{gain.low:+.3f} to {gain.high:+.3f}"
        )
    return Claim(
        "after 20 % is replaced WinMax-C finds more than the full count",
        "a 1/√(1 − f) advantage in expected signal",
        shown,
        verdict,
        "its threshold must allow for every block that could be left out, which costs more than "
        "the block is worth"
        if verdict == "differs"
        else "",
    )


def _listed(rows: list[Row]) -> str:
    """Say the cheapest of each method that reached the TPR."""
    best = best_of_each(rows)
    return "; ".join(map(_shown, best.values())) or "no method reaches it"


def _shown(row: Row) -> str:
    size = f", size {row['size']:.3f}" if "size" in row else ""
    return (
        f"{row['method']} KL {row['kl']:.3f} ({row['kl_low']:.3f} to {row['kl_high']:.3f}), −log "
        f"{-np.log(row['kl']):.2f}, TPR {row['tpr']:.2f} of {row['texts']}{size}"
    )


def _why(rows: list[Row], ours: Sequence[str], found: Outcome, searched: list[Row]) -> str:
    """Say what stands in the way of ours."""
    best = best_of_each(rows)
    mine = next((row for method, row in best.items() if method in ours), None)
    if mine is None:
        reached = "no other method did" if not best else f"{next(iter(best))} did"
        return f"none of our plans reached the TPR on these texts; {reached}"
    if found == "lost":
        return f"{next(iter(best))} costs less"
    close = sorted(
        {
            row["method"]
            for row in (*rows, *unseen(rows, searched))
            if row["method"] not in ours
            and row["tpr_high"] >= ENOUGH
            and row["kl_low"] <= mine["kl_high"]
        }
    )
    return f"intervals overlap: {', '.join(close)} may be as cheap at this TPR"
