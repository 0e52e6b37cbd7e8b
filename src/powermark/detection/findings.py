"""What was found in many texts at once: one array a field, one entry a text.

:class:`powermark.detection.result.Detection` is one row of this with its constants and warnings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Array
from powermark.detection import kernels
from powermark.detection.evalue import bets
from powermark.detection.scoring import Ids, Scores

Verdict = Literal["watermarked", "no watermark found", "inconclusive"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class Evidence(NamedTuple):
    """What :func:`powermark.detection.kernels.evidence` returns: one entry per text."""

    ends: Array
    highest: Array
    lowest: Array
    lowest_at: Ids
    starts: Ids
    stops: Ids

    @classmethod
    def of(cls, scores: Scores, gamma: float, rate: float) -> Evidence:
        """Walk the evidence of every text, for a mark with this green rate."""
        up, down = bets(gamma, rate) if rate > gamma else (0.0, 0.0)
        return cls(*kernels.evidence(scores.state, scores.green, scores.offsets, up, down))


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The fields of a detection that differ from text to text.

    ``verdict`` is an index into VERDICTS and ``key`` one into the detector's keys. ``log_p`` and
    ``log_e`` are natural logarithms. They and ``p_mid`` are corrected for the number of keys: the
    e-value is the best key's at the end of the text over that number, which is at most the mean of
    all. ``z`` is nan with several keys: the largest of some is no normal deviate. ``green_rate``,
    ``z`` and ``marked_share`` are nan where no token counts, or where the mark has no strength. The
    span is empty where nothing is gained. ``size`` is the probability that an unmarked text with as
    many counted tokens is called watermarked: exact for the count, alpha as its bound for the
    others. ``walk`` is the evidence under the best key.
    """

    verdict: NDArray[np.int8]
    log_p: Array
    log_e: Array
    tokens: Ids
    scored: Ids
    repeated: Ids
    green: Ids
    green_rate: Array
    green_rate_low: Array
    green_rate_high: Array
    z: Array
    p_mid: Array
    marked_share: Array
    power: Array
    size: Array
    key: Ids
    walk: Evidence
