"""Convert a GGUF file to an ordinary model folder, once, so that later loads take a second."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from powermark.errors import PowermarkError

# entries of a GGUF model's configuration that a plain one must not have
_DROP = ("quantization_config", "_name_or_path", "_model_name_or_path", "dtype", "torch_dtype")


def convert(gguf: Path, folder: Path) -> None:
    """Write safetensors, configuration and tokenizer of ``gguf`` to ``folder``.

    transformers refuses to save a model loaded from GGUF, although its weights are plain by then.
    So they are copied to a fresh model of the same class, which must give the same logits.
    """
    place, name = str(gguf.parent), gguf.name
    tokenizer = AutoTokenizer.from_pretrained(place, gguf_file=name)
    loaded = AutoModelForCausalLM.from_pretrained(place, gguf_file=name, dtype=torch.float32).eval()
    settings = {k: v for k, v in loaded.config.to_dict().items() if k not in _DROP}
    plain = type(loaded)(type(loaded.config)(**settings)).float().eval()
    plain.load_state_dict(loaded.state_dict())
    plain.tie_weights()
    probe = torch.tensor([tokenizer.encode("The capital of France is the city of")])
    with torch.no_grad():
        if not torch.equal(loaded(probe).logits, plain(probe).logits):
            raise PowermarkError(f"{name} was not converted faithfully; the copy was discarded.")
    tokenizer.model_max_length = int(plain.config.max_position_embeddings)  # GGUF says 1e30
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
