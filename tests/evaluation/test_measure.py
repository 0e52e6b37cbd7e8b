"""Estimates cover what they estimate."""

import numpy as np

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
