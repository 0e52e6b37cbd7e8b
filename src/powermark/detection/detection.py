"""Results of detection: ``Detection`` for one text, ``Findings`` for many, and their warnings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from powermark.checks import Array, Ids
from powermark.detection.power import DetectorPower
from powermark.detection.scoring import Scores
from powermark.planning.request import Detector as Kind
from powermark.statistics import text_kernels as kernels
from powermark.statistics.p_values import bets
from powermark.tables import table
from powermark.watermark.spec import WatermarkSpec

Verdict = Literal["watermarked", "no watermark found", "inconclusive"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_LOG_2 = float(np.log(2.0))
_SAME = (  # fields that a detection takes from the findings as they are; nan becomes None
    "tokens",
    "scored",
    "repeated",
    "green",
    "green_rate",
    "green_rate_low",
    "green_rate_high",
    "z",
    "p_mid",
    "marked_share",
    "power",
)
_FOREIGN = 1.0 / 3.0  # share of a text; the warning on steered marks states the power at it
_FEW_REDS = 2.5  # red tokens that chance may put at the start of a marked text
_MANY_REPEATS = 0.3  # share of a text
_UNMARKED_START = 3.0  # nats against the mark in the first half that suggest a prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """The result of looking for a mark in one text.

    ``looks`` is the number of keys, times that of detectors, times that of other looks at the same
    text. ``p`` and ``p_mid`` are multiplied by it; ``key`` and ``detector`` are those with the
    least p. ``z``, of a single look, is None with several. ``p_mid`` and ``z`` are companions that
    guarantee nothing. ``green_rate_low`` and ``_high`` are a 95 % Clopper-Pearson interval.
    ``power`` is the probability that this detector finds a marked text with as many counted tokens,
    at the plan's ``gamma_prime`` and at level alpha / ``looks``; with several detectors that of the
    best one alone. ``bet`` is the green rate that the running evidence bets on. ``span_start`` and
    ``span_stop`` are the most marked stretch, in tokens; ``tokens_needed`` those with which the
    count finds four marked texts in five.
    """

    verdict: Verdict
    p: float
    bits: float
    alpha: float
    detector: Kind
    tokens: int
    scored: int
    repeated: int
    green: int
    green_rate: float | None
    green_rate_low: float
    green_rate_high: float
    gamma: float
    gamma_prime: float
    bet: float
    z: float | None
    p_mid: float
    marked_share: float | None
    power: float
    tokens_needed: int | None
    span_start: int | None
    span_stop: int | None
    key: str | None
    keys_tried: int
    looks: int
    warnings: tuple[str, ...]
    signature: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints and the web answers with."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """Return a small table."""
        rate = "-" if self.green_rate is None else f"{self.green_rate:.4f}"
        interval = f"95 % interval {self.green_rate_low:.3f} to {self.green_rate_high:.3f}"
        needed = "-" if self.tokens_needed is None else str(self.tokens_needed)
        tried = f"; multiplied by {self.looks} looks" if self.looks > 1 else ""
        rows = [
            (
                "p",
                f"{self.p:.3g}",
                f"{self.detector}; alpha = {self.alpha:g}; {self.bits:.1f} bits{tried}",
            ),
            ("tokens", f"{self.tokens}", f"{self.scored} count, {self.repeated} are repeats"),
            ("green", f"{self.green}", f"of {self.scored}"),
            (
                "green_rate",
                rate,
                f"{interval}; gamma {self.gamma:.3f}, mark {self.gamma_prime:.3f}",
            ),
            ("power", f"{self.power:.3f}", f"at this length; .8 needs {needed} counted tokens"),
        ]
        notes = [f"note: {warning}" for warning in self.warnings]
        return "\n".join([self.verdict, table(rows), *notes, self.signature])


class Evidence(NamedTuple):
    """What :func:`powermark.statistics.text_kernels.evidence` returns: one entry per text."""

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

    ``verdict`` is an index into VERDICTS, ``key`` one into the detector's keys and ``detector`` one
    into its tests: those with the least p-value. ``log_p`` and ``log_e`` are natural logarithms.
    They and ``p_mid`` are corrected for the number of looks: the e-value is the best key's at the
    end of the text over the number of keys, which is at most the mean of all. ``z`` is nan with
    several looks: the largest of some is no normal deviate. ``green_rate``, ``z`` and
    ``marked_share`` are nan where no token counts, or where the mark has no strength. The span is
    empty where nothing is gained. ``size`` is the probability that an unmarked text with as many
    counted tokens is called watermarked: exact for the count, alpha as its bound for the others.
    ``walk`` is the evidence under the best key.
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
    detector: Ids
    walk: Evidence

    def rows(
        self, detectors: Sequence[Kind], keys: Sequence[str | None]
    ) -> Iterator[dict[str, Any]]:
        """Yield the fields of each text's detection that differ from text to text."""
        columns = [_present(getattr(self, name)) for name in _SAME]
        for i, values in enumerate(zip(*columns, strict=True)):
            stop = int(self.walk.stops[i])
            yield {
                **dict(zip(_SAME, values, strict=True)),
                "verdict": VERDICTS[self.verdict[i]],
                "p": float(np.exp(self.log_p[i])),
                "bits": float(-self.log_p[i] / _LOG_2) + 0.0,
                "detector": detectors[self.detector[i]],
                "key": keys[self.key[i]],
                "span_start": int(self.walk.starts[i]) if stop else None,
                "span_stop": stop or None,
            }


