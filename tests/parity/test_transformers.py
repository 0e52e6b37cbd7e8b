"""The installed transformers' own watermark, as an oracle of the hf- schemes."""

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import WatermarkLogitsProcessor

from powermark.watermark.compat import Compat
from powermark.watermark.keys import HashKey

VOCAB, CONTEXTS = 2_000, 200


@pytest.mark.parametrize(
    ("scheme", "width", "theirs"),
    [("hf-lefthash", 1, 1), ("hf-selfhash", 0, 1), ("hf-selfhash", 3, 4)],
)
@pytest.mark.parametrize("key", [15_485_863, 987_654_321_123])
def test_biased_logits_equal_those_of_transformers(
    scheme: str, width: int, theirs: int, key: int
) -> None:
    rng = np.random.default_rng(width)
    history = rng.integers(0, VOCAB, (CONTEXTS, 6))
    logits = rng.standard_normal((CONTEXTS, VOCAB)).astype(np.float32)
    oracle = WatermarkLogitsProcessor(
        VOCAB,
        "cpu",
        greenlist_ratio=0.3,
        bias=1.5,
        hashing_key=key,
        seeding_scheme=scheme.removeprefix("hf-"),
        context_width=theirs,
    )
    want = oracle(torch.from_numpy(history), torch.from_numpy(logits)).numpy()
    ours = Compat(scheme, HashKey(key), gamma=0.3, vocab_size=VOCAB, context_width=width)
    got = ours.add_bias(logits, history[:, 6 - width :], 1.5, out=np.empty_like(logits))
    np.testing.assert_array_equal(got, want)
    assert (got != logits).any(axis=1).all()
