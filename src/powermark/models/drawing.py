"""Truncating to the likeliest tokens, and drawing one of them with one uniform number per row.

``torch.multinomial`` draws an exponential number for every token of the vocabulary, on one core;
for the embedded model that takes as long as the model's own step on two. The distribution here is
the same: the token at which the cumulative probability first exceeds the number. The search goes
over sums of blocks first, then inside one block, so that each logit is read only a few times.
Float32 places each step to within 1e-7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_BLOCK = 512  # tokens
_LIKELIEST = 256  # tokens that are ordered before all are
_ROUNDING = 1e-5  # of the sum of their shares


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
    """Return where each increasing row first exceeds its place, never past its end."""
    import torch

    below = torch.nextafter(steps[:, -1:], torch.zeros_like(places))
    return torch.searchsorted(steps, torch.minimum(places, below), right=True)


class Draw:
    """A logits processor that draws a token; it must come last, after the mark.

    It leaves the drawn token as the only possible one, for a greedy choice to find.
    """

    def __call__(self, input_ids: Any, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return logits with one token left in each row."""
        drawn = draw(scores)
        return scores.fill_(-float("inf")).scatter_(1, drawn, 0.0)


class TopP:
    """Leaves the likeliest tokens that together have a share ``top_p``, as transformers does.

    transformers sorts the whole vocabulary, which for many rows takes longer than the model. The
    likeliest few hundred tokens decide nearly always; other rows are sorted.
    """

    def __init__(self, top_p: float) -> None:
        from transformers import TopPLogitsWarper

        self._top_p, self._sorted = top_p, TopPLogitsWarper(top_p)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return logits, -inf at the tokens that are left out."""
        top, tokens = scores.topk(min(_LIKELIEST, scores.shape[-1]))
        shares = (top - scores.logsumexp(dim=-1, keepdim=True)).exp()
        upto = shares.cumsum(dim=-1)
        kept = top.masked_fill(upto - shares >= self._top_p, -float("inf"))
        found = scores.new_full(scores.shape, -float("inf")).scatter_(1, tokens, kept)
        unsure = upto[:, -1] < self._top_p + _ROUNDING
        if unsure.any():
            found[unsure] = self._sorted(input_ids[unsure], scores[unsure])
        return found
