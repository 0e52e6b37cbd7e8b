"""Faults of speculation: drafted tokens that are taken back must not weaken a mark.

Every assisted way to generate of transformers, on small random models, with a constant and with a
steered mark. A way is lost where fewer texts are found than the plan promises, less four standard
errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from powermark import plan
from powermark.detection.detector import Detector
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec

KINDS = ("constant", "steered")
TEXTS, TOKENS, PROMPT, VOCAB, POWER = 20, 60, 20, 100, 0.95
_KEY = SecretKey(bytes(range(32)))


def tried(*, kind: str, texts: int = TEXTS) -> dict[str, Any]:
    """Generate in each way, and count the texts that are found."""
    found = plan(n_tokens=TOKENS, alpha=0.001, power=POWER, gamma=0.5, context_width=2,
                 steer=kind == "steered")  # fmt: skip
    spec = WatermarkSpec.from_plan(found, vocab_size=VOCAB)
    ways: dict[str, dict[str, Any]] = {
        "plain": {},
        "assistant": {"assistant_model": _model(layers=1, seed=2)},
        "early exit": {"assistant_early_exit": 1},
        "prompt lookup": {"prompt_lookup_num_tokens": 4},
    }
    shares = {name: _share(spec, texts, given) for name, given in ways.items()}
    least = POWER - 4.0 * np.sqrt(POWER * (1.0 - POWER) / texts)
    lost = sum(bool(share < least) for share in shares.values())
    said = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    return {"trials": texts * len(ways), "lost": lost, "tracebacks": 0, "said": f"found: {said}"}


def _share(spec: WatermarkSpec, texts: int, given: dict[str, Any]) -> float:
    import torch

    from powermark.engines.transformers import WatermarkConfig

    model, written = _model(), []
    for seed in range(texts):
        torch.manual_seed(seed)
        prompt = torch.randint(0, VOCAB, (1, PROMPT))
        mark = WatermarkConfig(spec, _KEY, _Tokens())
        ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=True,
                             top_k=0, max_new_tokens=TOKENS + 3, pad_token_id=0,
                             watermarking_config=mark, **given)  # fmt: skip
        written.append(ids[0, PROMPT:].numpy())
    results = Detector(spec, _KEY).detect_many(written)
    return float(np.mean([result.verdict == "watermarked" for result in results]))


def _model(layers: int = 3, seed: int = 1) -> Any:
    """Return a random model whose distributions are nearly flat."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    shape = LlamaConfig(
        vocab_size=VOCAB, num_hidden_layers=layers, hidden_size=32, intermediate_size=32,
        num_attention_heads=2, bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(shape).double().eval()
    model.generation_config.eos_token_id = None
    return model


class _Tokens:
    """As much of a tokenizer as a mark needs."""

    all_special_ids, pad_token_id = (), 0

    def __len__(self) -> int:
        return VOCAB

    def get_vocab(self) -> dict[str, int]:
        return {f"w{i}": i for i in range(VOCAB)}

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        del text, add_special_tokens
        return []
