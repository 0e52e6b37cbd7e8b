"""Loading by name, folder or hub, and completing prompts, on a small random model."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from powermark.errors import FileProblem, InvalidInput, MissingExtra
from powermark.models import LanguageModel, load_model, load_tokenizer
from powermark.watermark.spec import digest_of
from proof.tiny_model import save_tiny_model

WORDS = ["<s>", "</s>", "a", "b", "c", "d", "e", "f"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(
        tmp_path_factory.mktemp("model"),
        WORDS,
        seed=0,
        vocab_size=10,
        max_position_embeddings=64,
        eos_token_id=1,
    )


@pytest.fixture(scope="module")
def model(folder: Path) -> LanguageModel:
    return load_model(str(folder))


def test_prompts_have_at_least_one_token(model: LanguageModel) -> None:
    assert model.add_bos is None
    assert model.encode("a b") == [2, 3]
    assert model.encode("") == [0]
    again = LanguageModel(name="x", model=None, tokenizer=model.tokenizer, add_bos=True)
    assert again.encode("a b") == [0, 2, 3]
    model.tokenizer.bos_token = None
    assert model.encode("") == [1]
    model.tokenizer.bos_token = "<s>"
    assert model.vocab_size == 8
    assert len(model.tokenizer_digest) == 32


def test_seeds_repeat_and_leave_the_callers_state_alone(model: LanguageModel) -> None:
    state = torch.get_rng_state()
    first = model.complete(["a b c", "d"], n_tokens=12, seed=3)
    assert model.complete(["a b c", "d"], n_tokens=12, seed=3) == first
    assert model.complete(["a b c", "d"], n_tokens=12, seed=4) != first
    assert torch.equal(torch.get_rng_state(), state)
    assert model.complete(["a b c"], n_tokens=12) != model.complete(["a b c"], n_tokens=12)
    assert [text.prompt_ids for text in first] == [[2, 3, 4], [5]]


def test_texts_end_where_the_model_ends_them(model: LanguageModel) -> None:
    texts = model.complete(["a"] * 40, n_tokens=20, seed=0)
    assert {text.finished for text in texts} == {True, False}
    for text in texts:
        assert 1 not in text.token_ids
        assert text.finished == (len(text.token_ids) < 20)
        assert text.text.strip() == model.tokenizer.decode(text.token_ids)
        whole = model.tokenizer.decode(text.prompt_ids + text.token_ids)
        assert model.tokenizer.decode(text.prompt_ids) + text.text == whole


@pytest.mark.parametrize("truncated", [{"top_k": 1}, {"top_p": 1e-6}])
def test_all_but_the_likeliest_can_be_cut_off(model: LanguageModel, truncated: Any) -> None:
    prompts = ["a", "b c", "d e a", "c c", "e"]
    likeliest = model.complete(prompts, n_tokens=6, temperature=0.0)
    assert model.complete(prompts, n_tokens=6, **truncated) == likeliest
    assert model.complete(prompts, n_tokens=6, seed=0) != likeliest


def test_greedy_and_padding(model: LanguageModel) -> None:
    steps: list[None] = []
    together = model.complete(
        ["a b c d", "e"], n_tokens=6, temperature=0.0, on_step=lambda: steps.append(None)
    )
    assert 1 <= len(steps) <= 6
    for prompt, text in zip(["a b c d", "e"], together, strict=True):
        assert model.complete([prompt], n_tokens=6, temperature=0.0) == [text]


def test_several_ends(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.model.generation_config, "eos_token_id", [1, 2, 3, 4, 5])
    assert all(text.finished for text in model.complete(["a"] * 5, n_tokens=50, seed=0))


def test_too_long(model: LanguageModel) -> None:
    with pytest.raises(InvalidInput, match=r"may have 64 tokens with .*; got 65"):
        model.complete(["a"], n_tokens=64)
    endless = SimpleNamespace(config=SimpleNamespace())
    LanguageModel(name="x", model=endless, tokenizer=None, add_bos=None).check_length(10**9)


def test_a_folder_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(FileProblem, match="cannot load the model") as caught:
        load_model(str(tmp_path))
    assert "smollm2-135m, gemma3-270m, a model folder" in str(caught.value.hint)
    with pytest.raises(FileProblem, match="cannot load the model 'nobody/nothing'"):
        load_tokenizer("nobody/nothing")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object | None:
        return None if name == "transformers" else object()

    monkeypatch.setattr("powermark.models.language_model.find_spec", find)
    with pytest.raises(MissingExtra, match="needs transformers, which is not installed") as caught:
        load_model()
    assert caught.value.hint == "pip install 'powermark[transformers]'"


def test_a_tokenizer_file_is_read_without_transformers(folder: Path, model: LanguageModel) -> None:
    fast = load_tokenizer(str(folder))
    assert type(fast).__name__ == "FileTokenizer"
    assert digest_of(fast) == model.tokenizer_digest
    assert (len(fast), fast.all_special_ids) == (8, [0, 1])
    assert fast.encode_with_spans("a  b") == ([2, 3], [(0, 1), (3, 4)])
    assert fast.decode([2, 3]) == model.tokenizer.decode([2, 3])
    assert fast.encode("a") == [2]


def test_progress_bars_stay_as_the_user_set_them(folder: Path) -> None:
    from transformers.utils import logging

    for shown in (True, False):
        (logging.enable_progress_bar if shown else logging.disable_progress_bar)()
        load_model(str(folder))
        assert logging.is_progress_bar_enabled() is shown
    logging.enable_progress_bar()


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 40, b'{"model": {}}'])
def test_a_damaged_tokenizer_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(FileProblem, match="cannot read the tokenizer") as caught:
        load_tokenizer(str(tmp_path))
    assert "fetched anew" in str(caught.value.hint)
