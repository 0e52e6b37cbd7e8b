"""Prompts are read once for many texts, and nothing else changes."""

from dataclasses import replace
from typing import Any

import torch

from powermark.models import LanguageModel
from powermark.models.prompt_cache import PromptCache

PROMPTS = ["w5", "w6 w7 w8 w9", "w10 w11"]


class Counted:
    """A model that counts its calls."""

    def __init__(self, model: Any) -> None:
        self.calls, self._model = 0, model

    def __call__(self, *given: Any, **settings: Any) -> Any:
        self.calls += 1
        return self._model(*given, **settings)


def batch(*rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.tensor(rows)
    return ids, (ids > 0).long()


def test_a_batch_is_read_once_and_what_is_handed_out_is_a_copy(writer: LanguageModel) -> None:
    model, cache = Counted(writer.model), PromptCache()
    given = batch([0, 5, 6], [7, 8, 9])
    with torch.no_grad():
        first, second = (cache(model, *given) for _ in range(2))
        assert model.calls == 1
        assert first.get_seq_length() == 2
        first.layers[0].keys.zero_()
        assert second.layers[0].keys.abs().max() > 0
        assert cache(model, *batch([5], [6])) is None


def test_the_oldest_batches_are_forgotten(writer: LanguageModel) -> None:
    model, cache = Counted(writer.model), PromptCache(kept=1)
    with torch.no_grad():
        for given in (batch([5, 6]), batch([5, 6]), batch([5, 7]), batch([5, 6])):
            cache(model, *given)
    assert model.calls == 3


def test_texts_are_the_same_without_the_cache(writer: LanguageModel) -> None:
    keeping = replace(writer, read=PromptCache())
    alone = [writer.complete([p], n_tokens=12, temperature=0.0)[0] for p in PROMPTS]
    for model in (writer, keeping, keeping):
        assert model.complete(PROMPTS, n_tokens=12, temperature=0.0) == alone
    drawn = [m.complete(PROMPTS, n_tokens=12, seed=3) for m in (writer, keeping, keeping)]
    assert drawn[0] == drawn[1] == drawn[2]
