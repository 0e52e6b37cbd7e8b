"""``KlRecord``: the effect of a mark on the distributions that a model samples from, by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from powermark.watermark.scheme import measure_bias

_CERTAINTY, _CONTEXTS = 3, 4  # places in a recorded step


@dataclass(slots=True)
class KlRecord:
    """The effect of the mark at each step, measured on the distribution that was sampled from.

    One array per quantity, (steps, rows): ``kl`` in nats, ``green_mass`` before and ``green_rate``
    after the bias; ``certainty``, the likeliest token's probability before it; ``contexts`` (steps,
    rows, context_width), with -1 where there was no token yet.
    Steps after a row's end are padding. Beams have a row each.
    """

    _steps: list[tuple[NDArray[Any], ...]] = field(default_factory=list)

    def add(self, scores: Tensor, marked: Tensor, contexts: Tensor) -> None:
        """Measure one step from the logits before and after the bias."""
        before, after = (x.detach().to("cpu", torch.float32).numpy() for x in (scores, marked))
        certainty = scores.detach().float().softmax(dim=-1).amax(dim=-1).cpu().numpy()
        self._steps.append((*measure_bias(before, after).T, certainty, contexts.cpu().numpy()))

    def _stack(self, index: int) -> NDArray[Any]:
        if not self._steps:
            return np.zeros((0, 0, 0) if index == _CONTEXTS else (0, 0))
        return np.stack([step[index] for step in self._steps])

    @property
    def kl(self) -> NDArray[np.float64]:
        """KL(marked || original) of each step, nats."""
        return self._stack(0)

    @property
    def green_mass(self) -> NDArray[np.float64]:
        """Probability of the biased tokens before the bias."""
        return self._stack(1)

    @property
    def green_rate(self) -> NDArray[np.float64]:
        """Probability of the biased tokens after it."""
        return self._stack(2)

    @property
    def certainty(self) -> NDArray[np.float32]:
        """Probability of the likeliest token before the bias."""
        return self._stack(_CERTAINTY)

    @property
    def contexts(self) -> NDArray[np.int64]:
        """The token ids that chose each green list."""
        return self._stack(_CONTEXTS)
