"""Drawing a token by one uniform number a row.

``torch.multinomial`` draws an exponential number for every token of the vocabulary, on one core
whatever there are; on the embedded model that takes as long as the model's own step on two. The
distribution here is the same: the token at which the cumulative probability first exceeds the
number. It is looked for among sums of blocks first, then inside one block, so that each logit is
read but a few times. Float32 places each of those steps to within 1e-7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_BLOCK = 512  # tokens


def draw(scores: torch.Tensor) -> torch.Tensor:
    """Return a token for each row of logits, (rows, 1); the logits are overwritten."""
    import torch

    weights = scores.float()
    weights = weights.sub_(weights.amax(dim=-1, keepdim=True)).exp_()
    if rest := -weights.shape[1] % _BLOCK:
        weights = torch.nn.functional.pad(weights, (0, rest))
    blocks = weights.view(len(weights), -1, _BLOCK)
    sums = blocks.sum(dim=-1).cumsum(dim=-1)
    places = torch.rand(len(weights), 1, device=weights.device) * sums[:, -1:]
    block = _first_above(sums, places)
    before = torch.where(block > 0, sums.gather(1, (block - 1).clamp_min(0)), 0.0)
    inside = blocks.gather(1, block.unsqueeze(-1).expand(-1, -1, _BLOCK)).squeeze(1).cumsum(dim=-1)
    return block * _BLOCK + _first_above(inside, places - before)


def _first_above(steps: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return where each rising row first exceeds its place; rounding may not lead past its end."""
    import torch

    below = torch.nextafter(steps[:, -1:], torch.zeros_like(places))
    return torch.searchsorted(steps, torch.minimum(places, below), right=True)


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
