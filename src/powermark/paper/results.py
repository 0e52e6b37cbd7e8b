"""What the texts of a cell show: detections, false positives, KL, quality, removal of signal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from powermark.checks import Array, Mask
from powermark.detection.scoring import score
from powermark.generation.writing import Record
from powermark.measuring.attacks import replace_block
from powermark.measuring.estimates import Estimate, detected, mean_per_token, share, spent_until
from powermark.measuring.quality import quality
from powermark.models.catalog import DEFAULT_ENCODER
from powermark.paper.fits import straight
from powermark.paper.methods import REMOVED
from powermark.paper.runner import GREEN, UNSCORED, Cell, with_colours
from powermark.paper.settings import ALPHA, ENOUGH, N_TOKENS
from powermark.paper.workspace import Workspace
from powermark.statistics.windows import Threshold, WindowTest
from powermark.theory.bounds import efficiency
from powermark.theory.power import binomial_tail, critical_count, z_critical_count

Row = dict[str, Any]
TESTS = {"exact": critical_count, "z": z_critical_count}
FEWEST = 3  # cells that make a line
METRICS = {"bleu": "BLEU", "rouge_l": "ROUGE-L", "bert_score": "BERTScore"}


def colours_of(record: Record) -> Array:
    """Return 1 or 0 for each token that counts, in order."""
    return np.array([letter == GREEN for letter in record["colours"] if letter != UNSCORED], float)


def counts_of(records: Sequence[Record], n_tokens: int = N_TOKENS) -> Array:
    """Greens among the first n tokens that count; nan where a text has fewer."""
    rows = (colours_of(record) for record in records)
    return np.array([row[:n_tokens].sum() if row.size >= n_tokens else np.nan for row in rows])


def kl_of(records: Sequence[Record]) -> Estimate:
    """KL until the n-th token that counts, per such token; texts with fewer are left out."""
    places = [np.flatnonzero([c != UNSCORED for c in record["colours"]]) for record in records]
    return spent_until(places, [record["kl"] for record in records], N_TOKENS)


def inflation(counts: Array, n_tokens: int = N_TOKENS) -> float:
    """The paper's c-hat: the variance of counts over that of a binomial with their mean."""
    counts = counts[np.isfinite(counts)]
    rate = counts.mean() / n_tokens if counts.size else 0.0
    if counts.size < 2 or not 0.0 < rate < 1.0:
        return float("nan")
    return float(counts.var(ddof=1) / (n_tokens * rate * (1.0 - rate)))


def summarise(cell: Cell, records: Sequence[Record]) -> Row:
    """Return a marked cell's row: with the exact test, and with the paper's z-test.

    ``kl`` is the KL spent until the last token that counts, per token that counts; ``kl_step`` is
    the mean over all steps, which signal models predict, and ``kl_plain`` that at temperature 1.
    ``size`` and ``size_z`` are the computed sizes of the two tests. Efficiency is the information
    limit at the measured TPR and the greater of size and alpha, over the KL.
    """
    assert cell.gamma is not None
    counts = counts_of(records)
    k = int(critical_count(N_TOKENS, cell.gamma, ALPHA))
    kz = int(z_critical_count(N_TOKENS, cell.gamma, ALPHA))
    kl, found, found_z = kl_of(records), detected(counts, k), detected(counts, kz)
    plain = "kl_plain" if records and "kl_plain" in records[0] else "kl"
    size, size_z = (float(binomial_tail(N_TOKENS, c, cell.gamma)) for c in (k, kz))
    return {
        "corpus": cell.corpus,
        "method": cell.method,
        "cell": cell.name,
        "gamma": cell.gamma,
        "delta": cell.delta,
        "target": cell.target,
        "texts": found.texts,
        "tpr": found.value,
        "tpr_low": found.low,
        "tpr_high": found.high,
        "size": size,
        "tpr_z": found_z.value,
        "tpr_z_low": found_z.low,
        "tpr_z_high": found_z.high,
        "size_z": size_z,
        "kl": kl.value,
        "kl_low": kl.low,
        "kl_high": kl.high,
        "kl_step": mean_per_token([record["kl"] for record in records]).value,
        "kl_plain": mean_per_token([record[plain] for record in records]).value,
        "green_rate": float(np.nanmean(counts) / N_TOKENS) if found.texts else float("nan"),
        "c_hat": inflation(counts),
        "efficiency": _efficiency(found.value, kl.value, size),
    }


