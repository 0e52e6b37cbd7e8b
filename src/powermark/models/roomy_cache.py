"""Keys and values with room for more tokens.

transformers' own cache copies all that it has at every step, a fifth of the time of writing short
texts and more of long ones. This one copies where it must grow, to twice its length.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """What a layer of a model remembers; ``keys`` and ``values`` are the part in use."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values
        self._room = keys, values

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add those of new tokens, and return all of them."""
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


def with_room(cache: Any) -> Any:
    """Give a cache's plain layers room; layers of other kinds stay as they are."""
    cache.layers = [
        RoomyLayer(layer.keys, layer.values) if type(layer) is DynamicLayer else layer
        for layer in cache.layers
    ]
    return cache
