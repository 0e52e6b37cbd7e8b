"""The effect of a mark on texts: similarity to unmarked ones, fluency and variety.

Similarity is between the marked and the unmarked text of a prompt, measured as in the paper's code:
BLEU on whitespace-separated words with smoothing 1, ROUGE-L's F measure on stems, BERTScore's F
measure without rescaling. Two unmarked texts of one prompt differ too, so compare a similarity with
that of two unmarked runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import Array, count
from powermark.errors import InvalidInput, MissingExtra
from powermark.measuring.ngrams import distinct_share
from powermark.models.catalog import DEFAULT_ENCODER

if TYPE_CHECKING:
    from powermark.models import LanguageModel

_LOGITS = 1 << 24  # held at a time: 64 MB


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over texts, its standard error, and the number of texts with a value."""

    value: float
    standard_error: float
    texts: int


@dataclass(frozen=True, slots=True)
class Quality:
    """Scores by name, one value per text; nan for texts that are too short."""

    scores: Mapping[str, Array]

    @property
    def means(self) -> dict[str, Mean]:
        """The mean of each score; nan without any text, and an error of nan with only one."""
        return {name: _mean(values) for name, values in self.scores.items()}


def quality(
    marked: Sequence[Mapping[str, Any]],
    unmarked: Sequence[Mapping[str, Any]],
    *,
    model: LanguageModel | None = None,
    encoder: str | None = DEFAULT_ENCODER,
    distinct: Sequence[int] = (1, 2, 3),
    batch: int = 16,
) -> Quality:
    """Compare marked texts with unmarked ones of the same prompts.

    Parameters
    ----------
    marked, unmarked
        Records of :func:`~powermark.generation.writing.write_texts`, in the same order.
    model
        For perplexities; None for none.
    encoder
        For BERTScore: ``minilm-l6``, a folder or a name on the hub such as ``roberta-large``; None
        for no BERTScore.
    distinct
        Lengths of n-grams for ``distinct_N``.

    Returns
    -------
    Quality
        ``bleu``, ``rouge_l``, ``bert_score``; ``perplexity`` and ``distinct_N`` of the marked
        texts, and with ``_unmarked`` appended of the unmarked ones.
    """
    if [record["prompt"] for record in marked] != [record["prompt"] for record in unmarked]:
        raise InvalidInput(
            "marked and unmarked texts must have the same prompts, in the same order."
        )
    texts, plain = ([str(record["text"]) for record in rows] for rows in (marked, unmarked))
    scores = {"bleu": bleu(texts, plain), "rouge_l": rouge_l(texts, plain)}
    if encoder is not None:
        scores["bert_score"] = bert_score(texts, plain, encoder, batch=batch)
    for rows, name in ((marked, ""), (unmarked, "_unmarked")):
        ids, prompts = ([row[field] for row in rows] for field in ("token_ids", "prompt_ids"))
        if model is not None:
            scores[f"perplexity{name}"] = perplexity(model, ids, prompts, batch=batch)
        for width in distinct:
            scores[f"distinct_{width}{name}"] = distinct_share(ids, width)
    return Quality(scores)


def bleu(texts: Sequence[str], references: Sequence[str]) -> Array:
    """BLEU-4 of each text against its reference: split at whitespace, smoothing method 1."""
    found = _needed("nltk.translate.bleu_score")
    smoothing = found.SmoothingFunction().method1
    return np.array(
        [
            found.sentence_bleu([theirs.split()], mine.split(), smoothing_function=smoothing)
            for mine, theirs in zip(texts, references, strict=True)
        ],
        np.float64,
    )


