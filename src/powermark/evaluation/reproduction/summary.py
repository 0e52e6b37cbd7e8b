"""What the texts of a cell show: detections, sizes, KL, green rate, overdispersion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from powermark.checks import Array
from powermark.evaluation.measure import Estimate, detected, mean_per_token, spent_until
from powermark.evaluation.reproduction.scales import ALPHA, N_TOKENS
from powermark.evaluation.runner import GREEN, UNSCORED, Cell
from powermark.evaluation.writing import Record
from powermark.theory.bounds import efficiency
from powermark.theory.power import binomial_tail, critical_count, z_critical_count

Row = dict[str, Any]


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

    ``kl`` is what was spent until the last token that counts, per token that counts; ``kl_step``
    the mean over all steps, which signal models foretell, ``kl_plain`` that at temperature 1.
    ``size`` and ``size_z`` are those of the two tests, computed. Efficiency is the information
    limit at the TPR measured and the test's size or alpha, whichever is more, over the KL.
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
