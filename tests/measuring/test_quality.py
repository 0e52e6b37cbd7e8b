"""Each metric against a plain computation or a known value; no network, small random models."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from powermark.errors import FileProblem, InvalidInput, MissingExtra
from powermark.measuring import quality as module
from powermark.measuring.ngrams import distinct_share
from powermark.measuring.quality import bert_score, bleu, perplexity, quality, rouge_l
from powermark.models import LanguageModel
from powermark.models.encoder import load_encoder

WORDS = ["[PAD]", "[CLS]", "[SEP]", *(f"w{i}" for i in range(40))]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random BERT in a folder that bert-score would take for a T5."""
    path = tmp_path_factory.mktemp("at5")
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(path)
    torch.manual_seed(0)
    shape = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=16, num_hidden_layers=3,
        num_attention_heads=2, max_position_embeddings=64, initializer_range=1.0,
    )  # fmt: skip
    BertModel(shape).save_pretrained(path)
    return str(path)


def test_bleu_is_that_of_the_papers_code() -> None:
    """By hand: 4 of 5 words, 2 of 4 pairs, 1 of 3 triples, and .1 of 2 for the smoothing."""
    found = bleu(["a b c x d", "a b c d", "", "q"], ["a b c y d", "a b c d", "a b", "a b"])
    assert found[0] == pytest.approx((4 / 5 * 2 / 4 * 1 / 3 * 0.1 / 2) ** 0.25)
    assert found[1:].tolist() == [1.0, 0.0, 0.0]


def test_rouge_is_the_longest_common_subsequence() -> None:
    found = rouge_l(["The cats, running", "a b c d", ""], ["the cat runs!", "a x c y z", "a"])
    assert found.tolist() == [1.0, pytest.approx(2 * (2 / 4) * (2 / 5) / (2 / 4 + 2 / 5)), 0.0]


def by_hand(model: Any, tokenizer: Any, texts: list[str]) -> float:
    """Greedy matching of two texts' word vectors."""
    with torch.no_grad():
        vectors = [model(torch.tensor([tokenizer.encode(t)]))[0][0] for t in texts]
    a, b = (v / v.norm(dim=-1, keepdim=True) for v in vectors)
    like = a @ b.T
    precision = like.max(dim=1).values[1:-1].mean()
    recall = like.max(dim=0).values[1:-1].mean()
    return float(2 * precision * recall / (precision + recall))


@pytest.mark.parametrize("layers", [None, 1])
def test_bert_score_by_hand(encoder: str, layers: int | None) -> None:
    texts, others = ["w1 w2 w3", "w4 w5", " ", "w6"], ["w3 w9 w8 w7", "w4 w5", "w1", ""]
    found = bert_score(texts, others, encoder, layers=layers, batch=1)
    model, tokenizer = load_encoder(encoder, layers=layers)
    assert len(model.encoder.layer) == (layers or 3)
    assert found[0] == pytest.approx(by_hand(model, tokenizer, [texts[0], others[0]]), abs=1e-5)
    assert found[1] == pytest.approx(1.0, abs=1e-5)
    assert found[2:].tolist() == [0.0, 0.0]
    together = bert_score(texts, others, encoder, layers=layers, batch=9)
    np.testing.assert_allclose(found, together, atol=1e-5)
    assert bert_score([], [], encoder).size == 0


def test_long_texts_are_cut_to_what_the_encoder_holds(encoder: str) -> None:
    assert load_encoder(encoder)[1].model_max_length == 62
    long = " ".join(WORDS[3:] * 3)
    assert bert_score([long], [long], encoder)[0] == pytest.approx(1.0, abs=1e-5)


def slow_perplexity(model: LanguageModel, prompt: list[int], text: list[int]) -> float:
    with torch.no_grad():
        logits = model.model(torch.tensor([prompt + text])).logits[0]
    spent = -logits.double().log_softmax(-1)[
        range(len(prompt) + len(text) - 1), (prompt + text)[1:]
    ]
    return float(spent[max(len(prompt) - 1, 0) :].mean().exp())


