"""Every way in which transformers generates, on small random models: marked, or refused."""

from functools import cache
from typing import Any

import generation_modes
import numpy as np
import pytest
import torch
from generation_modes import MODES, Mode
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)
from transformers.generation.configuration_utils import ContinuousBatchingConfig, GenerationMode

from powermark import plan
from powermark.detection.detector import Detector
from powermark.engines.transformers import WatermarkConfig, WatermarkProcessor
from powermark.errors import EngineProblem, SpecMismatch
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from tests.engines.known_model import Letters

VOCAB, OTHER_VOCAB, SHARED, N, PROMPT = 100, 104, 80, 60, 20
KEY = SecretKey(bytes(range(32)))
KINDS = ("constant", "steered")
ROUNDS = 6  # of texts; power .99, alpha .001: five are found by chance once in 10^14 unmarked runs


def made(vocab: int = VOCAB, layers: int = 3, seed: int = 1) -> Any:
    """Flat and random, so that the plug-in's power holds; float64, so that no argmax is a tie."""
    torch.manual_seed(seed)
    shape = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
    ids = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    config = LlamaConfig(vocab_size=vocab, num_hidden_layers=layers, **shape, **ids)
    found = LlamaForCausalLM(config).double().eval()
    found.generation_config.eos_token_id = None
    return found


model = cache(made)


@cache
def spec(kind: str, context_width: int = 2) -> WatermarkSpec:
    found = plan(
        n_tokens=N, alpha=0.001, power=0.99, gamma=0.5, context_width=context_width,
        steer=kind == "steered",
    )  # fmt: skip
    return WatermarkSpec.from_plan(found, vocab_size=VOCAB)


def words(size: int, shared: int) -> PreTrainedTokenizerFast:
    """A tokenizer whose first words are those of others."""
    found = {f"w{i}" if i < shared else f"{size}w{i}": i for i in range(size)}
    inner = Tokenizer(WordLevel(found, unk_token="w0"))
    inner.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="w0", pad_token="w0")


def config(kind: str, **more: Any) -> WatermarkConfig:
    return WatermarkConfig(spec(kind), KEY, Letters(VOCAB), **more)


def options(mode: Mode) -> dict[str, Any]:
    """Return a mode's options with models and tokenizers in place of their names."""
    real = {
        generation_modes.ASSISTANT: lambda: model(layers=1, seed=2),
        generation_modes.OTHER_ASSISTANT: lambda: made(OTHER_VOCAB, 1, 2),  # it is changed
        generation_modes.OTHER_TOKENIZER: lambda: words(OTHER_VOCAB, SHARED),
        "the tokenizer": lambda: words(VOCAB, SHARED),
    }
    chosen = mode.options.items()
    return {k: real[v]() if isinstance(v, str) and v in real else v for k, v in chosen}


def texts(seed: int, **given: Any) -> list[Any]:
    torch.manual_seed(seed)
    prompt = torch.randint(0, VOCAB, (1, PROMPT))
    found = model().generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=N + 3, pad_token_id=0,
        **given,
    )  # fmt: skip
    return list(found[:, PROMPT:].numpy())


def shares(kind: str, found: list[Any], context_width: int = 2) -> float:
    results = Detector(spec(kind, context_width), KEY).detect_many(found)
    return float(np.mean([result.verdict == "watermarked" for result in results]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode.options], ids=lambda m: m.name)
def test_a_text_is_marked_or_refused(mode: Mode, kind: str) -> None:
    outcome = getattr(mode, kind)
    if outcome == "refused by transformers":
        with pytest.raises(ValueError, match="trust_remote_code"):
            texts(0, watermarking_config=config(kind), **options(mode))
    elif outcome == "refused":
        with pytest.raises(EngineProblem, match="logits of two models, with 100 and 104"):
            texts(0, watermarking_config=config(kind), **options(mode))
        with pytest.raises((EngineProblem, SpecMismatch), match=r"logits of two|the model has 80"):
            texts(0, logits_processor=[by_hand(kind)], **options(mode))
    else:
        rounds = range(ROUNDS)
        found = [texts(i, watermarking_config=config(kind), **options(mode)) for i in rounds]
        assert shares(kind, [text for each in found for text in each]) > 0.8
        processor = by_hand(kind)  # one for all calls
        found = [texts(i, logits_processor=[processor], **options(mode)) for i in rounds]
        assert shares(kind, [text for each in found for text in each]) > 0.8


