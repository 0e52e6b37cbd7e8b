"""A random Llama of one small layer over a handful of words, as a folder."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def save_tiny_model(path: Path, words: list[str], *, seed: int, **config: Any) -> Path:
    """Save it with its tokenizer; words 0 and 1 begin and end a text, 2 is for unknown ones."""
    begin, end, unknown = words[:3]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=unknown)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=begin, eos_token=end
    ).save_pretrained(path)
    torch.manual_seed(seed)
    shape = LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        bos_token_id=0, **config,
    )  # fmt: skip
    LlamaForCausalLM(shape).save_pretrained(path)
    return path
