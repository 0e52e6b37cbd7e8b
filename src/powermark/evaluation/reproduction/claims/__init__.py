"""The paper's statements beside what was found here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from powermark.evaluation.reproduction.claims import contests, formulas, texts
from powermark.evaluation.reproduction.claims.claim import Claim, Verdict

if TYPE_CHECKING:
    from powermark.evaluation.reproduction.study import Study

__all__ = ["Claim", "Verdict", "claims"]


def claims(study: Study) -> list[Claim]:
    """Return all of them, in the paper's order."""
    return [
        formulas.hypergeometric(),
        formulas.roots(),
        formulas.budget(),
        formulas.size(),
        formulas.long_form(),
        texts.false_positives(study),
        *texts.normality(study),
        *texts.fits(study),
        *contests.pareto(study),
        *contests.cheapest(study),
        contests.below_gamma_zero(study),
        *texts.quality(study),
        *contests.removal(study),
        contests.windows(study),
        texts.inflation(study),
    ]