def by_hand(kind: str) -> WatermarkProcessor:
    return WatermarkProcessor(spec(kind), KEY, Letters(VOCAB), temperature=1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["a model", "an early exit", "prompt lookup"])
def test_assisted_greedy_search_writes_what_greedy_search_writes(name: str, kind: str) -> None:
    """Token for token: so every bias of a verified draft is that of the count up to there."""
    mode = next(each for each in MODES if each.name == f"greedy search, assisted by {name}")
    for seed in range(4):
        plain = texts(seed, do_sample=False, watermarking_config=config(kind))
        assisted = texts(seed, watermarking_config=config(kind), **options(mode))
        np.testing.assert_array_equal(assisted, plain)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_continuous_batching(kind: str, width: int) -> None:
    name = "context width 1" if width == 1 else "a wider context"
    mode = next(each for each in MODES if each.name == f"continuous batching, {name}")
    torch.manual_seed(0)
    prompts = torch.randint(0, VOCAB, (4, PROMPT)).tolist()
    mark = WatermarkConfig(spec(kind, width), KEY, Letters(VOCAB))
    settings = GenerationConfig(
        do_sample=True, top_k=0, max_new_tokens=N + 3, watermarking_config=mark, pad_token_id=0,
        eos_token_id=-1,
    )  # fmt: skip
    small = ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=128)  # else all memory
    found = (
        made(seed=3)
        .float()
        .generate_batch(
            prompts,
            generation_config=settings,
            continuous_batching_config=small,
            progress_bar=False,
        )
    )
    assert len(found) == 4
    if getattr(mode, kind) == "marked":
        assert (
            shares(kind, [np.array(each.generated_tokens) for each in found.values()], width) > 0.7
        )
    else:
        assert not any(each.generated_tokens for each in found.values())
        assert all("neither be steered nor" in str(each.error) for each in found.values())


def test_every_mode_of_transformers_is_in_the_table() -> None:
    """Modes, and options that switch assistance on, of the version that is installed."""
    tried = set()
    for mode in MODES:
        settings = {
            k: v for k, v in mode.options.items() if not isinstance(v, str) or k == "dola_layers"
        }
        assistant = mode.options.get("assistant_model")
        tried.add(GenerationConfig(**settings).get_generation_mode(assistant))
    assert tried == set(GenerationMode)


@pytest.mark.parametrize("kind", KINDS)
def test_recording_refuses_drafts(kind: str) -> None:
    mode = next(each for each in MODES if each.name == "sampling, assisted by a model")
    with pytest.raises(EngineProblem, match="steps that were never sampled"):
        texts(0, watermarking_config=config(kind, record_kl=True), **options(mode))


def test_a_mark_is_added_once() -> None:
    both = {"watermarking_config": config("constant"), "logits_processor": [by_hand("constant")]}
    with pytest.raises(EngineProblem, match="the same mark twice"):
        texts(0, do_sample=True, **both)
    with pytest.raises(EngineProblem, match="the same mark twice"):
        texts(0, do_sample=True, logits_processor=[by_hand("constant"), by_hand("steered")])
    other = WatermarkProcessor(
        spec("constant"), SecretKey(bytes(32)), Letters(VOCAB), temperature=1.0
    )
    texts(0, do_sample=True, logits_processor=[by_hand("constant"), other])  # two marks


def test_one_tensor_in_two_calls_is_no_double_mark() -> None:
    torch.manual_seed(0)
    prompt = torch.randint(0, VOCAB, (1, PROMPT))
    shared = by_hand("constant")
    for given in ({"logits_processor": [shared]}, {"watermarking_config": config("constant")}):
        model().generate(prompt, max_new_tokens=1, attention_mask=torch.ones_like(prompt), **given)
