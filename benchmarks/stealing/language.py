"""A fast stand-in for a language model: words that follow one another as they do in real text.

A token is drawn after its last two, its last one or none, by weights, uniformly from what follows
there in the corpus. The weights are such that a mark does to it what it does to SmolLM2-135M at
temperature 1 on C4 (`docs/profiles.md`: gamma .5, delta 2, green rate .833): millions of tokens in
seconds, with as much room for a mark as a real model leaves. Its text makes no sense, which no
attack here depends on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.stealing import kernels
from benchmarks.stealing.kernels import PROMPT
from powermark.detection.text import flat_ids
from powermark.generation.prompts import read_texts

WEIGHTS = (0.1, 0.3, 0.6)  # of no, one and two tokens of context
Ids = NDArray[np.int64]
Parts = tuple[Any, ...]  # of a mark, see the kernels


class Language:
    """The n-grams of a corpus."""

    def __init__(self, ids: Ids, vocab_size: int) -> None:
        pairs = ids[:-1] * vocab_size + ids[1:]
        triples = pairs[:-1] * vocab_size + ids[2:]
        keys = (np.sort(ids), np.sort(pairs), np.sort(triples))
        self.model = (*keys, np.array(WEIGHTS), vocab_size)
        self.vocab_size, self._ids = vocab_size, ids

    def prompts(self, count: int, rng: np.random.Generator) -> Ids:
        """Return stretches of the corpus to begin with; (count, PROMPT)."""
        starts = rng.integers(0, self._ids.size - PROMPT, count)
        return np.asarray(self._ids[starts[:, None] + np.arange(PROMPT)])

    def write(
        self, count: int, length: int, mark: tuple[Any, ...], rng: np.random.Generator
    ) -> Ids:
        """Return texts under a mark, behind their prompts; (count, PROMPT + length)."""
        return np.asarray(kernels.write(self.model, mark, self.prompts(count, rng), length, rng))


def read_language(folder: Path, tokenizer: Any) -> Language:
    """Return the language of all ``*.jsonl`` in a folder."""
    files = sorted(folder.glob("*.jsonl"))
    texts = [text for file in files for text in read_texts(file, whole=True)]
    return Language(flat_ids(tokenizer, texts)[0].astype(np.int64), len(tokenizer))
