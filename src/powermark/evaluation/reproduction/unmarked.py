"""Unmarked texts: how often the exact test and the paper's z-test call them marked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from powermark.checks import Array
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.measure import Estimate, detected, mean_per_token
from powermark.evaluation.reproduction.scales import ALPHA, N_TOKENS
from powermark.evaluation.reproduction.summary import Row, counts_of
from powermark.evaluation.runner import with_colours
from powermark.evaluation.writing import Record
from powermark.theory.power import binomial_tail, critical_count, z_critical_count

TESTS = {"exact": critical_count, "z": z_critical_count}


def false_positives(
    lab: Lab, corpus: str, texts: Sequence[Record], gammas: Sequence[float]
) -> list[Row]:
    """Return a row for each test and gamma, and one with gamma None for all: a text's mean.

    All gammas see the same texts under one key, so their rates go together; the interval of the
    mean is from the spread between texts. Where a test of the level does not exist it is left out.
    """
    rows: list[Row] = []
    for test, critical in TESTS.items():
        called: list[Array] = []
        sizes: list[float] = []
        for gamma in gammas:
            k = int(critical(N_TOKENS, gamma, ALPHA))
            if k > N_TOKENS:
                continue
            counts = counts_of(with_colours(lab, texts, gamma))
            called.append(np.where(np.isfinite(counts), counts >= k, np.nan))
            sizes.append(float(binomial_tail(N_TOKENS, k, gamma)))
            about = {"corpus": corpus, "test": test, "gamma": gamma, "size": sizes[-1]}
            rows.append(about | _told(detected(counts, k)))
        each = np.array(called).reshape(len(called), -1)
        kept = each[:, np.isfinite(each).all(axis=0)]
        mean = mean_per_token(list(kept.mean(axis=0)[:, None]) if kept.size else [])
        size = float(np.mean(sizes)) if sizes else 0.0
        rows.append({"corpus": corpus, "test": test, "gamma": None, "size": size} | _told(mean))
    return rows


def _told(found: Estimate) -> Row:
    return {"texts": found.texts, "fpr": found.value, "low": found.low, "high": found.high}
