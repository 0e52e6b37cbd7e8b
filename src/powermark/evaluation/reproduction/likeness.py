"""Quality of marked beside unmarked texts, cell by cell, and how it goes with the KL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from powermark.evaluation.quality import quality
from powermark.evaluation.reproduction.fits import straight
from powermark.evaluation.reproduction.summary import Row
from powermark.evaluation.runner import Cell
from powermark.evaluation.writing import Record
from powermark.models.catalog import DEFAULT_ENCODER

FEWEST = 3  # cells that make a line
METRICS = {"bleu": "BLEU", "rouge_l": "ROUGE-L", "bert_score": "BERTScore"}


def likeness(
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
