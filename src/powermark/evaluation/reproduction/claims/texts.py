"""Statements about what texts show: levels, counts, linear fits, quality, overdispersion."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from powermark.evaluation.figures.green_rate import AUTHORS, PREDICTORS
from powermark.evaluation.figures.green_rate import fits as lines_of
from powermark.evaluation.reproduction.claims.claim import Claim, Verdict
from powermark.evaluation.reproduction.likeness import METRICS, regressions
from powermark.evaluation.reproduction.scales import ALPHA, AUTHORS_TEMPERATURE
from powermark.evaluation.reproduction.summary import Row

if TYPE_CHECKING:
    from powermark.evaluation.reproduction.study import Study

PAPER_R2 = {"bleu": 0.566, "rouge_l": 0.870, "bert_score": 0.791}
LINEAR = 0.5  # R^2 from which a metric counts as explained
_ENOUGH_TEXTS = 30  # to speak of the shape of a distribution
_ODD = 0.01  # p-value of a shape that is not the normal's
_GOOD, _NEAR = 0.98, 0.05  # R^2 of a fit, and how far from 1 its slope may be


def false_positives(study: Study) -> Claim:
    """Unmarked texts, over all gammas that are compared."""
    rows = [row for row in study.false_positives if row["gamma"] is None and row["texts"] > 1]
    exact = [row for row in rows if row["test"] == "exact"]
    told = "; ".join(
        f"{row['corpus']}, {row['test']} test: {row['fpr']:.1%} ({row['low']:.1%} to "
        f"{row['high']:.1%}) of {row['texts']} texts, size {row['size']:.1%}"
        for row in rows
    )
    verdict: Verdict = "not decided"
    if any(row["low"] > ALPHA for row in exact):
        verdict = "differs"
    elif exact and all(row["high"] <= ALPHA for row in exact):
        verdict = "reproduced"
    return Claim(
        "unmarked texts are called marked at a rate of at most alpha = .05 (mean over gammas, "
        "under one key)",
        "5 %",
        told or "no text was long enough",
        verdict,
        {
            "reproduced": "",
            "differs": "a rate is above alpha by more than chance allows: texts of a model share "
            "n-grams, and so the colours of this key",
            "not decided": "an interval reaches above alpha: this many texts do not exclude it",
        }[verdict],
    )


def normality(study: Study) -> Iterator[Claim]:
    """The Q-Q plots."""
    for name, statement, why in (
        (
            "H0",
            "the standardised count is standard normal under H0",
            "under one key, texts of a model share n-grams, and so colours",
        ),
        (
            "H1, predicted rate",
            "and under H1, at the green rate of Theorem 3.5",
            "a model's distributions are not flat: the rate is lower and differs between texts; "
            "the profile knows both",
        ),
    ):
        z = np.array([row["observed"] for row in study.quantiles if row["hypothesis"] == name])
        if z.size < _ENOUGH_TEXTS:
            few = f"{z.size} texts are too few to say"
            yield Claim(statement, "Q-Q plots follow the diagonal", few, "not decided")
            continue
        p = float(stats.kstest(z, "norm").pvalue)
        yield Claim(
            statement,
            "Q-Q plots follow the diagonal",
            f"mean {z.mean():.2f}, standard deviation {z.std(ddof=1):.2f} over {z.size} texts; "
            f"Kolmogorov-Smirnov p = {p:.2g}",
            "reproduced" if p >= _ODD else "corrected",
            "" if p >= _ODD else why,
        )


def fits(study: Study) -> Iterator[Claim]:
    """Green rate and KL against theory, with the slope that R^2 hides."""
    for temperature in (1.0, AUTHORS_TEMPERATURE):
        lines = lines_of(study.predictions(temperature))
        names = [
            name for name in (*PREDICTORS, AUTHORS) if any(x["predictor"] == name for x in lines)
        ]
        theirs = AUTHORS if AUTHORS in names else "plug-in"
        for quantity, paper in (("green_rate", "R² .988 to .997"), ("kl", "R² .994 to .998")):
            told = {
                name: [x for x in lines if (x["quantity"], x["predictor"]) == (quantity, name)]
                for name in names
            }
            good = min(line["r2"] for line in told[theirs]) >= _GOOD
            right = all(abs(line["k"] - 1.0) <= _NEAR for line in told[theirs])
            reasons = ["" if good else f"R² of their predictor is below {_GOOD:g}"]
            if not right:
                reasons.append("k is not 1: the formula is off by that factor, which R² hides")
            yield Claim(
                f"y = kx explains the {quantity.replace('_', ' ')} at temperature {temperature:g}",
                paper + ", k not given",
                "; ".join(f"{name}: {_range(some)}" for name, some in told.items()),
                "reproduced" if good and right else "corrected" if good else "differs",
                "; ".join(filter(None, reasons)),
            )


def _range(lines: list[Row]) -> str:
    r2, k = ([line[key] for line in lines] for key in ("r2", "k"))
    return f"R² {min(r2):.3f} to {max(r2):.3f}, k {min(k):.3f} to {max(k):.3f}"


def quality(study: Study) -> Iterator[Claim]:
    """The regressions of quality on KL."""
    for row in regressions(study.likeness):
        name, fine = row["metric"], row["r2"] >= LINEAR and row["per_nat"] < 0.0
        yield Claim(
            f"KL explains {METRICS[name]}, which falls with it linearly (R² of at least "
            f"{LINEAR:g})",
            f"R² {PAPER_R2[name]:.3f}",
            f"R² {row['r2']:.3f}, {row['per_nat']:+.3f} per nat, over {row['cells']} cells",
            "reproduced" if fine else "differs",
            ""
            if fine
            else "our two texts of a prompt share no random numbers, so that they differ without a "
            "mark too, where the authors' begin alike; and our texts are short",
        )


def inflation(study: Study) -> Claim:
    """The c-hat of each corpus."""
    told = {row["corpus"]: row for row in study.inflations}
    shown = ", ".join(
        f"{name} {row['c_hat']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
        for name, row in told.items()
    )
    in_order = [told[name] for name in ("wikipedia", "lfqa", "c4") if name in told]
    pairs = list(pairwise(in_order))
    clear = all(first["low"] > second["high"] for first, second in pairs)
    verdict: Verdict = "not decided"
    why = "intervals overlap, or reach 1: this many texts do not order the corpora"
    if any(first["high"] < second["low"] for first, second in pairs):
        verdict, why = "differs", "the intervals are in another order"
    elif len(in_order) < 3:
        why = "not all three corpora were run"
    elif clear and all(row["low"] > 1.0 for row in in_order):
        verdict, why = "reproduced", ""
    return Claim(
        "variance inflation: c > 1, and Wikipedia > LFQA > C4",
        "by eye from densities",
        shown,
        verdict,
        why,
    )
