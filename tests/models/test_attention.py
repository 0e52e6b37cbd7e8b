"""Attention without copies of keys and values writes the same texts."""

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from powermark.models import LanguageModel, attention, load_model
from powermark.models.attention import grouped_heads
from tests.conftest import VOCAB


@pytest.fixture
def grouped(writer_folder: Path) -> LanguageModel:
    """A random model, three of whose heads share their keys and values."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        initializer_range=1.0,
        eos_token_id=None,
    )
    loaded = load_model(str(writer_folder))
    return LanguageModel(
        name="grouped",
        model=LlamaForCausalLM(config).eval(),
        tokenizer=loaded.tokenizer,
        add_bos=None,
    )


def test_texts_are_the_same(grouped: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = ["w5", "w6 w7 w8 w9", "w10 w11"]
    attend = MagicMock(side_effect=attention._attend)
    monkeypatch.setattr(attention, "_attend", attend)
    found = grouped.complete(prompts, n_tokens=20, seed=3)
    assert attend.call_count == 2 * 20  # layers and tokens
    assert grouped.model.config._attn_implementation == "sdpa"
    monkeypatch.setattr(attention, "grouped_heads", lambda _: nullcontext())
    assert grouped.complete(prompts, n_tokens=20, seed=3) == found


def test_other_models_are_left_alone(grouped: LanguageModel) -> None:
    grouped.model.set_attn_implementation("eager")
    with grouped_heads(grouped.model):
        assert grouped.model.config._attn_implementation == "eager"
    assert grouped.model.config._attn_implementation == "eager"
