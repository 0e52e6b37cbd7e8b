"""Attention of one new token on a CPU, without copies of the keys and values.

Models whose heads share keys and values are the rule. With a padding mask, transformers first
repeats both for every head; on a CPU the copies take several times as long as the attention. The
results are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "powermark_grouped"  # under which transformers knows it


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend as transformers' function does; of several new tokens, by that function itself."""
    shared = getattr(module, "num_key_value_groups", 1) > 1
    if not shared or query.shape[2] > 1 or options.get("position_bias") is not None:
        found, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return found, None
    found = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=True
    )
    return found.transpose(1, 2).contiguous(), None


@contextmanager
def grouped_heads(model: Any) -> Iterator[None]:
    """Let a model on a CPU attend without copies for a while; other models are left alone."""
    if model.device.type != "cpu" or model.config._attn_implementation != "sdpa":
        yield
        return
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation("sdpa")
