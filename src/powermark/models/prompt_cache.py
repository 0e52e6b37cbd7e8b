"""Keys and values of prompts, kept while many texts are written after the same prompts.

Experiments write after the same prompts under many marks, and reading fifty tokens of a prompt
costs as much as writing twenty. The cache also has spare room: transformers' own copies everything
at every step, a fifth of the time of short texts and more of long ones; this one copies only when
it must grow, to twice its length.
"""

from __future__ import annotations

from collections import OrderedDict
from copy import deepcopy
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

KEPT = 2**31  # bytes of keys and values


class PromptCache:
    """Keeps the keys and values of the latest batches of prompts, without each last token."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept, self._batches = kept, OrderedDict[bytes, Any]()

    def __call__(self, model: Any, ids: torch.Tensor, mask: torch.Tensor) -> Any:
        """Return a copy of the cache after prompts, padded on the left; None for one token."""
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
        return _with_room(deepcopy(self._batches[name]))


def _size(cache: Any) -> int:
    """Return the bytes of a batch's keys and values."""
    tensors = (part for layer in cache.layers for part in (layer.keys, layer.values))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class _RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """The cache of one layer; ``keys`` and ``values`` are the part in use."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values
        self._room = keys, values

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens, and return all states."""
        have = self.keys.shape[-2]
        need = have + key_states.shape[-2]
        if need > self._room[0].shape[-2]:
            self._room = _longer(self.keys, 2 * need), _longer(self.values, 2 * need)
        for room, new in zip(self._room, (key_states, value_states), strict=True):
            room[..., have:need, :] = new
        self.keys, self.values = (room[..., :need, :] for room in self._room)
        return self.keys, self.values


def _longer(states: torch.Tensor, length: int) -> torch.Tensor:
    room = states.new_empty((*states.shape[:-2], length, states.shape[-1]))
    room[..., : states.shape[-2], :] = states
    return room


def _with_room(cache: Any) -> Any:
    """Give a cache's plain layers spare room; other kinds of layers stay as they are."""
    cache.layers = [
        _RoomyLayer(layer.keys, layer.values) if type(layer) is DynamicLayer else layer
        for layer in cache.layers
    ]
    return cache
