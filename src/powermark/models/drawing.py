"""Drawing a token by one uniform number a row.

``torch.multinomial`` draws an exponential number for every token of the vocabulary, on one core
whatever there are; on the embedded model that takes as long as the model's own step on two. The
distribution here is the same: the token at which the cumulative probability first exceeds the
number. Float32 places each of those steps to within 1e-7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def draw(scores: torch.Tensor) -> torch.Tensor:
    """Return a token for each row of logits, (rows, 1)."""
    import torch

    steps = scores.float().softmax(dim=-1).cumsum_(dim=-1)
    places = torch.rand(len(scores), 1, device=scores.device) * steps[:, -1:]
    return torch.searchsorted(steps, places, right=True).clamp_max(scores.shape[-1] - 1)


class DrawnLast:
    """Stands where transformers expects a watermark, last: marks through another, then draws.

    It leaves the token drawn as the only one, for a greedy choice to find.
    """

    def __init__(self, mark: Any) -> None:
        self._mark = mark

    def construct_processor(self, *settings: Any) -> DrawnLast:
        """Begin a text of the mark's, and return itself; transformers calls this."""
        self._processor = None if self._mark is None else self._mark.construct_processor(*settings)
        return self

    def validate(self) -> None:
        """Nothing is there to check; transformers calls this."""

    def __deepcopy__(self, memo: object) -> DrawnLast:
        return self  # generate() copies its configuration; a mark's record must stay this one

    def to_dict(self) -> dict[str, Any]:
        """Return nothing; transformers asks."""
        return {}

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return logits with one token left in each row."""
        if self._processor is not None:
            scores = self._processor(input_ids, scores)
        drawn = draw(scores)
        return scores.fill_(-float("inf")).scatter_(1, drawn, 0.0)