def _efficiency(tpr: float, kl: float, size: float) -> float:
    level = max(ALPHA, size)
    if not (tpr > level and kl > 0.0):
        return 0.0
    return float(efficiency(N_TOKENS, level, tpr, kl))


def by_cell(cells: Sequence[Cell], records: Sequence[Record]) -> list[tuple[Cell, list[Record]]]:
    """Return each cell with its records, in order of their prompts."""
    found: dict[str, list[Record]] = {cell.name: [] for cell in cells}
    for record in records:
        found[record["cell"]].append(record)
    return [(cell, found[cell.name]) for cell in cells]


def false_positives(
    workspace: Workspace, corpus: str, texts: Sequence[Record], gammas: Sequence[float]
) -> list[Row]:
    """Return a row for each test and gamma, and one with gamma None for all: a text's mean.

    All gammas see the same texts under one key, so their rates are correlated; the interval of the
    mean is from the spread between texts. Gammas without a test of the level are left out.
    """
    rows: list[Row] = []
    for test, critical in TESTS.items():
        called: list[Array] = []
        sizes: list[float] = []
        for gamma in gammas:
            k = int(critical(N_TOKENS, gamma, ALPHA))
            if k > N_TOKENS:
                continue
            counts = counts_of(with_colours(workspace, texts, gamma))
            called.append(np.where(np.isfinite(counts), counts >= k, np.nan))
            sizes.append(float(binomial_tail(N_TOKENS, k, gamma)))
            about = {"corpus": corpus, "test": test, "gamma": gamma, "size": sizes[-1]}
            rows.append(about | _rate(detected(counts, k)))
        each = np.array(called).reshape(len(called), -1)
        kept = each[:, np.isfinite(each).all(axis=0)]
        mean = mean_per_token(list(kept.mean(axis=0)[:, None]) if kept.size else [])
        size = float(np.mean(sizes)) if sizes else 0.0
        rows.append({"corpus": corpus, "test": test, "gamma": None, "size": size} | _rate(mean))
    return rows


def _rate(found: Estimate) -> Row:
    return {"texts": found.texts, "fpr": found.value, "low": found.low, "high": found.high}


def attack(
    workspace: Workspace, cell: Cell, marked: Sequence[Record], unmarked: Sequence[Record]
) -> Iterator[Row]:
    """Yield a row for each share removed, 0 first, and detector: its TPR at its exact level.

    The block lies within the tested tokens and is replaced by the unmarked text of the same prompt,
    at the same places.
    """
    assert cell.gamma is not None
    whole = [record["token_ids"] for record in marked]
    plain = [unmarked[record["number"]]["token_ids"] for record in marked]
    for removal in (0.0, *REMOVED):
        ids = replace_block(whole, plain, removal, seed=workspace.seed, within=N_TOKENS).ids
        colours = score(workspace.scheme(cell.gamma), ids).first_colours(N_TOKENS)
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
    """Return each detector's TPR and size."""
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

    Among cells whose TPR is at least ENOUGH before and after; None if there is no such cell.
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


def quality_of(
    cell: Cell,
    marked: Sequence[Record],
    unmarked: Sequence[Record],
    *,
    most: int,
    encoder: str = DEFAULT_ENCODER,
) -> Row:
    """Return the mean of each metric over up to ``most`` texts of a cell."""
    mine = list(marked[:most])
    found = quality(mine, [unmarked[r["number"]] for r in mine], encoder=encoder, distinct=(2,))
    row: Row = {"corpus": cell.corpus, "method": cell.method, "cell": cell.name}
    row["texts"] = len(mine)
    for name in (*METRICS, "distinct_2"):
        mean = found.means[name]
        row |= {name: mean.value, f"{name}_error": mean.standard_error}
    return row


def regressions(rows: Sequence[Row]) -> list[Row]:
    """Return the straight line of each metric against KL, over all cells of all corpora."""
    found = []
    for name in METRICS:
        pairs = np.array([(row["kl"], row[name]) for row in rows], float).reshape(-1, 2)
        kl, score = pairs[np.isfinite(pairs).all(axis=1)].T
        if kl.size >= FEWEST:
            a, b, r2 = straight(kl, score)
            found.append({"metric": name, "cells": kl.size, "at_zero": a, "per_nat": b, "r2": r2})
    return found
