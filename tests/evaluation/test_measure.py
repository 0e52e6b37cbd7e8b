"""Estimates cover what they estimate."""

import numpy as np

from powermark import plan
from powermark.detection.detection import Detector
from powermark.evaluation.endpoint import Answers, verify_answers
from powermark.evaluation.measure import (
    Estimate,
    detected,
    green_counts,
    kl_until,
    mean_per_token,
    share,
)
from powermark.evaluation.promise import promise_of
from powermark.evaluation.verify import verify
from powermark.watermark.greenlist import Pm1
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec

KEY = SecretKey(bytes(range(32)))
SCHEME = Pm1(KEY, gamma=0.5, vocab_size=500, context_width=2)


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


def test_special_tokens_do_not_count() -> None:
    """A text of 60 tokens, all different but for one special: 58 count, or 57."""
    text = np.random.default_rng(2).permutation(500)[:60]
    special = [int(text[30])]
    assert np.isfinite(green_counts(SCHEME, [text], 58)).all()
    assert np.isnan(green_counts(SCHEME, [text], 58, special_ids=special)).all()
    assert np.isfinite(green_counts(SCHEME, [text], 57, special_ids=special)).all()
    record = {"token_ids": text, "kl": [1.0] * 60}
    assert kl_until(SCHEME, [record], 50).value == 52 / 50
    assert kl_until(SCHEME, [record], 50, special_ids=special).value == 53 / 50


def test_special_tokens_do_not_count_for_a_promise() -> None:
    """Texts with just enough tokens, one of which is special under one of two views."""
    design = plan(n_tokens=60, alpha=0.05, power=0.9, gamma=0.5, steer=True)
    spec = WatermarkSpec.from_plan(design, vocab_size=500)
    rng = np.random.default_rng(1)
    texts = np.stack([rng.permutation(500)[:62] for _ in range(8)])
    texts[:3, 20] = 7
    rows = [{"token_ids": text, "kl": [0.1] * 62} for text in texts]
    found = [
        verify(spec, KEY, promise_of(spec), rows, rows, special_ids=ids) for ids in ((), (7, 9_999))
    ]
    assert [(each.marked, each.unmarked) for each in found] == [(8, 8), (5, 5)]
    kls = [{check.name: check for check in each.checks}["kl"].measured for each in found]
    assert [kl.texts for kl in kls] == [8, 5]
    detector = Detector(spec, KEY, special_ids=(7,))
    asked = [{**row, "text": row["token_ids"]} for row in rows]
    by_server = verify_answers(Answers(asked, asked), detector, KEY, promise_of(spec))
    assert (by_server.marked, by_server.unmarked) == (5, 5)
