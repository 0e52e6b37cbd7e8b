"""``Detection``: a verdict with everything that a reader of it must know."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from powermark.detection.findings import Verdict
from powermark.tables import table

Kind = Literal["count", "winmax", "winmax-c", "evalue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What was found in one text.

    ``p`` and ``p_mid`` are corrected for the number of keys tried; ``z``, of a single key, is None
    with several. ``p_mid`` and ``z`` are companions that guarantee nothing. ``green_rate_low`` and
    ``_high`` are a 95 % Clopper-Pearson interval. ``power`` is the probability that this detector
    finds a marked text with as many counted tokens, at the plan's ``gamma_prime``. ``span_start``
    and ``span_stop`` are the most marked stretch, in tokens; ``tokens_needed`` those with which the
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
    z: float | None
    p_mid: float
    marked_share: float | None
    power: float
    tokens_needed: int | None
    span_start: int | None
    span_stop: int | None
    key: str | None
    keys_tried: int
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
        rows = [
            (
                "p",
                f"{self.p:.3g}",
                f"{self.detector}; alpha = {self.alpha:g}; {self.bits:.1f} bits",
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
