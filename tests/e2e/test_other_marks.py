"""Text that transformers itself marked, found through the compatibility schemes."""

import numpy as np
import pytest
import torch
from transformers import WatermarkDetector, WatermarkingConfig

from powermark.detection.detector import Detector
from powermark.models import LanguageModel
from powermark.watermark.keys import HashKey
from powermark.watermark.spec import WatermarkSpec


@pytest.mark.parametrize(("scheme", "theirs"), [("hf-lefthash", 1), ("hf-selfhash", 2)])
def test_marks_of_transformers_are_found(smollm2: LanguageModel, scheme: str, theirs: int) -> None:
    kind = scheme.removeprefix("hf-")
    config = WatermarkingConfig(
        greenlist_ratio=0.25, bias=4.0, seeding_scheme=kind, context_width=theirs
    )
    marked, plain = (
        smollm2.complete(["The city council met on Tuesday"], n_tokens=60, seed=2,
                         watermarking_config=mark)[0]
        for mark in (config, None)
    )  # fmt: skip
    spec = WatermarkSpec(
        scheme=scheme,
        gamma=0.25,
        delta=4.0,
        context_width=1 if kind == "lefthash" else theirs - 1,
        vocab_size=49_152,
    )
    look = Detector(spec, HashKey(), alpha=1e-4)
    found = look.detect(marked.token_ids)
    assert found.verdict == "watermarked"
    assert look.detect(plain.token_ids).p > 1e-3
    peer = WatermarkDetector(
        model_config=smollm2.model.config,
        device="cpu",
        watermarking_config=config,
        ignore_repeated_ngrams=True,
    )(torch.tensor([marked.token_ids]), return_dict=True)
    # They count n-grams of the whole context and we draws of one list, which are among them.
    theirs_scored, theirs_green = int(peer.num_tokens_scored[0]), int(peer.num_green_tokens[0])
    assert 0 <= theirs_green - found.green <= theirs_scored - found.scored
    # their p-value lacks a square root, and is far too small for a large z
    assert np.isfinite(found.bits)
