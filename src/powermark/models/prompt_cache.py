"""What a model makes of a batch of prompts, kept while other texts are written after the same.

Experiments write after the same prompts under many marks. Reading fifty tokens of a prompt costs
as much as writing twenty of a text.
"""

from __future__ import annotations

from collections import OrderedDict
from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

KEPT = 2**31  # bytes of keys and values


class PromptCache:
    """Keeps keys and values of the latest batches of prompts, all but each one's last token."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept, self._batches = kept, OrderedDict[bytes, Any]()

    def __call__(self, model: Any, ids: torch.Tensor, mask: torch.Tensor) -> Any:
        """Return a copy of what a model made of prompts, padded on the left; None for one token."""
        if ids.shape[1] < 2:
            return None
        name = b"".join(part.cpu().numpy().tobytes() for part in (ids, mask))
        if name in self._batches:
            self._batches.move_to_end(name)
        else:
            places = (mask.cumsum(dim=-1) - 1).clamp_min(0)
            self._batches[name] = model(
                ids[:, :-1],
                attention_mask=mask[:, :-1],
                position_ids=places[:, :-1],
                use_cache=True,
                logits_to_keep=1,
            ).past_key_values
            while len(self._batches) > 1 and sum(map(_size, self._batches.values())) > self._kept:
                self._batches.popitem(last=False)
        from powermark.models.roomy_cache import with_room

        return with_room(deepcopy(self._batches[name]))


def _size(cache: Any) -> int:
    """Return the bytes of a batch's keys and values."""
    tensors = (part for layer in cache.layers for part in (layer.keys, layer.values))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
