"""Estimates cover what they estimate; edits change as many tokens as they say."""

import numpy as np
import pytest

from powermark.evaluation.attacks import replace_block, substitute
from powermark.evaluation.measure import Estimate, detected, green_counts, mean_per_token, share
from powermark.watermark.greenlist import Pm1
from powermark.watermark.keys import SecretKey

SCHEME = Pm1(SecretKey(bytes(range(32))), gamma=0.5, vocab_size=500, context_width=2)


def test_intervals_cover_the_mean_of_texts_that_differ() -> None:
    """Texts with a level and a length of their own; 95 % intervals, 400 times: 4 errors."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(400):
        levels, lengths = rng.normal(2.0, 0.5, 30), rng.integers(20, 40, 30)
        texts = [rng.normal(m, 1.0, n) for m, n in zip(levels, lengths, strict=True)]
        hits += mean_per_token(texts).covers(2.0)
    assert abs(hits / 400 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 400)


def test_too_little_to_say() -> None:
    assert mean_per_token([[1.0, 3.0]]) == Estimate(2.0, -np.inf, np.inf, 1)
    assert np.isnan(mean_per_token([[], []]).value)
    assert not share([]).known
    assert share([]).to_dict() == {"value": None, "low": None, "high": None, "texts": 0}
    assert share([True]).known


def test_only_long_texts_are_counted() -> None:
    rng = np.random.default_rng(1)
    texts = [rng.integers(0, 500, n) for n in (60, 30, 80)]
    counts = green_counts(SCHEME, texts, 50)
    assert np.isnan(counts).tolist() == [False, True, False]
    with_prompt = green_counts(SCHEME, [texts[0]], 60, prompts=[[1, 2]])
    assert np.isfinite(with_prompt).all()
    found = detected(counts, 0)
    assert (found.value, found.texts) == (1.0, 2)
    assert 0.0 <= counts[0] <= 50.0


def test_substitution_changes_its_share_of_tokens() -> None:
    rng = np.random.default_rng(2)
    texts = [rng.integers(0, 50, 200).tolist() for _ in range(50)]
    edited = substitute(texts, 0.1, seed=3)
    changed = np.mean([np.mean(a != np.array(b)) for a, b in zip(edited, texts, strict=True)])
    assert abs(changed - 0.1) < 4 * np.sqrt(0.09 / 10_000)
    assert [a.tolist() for a in substitute(texts, 0.1, seed=3)] == [a.tolist() for a in edited]
    assert substitute([[7, 7]], 0.9, seed=0)[0].tolist() == [7, 7]  # nothing else to put there


@pytest.mark.parametrize("size", [0, 12, 30, 99])
def test_a_block_is_replaced(size: int) -> None:
    texts = [[1] * 40, [2] * 40]
    for ids, own in zip(replace_block(texts, size, 30, seed=1), (1, 2), strict=True):
        foreign = np.flatnonzero(ids != own)
        assert foreign.size == min(size, 30)
        assert foreign.size == 0 or np.ptp(foreign) == foreign.size - 1  # contiguous
        assert foreign.max(initial=0) < 30
    assert substitute([], 0.1, seed=0) == []
