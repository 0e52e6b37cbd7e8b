"""Real llama-cpp-python on the embedded model; run by make test-llama-cpp."""

import os
from pathlib import Path
from typing import Any

import pytest
from llama_cpp import Llama, LogitsProcessorList

from powermark.detection.detector import Detector
from powermark.engines.llama_cpp import watermark
from powermark.models.catalog import CATALOG, DEFAULT_MODEL
from powermark.models.fetch import fetch
from powermark.models.language_model import load_tokenizer
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec, digest_of

KEY = SecretKey(bytes(range(32)))
PROMPT = "The city council met on Tuesday"


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("POWERMARK_TEST_GGUF")
    if given:
        return Path(given)
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    fetch(CATALOG[DEFAULT_MODEL], path)
    return path


@pytest.mark.parametrize("h", [1, 4])
def test_marked_and_unmarked_texts(gguf: Path, h: int) -> None:
    tokenizer = load_tokenizer(DEFAULT_MODEL)
    spec = WatermarkSpec(gamma=0.25, delta=4.0, context_width=h, vocab_size=len(tokenizer),
                         tokenizer_digest=digest_of(tokenizer))  # fmt: skip
    detector = Detector(spec, KEY, tokenizer=tokenizer, alpha=1e-3)

    def write(llama: Any, **more: Any) -> str:
        found = llama.create_completion(PROMPT, max_tokens=80, temperature=1.0, seed=7, **more)
        return str(found["choices"][0]["text"])

    options = {"n_ctx": 512, "n_threads": 1, "verbose": False}
    plain = Llama(str(gguf), **options)
    assert detector.detect(write(plain)).verdict != "watermarked"
    marked = watermark(Llama(str(gguf), **options), spec, KEY, tokenizer=tokenizer)
    others = LogitsProcessorList([lambda _, scores: scores])
    for more in ({}, {"logit_bias": {0: 0.0}}, {"logits_processor": others}):
        found = detector.detect(write(marked, **more))
        print(f"\nh={h} {sorted(more)}: p {found.p:.2g}, {found.green} of {found.scored} green")
        assert found.verdict == "watermarked"
    chat = marked.create_chat_completion(
        [{"role": "user", "content": "Tell me a long story about the sea."}],
        max_tokens=80, temperature=1.0,
    )  # fmt: skip
    assert detector.detect(chat["choices"][0]["message"]["content"]).p < 0.05
