"""Loading by name, folder or hub, and completing prompts, on a small random model."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from powermark.errors import FileProblem, InvalidInput, MissingExtra
from powermark.models import LanguageModel, load_model, load_tokenizer
from powermark.watermark.spec import digest_of


def test_prompts_have_at_least_one_token(tiny_model: LanguageModel) -> None:
    assert tiny_model.add_bos is None
    assert tiny_model.encode("a b") == [2, 3]
    assert tiny_model.encode("") == [0]
    again = LanguageModel(name="x", model=None, tokenizer=tiny_model.tokenizer, add_bos=True)
    assert again.encode("a b") == [0, 2, 3]
    tiny_model.tokenizer.bos_token = None
    assert tiny_model.encode("") == [1]
    tiny_model.tokenizer.bos_token = "<s>"
    assert tiny_model.vocab_size == 8
    assert len(tiny_model.tokenizer_digest) == 32


def test_seeds_repeat_and_leave_the_callers_state_alone(tiny_model: LanguageModel) -> None:
    state = torch.get_rng_state()
    first = tiny_model.complete(["a b c", "d"], n_tokens=12, seed=3)
    assert tiny_model.complete(["a b c", "d"], n_tokens=12, seed=3) == first
    assert tiny_model.complete(["a b c", "d"], n_tokens=12, seed=4) != first
    assert torch.equal(torch.get_rng_state(), state)
    assert tiny_model.complete(["a b c"], n_tokens=12) != tiny_model.complete(
        ["a b c"], n_tokens=12
    )
    assert [text.prompt_ids for text in first] == [[2, 3, 4], [5]]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_tokens_are_drawn_after_the_mark(tiny_model: LanguageModel, temperature: float) -> None:
    class Mark:
        def construct_processor(self, columns: int, device: torch.device) -> Any:
            only = torch.arange(columns, device=device) == 3
            return lambda _, scores: torch.where(only, scores, -torch.inf)

    (text,) = tiny_model.complete(
        ["a"], n_tokens=12, temperature=temperature, watermarking_config=Mark()
    )
    assert text.token_ids == [3] * 12


def test_texts_end_where_the_model_ends_them(tiny_model: LanguageModel) -> None:
    texts = tiny_model.complete(["a"] * 40, n_tokens=20, seed=0)
    assert {text.finished for text in texts} == {True, False}
    assert any(0 in text.token_ids for text in texts)
    decode = partial(tiny_model.tokenizer.decode, skip_special_tokens=True)
    for text in texts:
        assert 1 not in text.token_ids
        assert text.finished == (len(text.token_ids) < 20)
        assert text.text.strip() == decode(text.token_ids)  # special tokens are not text
        whole = decode(text.prompt_ids + text.token_ids)
        assert decode(text.prompt_ids) + text.text == whole


@pytest.mark.parametrize("truncated", [{"top_k": 1}, {"top_p": 1e-6}])
def test_all_but_the_likeliest_can_be_cut_off(tiny_model: LanguageModel, truncated: Any) -> None:
    prompts = ["a", "b c", "d e a", "c c", "e"]
    likeliest = tiny_model.complete(prompts, n_tokens=6, temperature=0.0)
    assert tiny_model.complete(prompts, n_tokens=6, **truncated) == likeliest
    assert tiny_model.complete(prompts, n_tokens=6, seed=0) != likeliest


def test_greedy_and_padding(tiny_model: LanguageModel) -> None:
    steps: list[None] = []
    together = tiny_model.complete(
        ["a b c d", "e"], n_tokens=6, temperature=0.0, on_step=lambda: steps.append(None)
    )
    assert 1 <= len(steps) <= 6
    for prompt, text in zip(["a b c d", "e"], together, strict=True):
        assert tiny_model.complete([prompt], n_tokens=6, temperature=0.0) == [text]


def test_several_ends(tiny_model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_model.model.generation_config, "eos_token_id", [1, 2, 3, 4, 5])
    assert all(text.finished for text in tiny_model.complete(["a"] * 5, n_tokens=50, seed=0))


def test_too_long(tiny_model: LanguageModel) -> None:
    with pytest.raises(InvalidInput, match=r"may have 64 tokens with .*; got 65"):
        tiny_model.complete(["a"], n_tokens=64)
    endless = SimpleNamespace(config=SimpleNamespace())
    LanguageModel(name="x", model=endless, tokenizer=None, add_bos=None).check_length(10**9)


def test_folders_and_names_without_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_tokenizer_file_is_read_without_transformers(
    tiny_folder: Path, tiny_model: LanguageModel
) -> None:
    fast = load_tokenizer(str(tiny_folder))
    assert type(fast).__name__ == "FileTokenizer"
    assert digest_of(fast) == tiny_model.tokenizer_digest
    assert (len(fast), fast.all_special_ids) == (8, [0, 1])
    assert fast.encode_with_spans("a  b") == ([2, 3], [(0, 1), (3, 4)])
    assert fast.decode([2, 3]) == tiny_model.tokenizer.decode([2, 3])
    assert fast.encode("a") == [2]


def test_progress_bars_stay_as_the_user_set_them(tiny_folder: Path) -> None:
    from transformers.utils import logging

    for shown in (True, False):
        (logging.enable_progress_bar if shown else logging.disable_progress_bar)()
        load_model(str(tiny_folder))
        assert logging.is_progress_bar_enabled() is shown
    logging.enable_progress_bar()


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 40, b'{"model": {}}'])
def test_a_damaged_tokenizer_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(FileProblem, match="cannot read the tokenizer") as caught:
        load_tokenizer(str(tmp_path))
    assert "downloaded again" in str(caught.value.hint)
