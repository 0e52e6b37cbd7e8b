"""Encoders, to compare texts by meaning: a small packaged one, or your own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from transformers import AutoModel, AutoTokenizer

from powermark.models.catalog import DEFAULT_ENCODER, ENCODERS
from powermark.models.language_model import load_part
from powermark.models.store import encoder_folder

_UNSET = 10**6  # transformers sets 1e30 if a tokenizer has no limit


@lru_cache(maxsize=2)  # loaded again for every cell of an experiment
def load_encoder(name: str = DEFAULT_ENCODER, *, layers: int | None = None) -> tuple[Any, Any]:
    """Return an encoder in evaluation mode, cut after some layers, and its tokenizer.

    Examples
    --------
    ``load_encoder()``, ``load_encoder("./my-encoder")``,
    ``load_encoder("roberta-large", layers=17)``
    """
    place = str(encoder_folder(name)) if name in ENCODERS else name
    settings = {} if layers is None else {"num_hidden_layers": layers}
    model = load_part(AutoModel, name, place, ENCODERS, **settings).eval()
    tokenizer = load_part(AutoTokenizer, name, place, ENCODERS)
    if tokenizer.model_max_length > _UNSET:
        # RoBERTa and similar models reserve two positions
        tokenizer.model_max_length = model.config.max_position_embeddings - 2
    return model, tokenizer
