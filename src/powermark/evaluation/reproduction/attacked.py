"""Signal removal: what count test and WinMax-C still find after a block of the text is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import Array
from powermark.detection.scoring import score
from powermark.detection.windows import WindowTest
from powermark.evaluation.attacks import replace_block
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.measure import detected, share
from powermark.evaluation.reproduction.cells import REMOVED
from powermark.evaluation.reproduction.scales import ALPHA, N_TOKENS
from powermark.evaluation.reproduction.summary import Row
from powermark.evaluation.runner import Cell
from powermark.evaluation.writing import Record
from powermark.theory.power import critical_count

WITHIN = 65  # tokens that the block is a share of, as in the authors' code
ENOUGH = 0.95  # TPR before and after


def attack(lab: Lab, cell: Cell, marked: Sequence[Record], unmarked: Sequence[Record]) -> list[Row]:
    """Return a row for each share removed, 0 first: TPR of both detectors at their exact levels.

    The block is replaced by the unmarked text of the same prompt, at the same places.
    """
    assert cell.gamma is not None
    whole = [record["token_ids"] for record in marked]
    plain = [unmarked[record["number"]]["token_ids"] for record in marked]
    rows = []
    for removal in (0.0, *REMOVED):
        ids = replace_block(whole, plain, removal, seed=lab.seed, within=WITHIN).ids
        colours = _first_colours(lab, cell.gamma, ids)
        k = int(critical_count(N_TOKENS, cell.gamma, ALPHA))
        counts, windows = detected(colours.sum(axis=1), k), _windows(cell.gamma, colours)
        rows.append(
            {
                "corpus": cell.corpus,
                "method": cell.method,
                "cell": cell.name,
                "gamma": cell.gamma,
                "delta": cell.delta,
                "removal": removal,
                "texts": colours.shape[0],
                "tpr_count": counts.value,
                "tpr_winmax_c": windows,
                "winmax_c_size": threshold(cell.gamma)[1],
            }
        )
    return rows


def _first_colours(lab: Lab, gamma: float, texts: Sequence[ArrayLike]) -> Array:
    """Colours of the first N_TOKENS that count, of the texts that have so many."""
    scores = score(lab.scheme(gamma), texts)
    rows = [scores.colours(i)[:N_TOKENS] for i in range(scores.texts)]
    kept = [row for row in rows if row.size == N_TOKENS]
    return np.array(kept, np.float64).reshape(-1, N_TOKENS)


def _windows(gamma: float, colours: Array) -> float:
    value = threshold(gamma)[0]
    if value is None or not len(colours):
        return 0.0 if len(colours) else float("nan")
    return share(_test(gamma).statistics(colours) > value).value


@lru_cache(maxsize=512)
def _test(gamma: float) -> WindowTest:
    return WindowTest("winmax-c", N_TOKENS, gamma)


@lru_cache(maxsize=512)
def threshold(gamma: float) -> tuple[float | None, float]:
    """WinMax-C's threshold, None where no test of the level exists, and its size."""
    found = _test(gamma).threshold(ALPHA)
    return found.value, found.size


def survivors(attacked: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Return, for each corpus, method and detector, the least KL that holds after each removal.

    Among cells whose TPR is at least ENOUGH before and after; None where none is.
    """
    kls = {row["cell"]: row["kl"] for row in rows}
    found: list[Row] = []
    pairs = dict.fromkeys((row["corpus"], row["method"]) for row in attacked)
    for (corpus, method), detector in product(pairs, ("count", "winmax_c")):
        row: Row = {"corpus": corpus, "method": method, "detector": detector}
        mine = [r for r in attacked if (r["corpus"], r["method"]) == (corpus, method)]
        tprs = {(r["cell"], r["removal"]): r[f"tpr_{detector}"] for r in mine}
        for removal in REMOVED:
            held = [
                kls[cell]
                for cell in {r["cell"] for r in mine}
                if min(tprs[cell, 0.0], tprs[cell, removal]) >= ENOUGH
            ]
            row[f"kl_{removal:g}"] = min(held, default=None)
            row[f"neg_log_kl_{removal:g}"] = -float(np.log(min(held))) if held else None
        found.append(row)
    return found