def _present(values: NDArray[Any]) -> list[Any]:
    """Return the entries as numbers of Python; None for nan."""
    return [None if value != value else value for value in values.tolist()]


def text_warnings(
    found: Findings, i: int, *, spec: WatermarkSpec, alpha: float, power: DetectorPower
) -> tuple[str, ...]:
    """Return the warnings about text i."""
    n, walk, verdict = int(found.scored[i]), found.walk, VERDICTS[found.verdict[i]]
    repeated = found.repeated[i] / max(found.tokens[i], 1)
    notes = []
    if verdict == "inconclusive":
        needed = power.tokens_needed
        length = "" if needed is None or needed <= n else f"; {needed} are needed"
        notes.append(f"only {n} tokens count, too few to tell{length}.")
    if verdict == "no watermark found" and spec.steering is not None:
        diluted = power.diluted_power(n, _FOREIGN)
        less = "lower" if diluted is None else f"about {diluted:.2f}"
        notes.append(
            f"the power is that of an untouched text; if a third of the text is foreign, it is "
            f"{less}."
        )
    if repeated > _MANY_REPEATS:
        notes.append(f"{repeated:.0%} of the tokens repeat earlier ones and do not count.")
    if spec.scheme.endswith("selfhash"):
        notes.append("selfhash marks only likely tokens; its power is not known.")
    gained = walk.ends[i] - walk.lowest[i]
    if _unmarked_start(walk, i, spec.gamma, power.bet) and gained > -np.log(alpha):
        notes.append(
            f"the first {walk.lowest_at[i]} counted tokens look unmarked and the rest marked; "
            f"if the prompt is part of the text, leave it out or give it as the prompt."
        )
    return tuple(notes)


def unplanned_test(spec: WatermarkSpec, detectors: tuple[Kind, ...]) -> tuple[str, ...]:
    """Return the warning that the plan is for another test, where it is."""
    planned = spec.planned_detector
    if spec.plan is None or detectors == (planned,):
        return ()
    asked = f"the detector is {detectors[0]}"
    if len(detectors) > 1:
        asked = f"p is corrected for {len(detectors)} detectors ({', '.join(detectors)})"
    return (
        f"this is not the planned test: {asked}, and the plan is for {planned}. The plan's power "
        f"does not hold for it. Choose detectors before you look at a result.",
    )


def _unmarked_start(walk: Evidence, i: int, gamma: float, bet: float) -> bool:
    """Whether the first tokens fit unmarked text much better, by more than a red or two."""
    if walk.lowest[i] > -_UNMARKED_START:
        return False
    up, down = bets(gamma, bet)
    reds = (walk.lowest_at[i] * up - walk.lowest[i]) / (up - down)
    return bool(reds > _FEW_REDS)
