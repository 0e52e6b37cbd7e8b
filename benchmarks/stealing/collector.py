"""The attacker who asks for marked text, and has the unmarked model.

Whoever knows the scheme and the model's own probabilities sees which tokens come too often after a
context. That is used in two ways: to write text that the detector takes for marked (forging), and
to choose the edits that wash a mark out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.stealing import kernels
from benchmarks.stealing.kernels import BLIND, COLLECTED, COLOURS, PROMPT
from benchmarks.stealing.language import Ids, Language
from benchmarks.stealing.marks import ALPHAS, LENGTH, Mark
from powermark.watermark.hash_kernels import siphash

TRIES = 8  # draws of the attacker's model for each token
EDITS = np.array([10, 20, 40])  # tokens of a text that are replaced
_NO_KEY = np.uint64(0)
Row = dict[str, Any]


def collect(texts: Ids, h: int) -> tuple[Any, Any, int]:
    """Return notes on marked texts: the n-grams and contexts in them, as sorted fingerprints."""
    windows = np.lib.stride_tricks.sliding_window_view(texts[:, PROMPT - h :], h + 1, axis=1)
    rows = np.ascontiguousarray(windows.reshape(-1, h + 1))
    grams = siphash(_NO_KEY, _NO_KEY, rows)
    contexts = siphash(_NO_KEY, _NO_KEY, np.ascontiguousarray(rows[:, :h]))
    return np.sort(grams), np.sort(contexts), COLLECTED


def knowing(kind: int) -> tuple[Any, Any, int]:
    """Return the notes of one who collected nothing: BLIND, or told all COLOURS."""
    none = np.zeros(0, np.uint64)
    return none, none, kind


def forging(
    language: Language,
    mark: Mark,
    collected: Ids,
    amounts: list[int],
    texts: int,
    rng: np.random.Generator,
) -> list[Row]:
    """Forge texts from more and more of the marked tokens collected; return how many are found."""
    rows = []
    for amount in (0, *amounts):
        notes = collect(collected[: amount // LENGTH], mark.spec.context_width)
        prompts = language.prompts(texts, rng)
        forged = kernels.forge(language.model, mark.parts, notes, prompts, LENGTH, TRIES, rng)
        rows.append({**_named(mark), "collected": amount, **_shares(mark.found(forged))})
    return rows


def washing(
    language: Language, mark: Mark, collected: Ids, texts: int, rng: np.random.Generator
) -> list[Row]:
    """Wash marked texts, blindly, with notes, and with their colours; return how many are found."""
    marked = language.write(texts, LENGTH, mark.parts, rng)
    notes = collect(collected, mark.spec.context_width)
    ways = {"blind": knowing(BLIND), "collected": notes, "colours": knowing(COLOURS)}
    rows = [{**_named(mark), "knows": "-", "edits": 0, **_shares(mark.found(marked))}]
    for name, notes in ways.items():
        washed = kernels.wash(language.model, mark.parts, notes, marked, EDITS, TRIES, rng)
        for edits, left in zip(EDITS.tolist(), washed, strict=True):
            rows.append(
                {**_named(mark), "knows": name, "edits": edits, **_shares(mark.found(left))}
            )
    return rows


def _named(mark: Mark) -> Row:
    return {
        "gamma": mark.spec.gamma,
        "delta": mark.spec.delta,
        "context_width": mark.spec.context_width,
    }


def _shares(found: Any) -> Row:
    return {f"found_{alpha:g}": float(share) for alpha, share in zip(ALPHAS, found, strict=True)}
