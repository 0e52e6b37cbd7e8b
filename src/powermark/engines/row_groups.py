"""Several marks in one batch of transformers' ``generate()``, each on rows of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.generation.configuration_utils import BaseWatermarkingConfig
from transformers.generation.logits_process import LogitsProcessor

from powermark.engines.kl_record import KlRecord

RowMark = Callable[[Tensor, Tensor], Tensor]  # ids and logits of some rows to marked logits


class RowGroups(BaseWatermarkingConfig):  # type: ignore[misc]
    """What ``generate(watermarking_config=...)`` takes, for one batch without beams.

    Parameters
    ----------
    groups
        How many rows each mark has, in order, and the mark; None leaves them alone.
    temperature
        Of sampling. Where it is not 1, ``plain`` is recorded too.

    Attributes
    ----------
    record
        The effect of the marks on the distribution that was sampled from.
    plain
        The same at temperature 1, which others report at any sampling temperature.
    """

    def __init__(
        self, groups: Sequence[tuple[int, RowMark | None]], *, temperature: float = 1.0
    ) -> None:
        self._groups, self._temperature = groups, temperature
        self.record = KlRecord()
        self.plain = KlRecord() if temperature != 1.0 else self.record

    def construct_processor(self, vocab_size: int, device: Any = None) -> LogitsProcessor:  # noqa: ARG002
        """Return the processor; transformers calls this."""
        return _Processor(self)

    def validate(self) -> None:
        """Nothing is left to check; transformers calls this."""

    def mark(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the logits of a step with every group's mark."""
        sizes = [rows for rows, _ in self._groups]
        parts = zip(*(torch.split(x, sizes) for x in (input_ids, scores)), strict=True)
        marks = (mark for _, mark in self._groups)
        marked = torch.cat(
            [
                part if mark is None else mark(ids, part)
                for mark, (ids, part) in zip(marks, parts, strict=True)
            ]
        )
        self.record.add(scores, marked, input_ids[:, :0])
        if self.plain is not self.record:
            both = (scores * self._temperature, marked * self._temperature)
            self.plain.add(*both, input_ids[:, :0])
        return marked


class _Processor(LogitsProcessor):  # type: ignore[misc]
    def __init__(self, groups: RowGroups) -> None:
        self._groups = groups

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        return self._groups.mark(input_ids, scores)