@pytest.mark.parametrize("held", [1, 3 * 200 * 4, 1 << 24])
def test_perplexity_of_texts_after_their_prompts(
    writer: LanguageModel, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    """However few logits are held at a time, and whatever stands beside a text in a batch."""
    monkeypatch.setattr(module, "_LOGITS", held)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(2, 200, n).tolist() for n in (5, 9, 2, 3, 0, 4)]
    texts = [rng.integers(2, 200, n).tolist() for n in (12, 3, 1, 30, 6, 0)]
    steps: list[None] = []
    found = perplexity(writer, texts, prompts, batch=3, on_step=lambda: steps.append(None))
    expected = [slow_perplexity(writer, p, t) for p, t in zip(prompts, texts, strict=True) if t]
    np.testing.assert_allclose(found[:-1], expected, rtol=1e-4)
    assert np.isnan(found[-1])
    assert len(steps) == 2


def test_no_more_logits_are_made_than_may_be_held(
    writer: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOGITS", 4 * 200 * 5)
    sizes: list[int] = []
    head = writer.model.lm_head.register_forward_hook(
        lambda _, __, logits: sizes.append(logits.numel())
    )
    try:
        perplexity(writer, [[5] * 40] * 4, [[3] * 30] * 4)
    finally:
        head.remove()
    assert max(sizes) == 4 * 200 * 5
    assert sizes[0] == 4 * 200  # of the prompts, a single column
    assert sum(sizes) == 4 * 200 * 41
    with pytest.raises(InvalidInput, match="may have 512 tokens"):
        perplexity(writer, [[5] * 500], [[3] * 30])
    assert np.isnan(perplexity(writer, [[]], [[]])).all()


def test_distinct_ngrams() -> None:
    texts = [[1, 1, 1, 1], [1, 2, 1, 2], [1, 2, 3, 4], [7]]
    np.testing.assert_allclose(distinct_share(texts, 1), [0.25, 0.5, 1.0, 1.0])
    np.testing.assert_allclose(distinct_share(texts, 2), [1 / 3, 2 / 3, 1.0, np.nan])
    assert distinct_share([[2**40, 0, 2**40, 0, 1]], 2).tolist() == [0.75]
    assert distinct_share([], 2).size == 0


def records(writer: LanguageModel, texts: list[list[int]]) -> list[dict[str, Any]]:
    return [
        {
            "prompt": f"w{i}",
            "prompt_ids": [i],
            "token_ids": ids,
            "text": writer.tokenizer.decode(ids),
        }
        for i, ids in enumerate(texts, start=2)
    ]


def test_quality_of_pairs(writer: LanguageModel, encoder: str) -> None:
    marked = records(writer, [[5, 6, 7, 8, 9], [10, 11, 10, 11], []])
    unmarked = records(writer, [[5, 6, 7, 8, 9], [12, 11, 13], [5, 5]])
    found = quality(marked, unmarked, model=writer, encoder=encoder, distinct=[2])
    assert list(found.scores) == [
        "bleu", "rouge_l", "bert_score", "perplexity", "distinct_2",
        "perplexity_unmarked", "distinct_2_unmarked",
    ]  # fmt: skip
    assert all(values.shape == (3,) for values in found.scores.values())
    for name in ("bleu", "rouge_l", "bert_score"):
        assert found.scores[name][0] == pytest.approx(1.0, abs=1e-5)
        assert found.scores[name][1] < 1.0
        assert found.scores[name][2] == 0.0
    both = [found.scores[name][0] for name in ("perplexity", "perplexity_unmarked")]
    assert both[0] == pytest.approx(both[1], rel=1e-4)
    means = found.means
    seen = means["distinct_2"]
    assert (seen.value, seen.standard_error) == pytest.approx(((1 + 2 / 3) / 2, 1 / 6))
    assert (seen.texts, means["bleu"].texts) == (2, 3)
    alone = quality(marked[2:], unmarked[2:], encoder=None, distinct=[2])
    assert list(alone.scores) == ["bleu", "rouge_l", "distinct_2", "distinct_2_unmarked"]
    assert np.isnan(alone.means["distinct_2"].value)
    assert np.isnan(alone.means["bleu"].standard_error)
    with pytest.raises(InvalidInput, match="must have the same prompts"):
        quality(marked, unmarked[::-1])


def test_missing_encoders_and_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(FileProblem, match="cannot load the model") as caught:
        bert_score(["a"], ["b"], str(tmp_path))
    assert "name one of minilm-l6, a model folder" in str(caught.value.hint)
    monkeypatch.setitem(sys.modules, "bert_score.utils", None)
    with pytest.raises(MissingExtra, match="needs bert-score, which is not installed") as missing:
        bert_score(["a"], ["b"])
    assert missing.value.hint == "pip install 'powermark[quality]'"
