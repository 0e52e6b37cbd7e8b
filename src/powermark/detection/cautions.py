"""What a reader of a verdict must know, in words."""

from __future__ import annotations

import numpy as np

from powermark.detection.evalue import bets
from powermark.detection.findings import VERDICTS, Evidence, Findings
from powermark.detection.foresight import Foresight
from powermark.watermark.spec import WatermarkSpec

FOREIGN = 1.0 / 3.0  # share of a text that a steered mark's power is told for, too
_FEW_REDS = 2.5  # red tokens that chance may put at the start of a marked text
_MANY_REPEATS = 0.3  # share of a text
_UNMARKED_START = 3.0  # nats against the mark in the first half before we speak of a prompt


def cautions(
    found: Findings,
    i: int,
    *,
    spec: WatermarkSpec,
    alpha: float,
    gamma_prime: float,
    foresight: Foresight,
) -> tuple[str, ...]:
    """Return the warnings on text i of those that were looked at."""
    n, walk, verdict = int(found.scored[i]), found.walk, VERDICTS[found.verdict[i]]
    repeated = found.repeated[i] / max(found.tokens[i], 1)
    notes = []
    if verdict == "inconclusive":
        needed = foresight.tokens_needed
        length = "" if needed is None or needed <= n else f"; {needed} are needed"
        notes.append(f"only {n} tokens count, too few to tell{length}.")
    if verdict == "no watermark found" and spec.steering is not None:
        power = foresight.diluted_power(n, FOREIGN)
        less = "lower" if power is None else f"about {power:.2f}"
        notes.append(
            f"the power is that of an untouched text; if a third of the text is foreign, it is "
            f"{less}."
        )
    if repeated > _MANY_REPEATS:
        notes.append(f"{repeated:.0%} of the tokens repeat earlier ones and do not count.")
    if spec.scheme.endswith("selfhash"):
        notes.append("selfhash marks only likely tokens; its power is not known.")
    gained = walk.ends[i] - walk.lowest[i]
    if _unmarked_start(walk, i, spec.gamma, gamma_prime) and gained > -np.log(alpha):
        notes.append(
            f"the first {walk.lowest_at[i]} counted tokens look unmarked and the rest marked; "
            f"if the prompt is part of the text, leave it out or give it as the prompt."
        )
    return tuple(notes)


def _unmarked_start(walk: Evidence, i: int, gamma: float, gamma_prime: float) -> bool:
    """Whether the first tokens fit unmarked text much better, by more than a red or two."""
    if walk.lowest[i] > -_UNMARKED_START:
        return False
    up, down = bets(gamma, gamma_prime)
    reds = (walk.lowest_at[i] * up - walk.lowest[i]) / (up - down)
    return bool(reds > _FEW_REDS)