def rouge_l(texts: Sequence[str], references: Sequence[str]) -> Array:
    """F measure of the longest common subsequence of each text and its reference, on stems."""
    scorer = _needed("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=True)
    pairs = zip(references, texts, strict=True)
    return np.array([scorer.score(*pair)["rougeL"].fmeasure for pair in pairs], np.float64)


def bert_score(
    texts: Sequence[str],
    references: Sequence[str],
    encoder: str = DEFAULT_ENCODER,
    *,
    layers: int | None = None,
    batch: int = 16,
) -> Array:
    """BERTScore's F measure of each text against its reference, neither weighted nor rescaled.

    ``layers`` of the encoder are used; None for the number that bert-score recommends for this
    encoder, or all. An empty text scores 0.
    """
    utilities = _needed("bert_score.utils")
    from powermark.models.encoder import load_encoder

    model, tokenizer = load_encoder(encoder, layers=layers or utilities.model2layers.get(encoder))
    weights = defaultdict(lambda: 1.0, {tokenizer.sep_token_id: 0.0, tokenizer.cls_token_id: 0.0})
    found = np.zeros(len(texts))
    pairs = zip(texts, references, strict=True)
    full = [i for i, (mine, theirs) in enumerate(pairs) if mine.strip() and theirs.strip()]
    for first in range(0, len(full), int(count("batch", batch))):
        some = full[first : first + batch]
        # not through BERTScorer, which takes any folder with "t5" in its name for a T5, and holds
        # the vectors of all texts at once
        result = utilities.bert_cos_score_idf(
            model, [references[i] for i in some], [texts[i] for i in some], tokenizer, weights,
            batch_size=batch, device=model.device,
        )  # fmt: skip
        found[some] = result[:, 2].numpy()
    return found


def perplexity(
    model: LanguageModel,
    texts: Sequence[ArrayLike],
    prompts: Sequence[ArrayLike],
    *,
    batch: int = 16,
    on_step: Callable[[], object] = lambda: None,
) -> Array:
    """Perplexity of each text after its prompt, at temperature 1; nan for one without tokens.

    Only the logits of a few columns are in memory at a time, whatever the length. A text without a
    prompt is scored from its second token on. ``on_step`` is called after each batch.
    """
    found = np.full(len(texts), np.nan)
    rows = [np.concatenate([p, t]).astype(np.int64) for p, t in zip(prompts, texts, strict=True)]
    begins = np.array([max(np.size(prompt), 1) for prompt in prompts], np.int64)
    order = np.argsort([row.size for row in rows], kind="stable")
    for first in range(0, len(rows), int(count("batch", batch))):
        some = order[first : first + batch]
        found[some] = _perplexities(model, [rows[i] for i in some], begins[some])
        on_step()
    return found


def _perplexities(model: LanguageModel, rows: list[Any], begins: Any) -> Any:
    """Return the perplexity of each row from its beginning on.

    Rows are padded on the right, which no scored token can see.
    """
    import torch

    lengths = np.array([row.size for row in rows])
    width = int(lengths.max())
    model.check_length(width)
    padded = np.stack([np.pad(row, (0, width - row.size)) for row in rows])
    ids = torch.as_tensor(padded, device=model.model.device)
    columns = np.arange(width)
    counts = (columns >= begins[:, None]) & (columns < lengths[:, None])  # (rows, width)
    unseen = max(int(begins.min()) - 1, 0)  # columns before the first that predicts a scored token
    step = max(1, _LOGITS // (len(rows) * model.vocab_size))
    edges = sorted({0, *range(unseen, width - 1, step), max(width - 1, 0)})
    surprise, cache = np.zeros(len(rows)), None
    with torch.no_grad():
        for first, last in pairwise(edges):
            output = model.model(
                ids[:, first:last],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1 if last <= unseen else 0,  # 0 is all
            )
            cache = output.past_key_values
            if last > unseen:
                logits = output.logits.float()
                chosen = logits.gather(-1, ids[:, first + 1 : last + 1, None])[..., 0]
                spent = (logits.logsumexp(dim=-1) - chosen).double().cpu().numpy()
                surprise += (spent * counts[:, first + 1 : last + 1]).sum(axis=1)
    scored = counts.sum(axis=1)
    return np.where(scored > 0, np.exp(surprise / np.maximum(scored, 1)), np.nan)


def _mean(values: Array) -> Mean:
    there = values[np.isfinite(values)]
    mean = float(there.mean()) if there.size else np.nan
    error = float(there.std(ddof=1) / np.sqrt(there.size)) if there.size > 1 else np.nan
    return Mean(mean, error, there.size)


def _needed(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0].replace("_", "-")
        raise MissingExtra(
            f"measuring quality needs {package}, which is not installed.",
            hint="pip install 'powermark[quality]'",
        ) from None
