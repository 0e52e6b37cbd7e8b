"""Signal removal: what count test and WinMax-C still find after a block of the text is replaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from powermark.detection.scoring import score
from powermark.detection.windows import Threshold, WindowTest
from powermark.evaluation.attacks import replace_block
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.measure import Estimate, detected, share
from powermark.evaluation.reproduction.cells import REMOVED
from powermark.evaluation.reproduction.scales import ALPHA, ENOUGH, N_TOKENS
from powermark.evaluation.reproduction.summary import Row
from powermark.evaluation.runner import Cell
from powermark.evaluation.writing import Record
from powermark.theory.power import binomial_tail, critical_count
from powermark.watermark.scheme import Mask


def attack(
    lab: Lab, cell: Cell, marked: Sequence[Record], unmarked: Sequence[Record]
) -> Iterator[Row]:
    """Yield a row for each share removed, 0 first, and detector: its TPR at its exact level.

    The block lies in the stretch that is tested, and is replaced by the unmarked text of the same
    prompt, at the same places.
    """
    assert cell.gamma is not None
    whole = [record["token_ids"] for record in marked]
    plain = [unmarked[record["number"]]["token_ids"] for record in marked]
    for removal in (0.0, *REMOVED):
        ids = replace_block(whole, plain, removal, seed=lab.seed, within=N_TOKENS).ids
        colours = score(lab.scheme(cell.gamma), ids).first_colours(N_TOKENS)
        for detector, (found, size) in _detections(cell.gamma, colours).items():
            yield {
                "corpus": cell.corpus,
                "method": cell.method,
                "cell": cell.name,
                "gamma": cell.gamma,
                "delta": cell.delta,
                "removal": removal,
                "detector": detector,
                "size": size,
                "texts": found.texts,
                "tpr": found.value,
                "tpr_low": found.low,
                "tpr_high": found.high,
            }


def _detections(gamma: float, colours: Mask) -> dict[str, tuple[Estimate, float]]:
    """Return the share that each detector finds, and its size."""
    k = int(critical_count(N_TOKENS, gamma, ALPHA))
    threshold = _threshold(gamma)
    windows = share(threshold.rejects(_test(gamma).statistics(colours)))
    return {
        "count": (detected(colours.sum(axis=1), k), float(binomial_tail(N_TOKENS, k, gamma))),
        "winmax-c": (windows, threshold.size),
    }


@lru_cache(maxsize=512)
def _test(gamma: float) -> WindowTest:
    return WindowTest("winmax-c", N_TOKENS, gamma)


@lru_cache(maxsize=512)
def _threshold(gamma: float) -> Threshold:
    return _test(gamma).threshold(ALPHA)


def held(attacked: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Return a row for each cell, detector and removal: KL, and the lesser TPR, before or after."""
    kls = {row["cell"]: {key: row[key] for key in ("kl", "kl_low", "kl_high")} for row in rows}
    before = {(r["cell"], r["detector"]): r for r in attacked if r["removal"] == 0.0}
    found = []
    for row in attacked:
        if row["removal"] > 0.0:
            both = (row, before[row["cell"], row["detector"]])
            least = {key: float(np.min([r[key] for r in both])) for key in ("tpr", "tpr_high")}
            shown = ("corpus", "method", "cell", "detector", "removal", "texts")
            found.append({key: row[key] for key in shown} | least | kls[row["cell"]])
    return found


def survivors(rows: Sequence[Row]) -> list[Row]:
    """Return, for each corpus, method and detector, the least KL that holds after each removal.

    Among cells whose TPR is at least ENOUGH before and after; None where none is.
    """
    found: dict[tuple[str, ...], Row] = {}
    for row in rows:
        names = {key: row[key] for key in ("corpus", "method", "detector")}
        mine = found.setdefault(tuple(names.values()), dict(names))
        key = f"kl_{row['removal']:g}"
        known = mine.setdefault(key, None)
        mine.setdefault(f"neg_log_{key}", None)
        if row["tpr"] >= ENOUGH and (known is None or row["kl"] < known):
            mine |= {key: row["kl"], f"neg_log_{key}": -float(np.log(row["kl"]))}
    return list(found.values())
