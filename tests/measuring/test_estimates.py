"""Intervals cover the estimated value, and verdicts on powers are as rare as stated."""

import numpy as np
import pytest
from scipy import stats

from powermark import plan
from powermark.detection.detector import Detector
from powermark.detection.scoring import score
from powermark.generation.endpoint import Answers
from powermark.measuring.estimates import (
    CHANCE,
    LOSS,
    Estimate,
    detected,
    green_counts,
    kl_until,
    level_of,
    mean_per_token,
    share,
    shown_to_hold,
    shown_to_keep,
    texts_needed,
    texts_to_decide,
    texts_to_exclude,
    texts_to_keep,
)
from powermark.measuring.promise import promise_of
from powermark.measuring.verify import texts_for, verify
from powermark.measuring.verify_served import verify_answers
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Pm1
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark

KEY = SecretKey(bytes(range(32)))
SCHEME = Pm1(KEY, gamma=0.5, vocab_size=500, context_width=2)
LEVEL = level_of(0.95, 4)


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
    assert kl_until(score(SCHEME, [text]), [record], 50).value == 52 / 50
    assert kl_until(score(SCHEME, [text], special_ids=special), [record], 50).value == 53 / 50


def test_special_tokens_do_not_count_for_a_promise() -> None:
    """Texts with just enough tokens, one of which is special under one of two views."""
    design = plan(n_tokens=60, alpha=0.05, power=0.9, gamma=0.5, steer=True)
    spec = WatermarkSpec.from_plan(design, vocab_size=500)
    rng = np.random.default_rng(1)
    texts = np.stack([rng.permutation(500)[:63] for _ in range(8)])
    texts[:3, 20] = 7
    rows = [{"token_ids": text, "kl": [0.1] * 63} for text in texts]
    found = [
        verify(Watermark(spec, KEY), promise_of(spec), rows, rows, special_ids=ids)
        for ids in ((), (7, 9_999))
    ]
    assert [(each.marked, each.unmarked) for each in found] == [(8, 8), (5, 5)]
    kls = [{check.name: check for check in each.checks}["kl"].measured for each in found]
    assert [kl.texts for kl in kls] == [8, 5]
    detector = Detector(spec, KEY, special_ids=(7,))
    asked = [{**row, "text": row["token_ids"]} for row in rows]
    by_server = verify_answers(Answers(asked, asked), detector, promise_of(spec))
    assert (by_server.marked, by_server.unmarked) == (5, 5)


def outcome(found: int, texts: int, promised: float) -> str:
    seen = share(np.arange(texts) < found, LEVEL)
    if seen.high < promised:
        return "broken"
    return "kept" if shown_to_hold(seen.value, texts, promised) else "not enough texts"


def chances(true: float, promised: float, texts: int) -> dict[str, float]:
    """Return how often each outcome comes, over the binomial law of the texts found."""
    found = np.arange(texts + 1)
    told = np.array([outcome(int(k), texts, promised) for k in found])
    law = stats.binom.pmf(found, texts, true)
    return {word: float(law[told == word].sum()) for word in ("kept", "broken", "not enough texts")}


@pytest.mark.parametrize("promised", [0.5, 0.8, 0.95, 0.99])
def test_the_default_notices_a_loss_of_five_hundredths(promised: float) -> None:
    texts = texts_needed(promised, LEVEL)
    assert chances(promised - LOSS, promised, texts)["broken"] >= CHANCE
    fewer = max(8, int(0.8 * texts))
    assert chances(promised - LOSS, promised, fewer)["broken"] < CHANCE


@pytest.mark.parametrize("texts", [40, 256, 500])
def test_errors_are_as_rare_as_stated(texts: int) -> None:
    promised = 0.95
    assert chances(promised, promised, texts)["broken"] <= (1.0 - LEVEL) / 2.0
    assert chances(promised - LOSS, promised, texts)["kept"] <= 0.05


def test_an_honest_plan_is_mostly_kept_at_the_default() -> None:
    assert chances(0.95, 0.95, texts_needed(0.95, LEVEL))["kept"] > 0.8


@pytest.mark.parametrize("seen", [0.90, 0.91, 0.92, 0.93, 0.95, 1.0])
def test_the_number_of_texts_that_decide(seen: float) -> None:
    texts = texts_to_decide(seen, 60, 0.95, LEVEL)
    assert texts is not None
    assert outcome(round(seen * texts), texts, 0.95) != "not enough texts"
    assert texts >= texts_needed(0.95, LEVEL)


def test_what_can_hardly_be_decided() -> None:
    assert texts_needed(1e-9, LEVEL) == 100_000  # nothing is below it
    assert texts_to_decide(0.9001, 60, 0.95, 1.0 - 1e-300) is None
    assert shown_to_hold(0.0, 10, 0.04)  # a loss of .05 would leave less than nothing


def test_texts_for_a_plan() -> None:
    both = plan(n_tokens=60, alpha=0.05, power=0.95, edit_rate=0.05, attacked_power=0.8)
    assert texts_for(both) > texts_for(plan(n_tokens=60, alpha=0.05, power=0.95))
    one = plan(n_tokens=60, alpha=0.05, power=0.95)
    assert texts_for(one, kl=False, size=False) < texts_for(one) == texts_needed(one.power, LEVEL)


def test_the_number_of_texts_that_decide_on_a_size() -> None:
    assert shown_to_keep(0.0, 49, 0.01)  # .94^49 is below .05
    assert not shown_to_keep(0.0, 48, 0.01)
    needed = texts_to_keep(0.03, 16, 0.01)
    assert needed is not None
    assert shown_to_keep(0.03, needed, 0.01)
    assert not shown_to_keep(0.03, needed // 2, 0.01)
    assert texts_to_keep(0.06, 50, 0.01) is None
    assert texts_to_keep(0.0599999, 50, 0.01) is None


def test_the_number_of_texts_that_decide_on_a_mean() -> None:
    rng = np.random.default_rng(5)

    def texts(many: int) -> Estimate:
        levels = rng.normal(1.0, 0.3, many)
        return mean_per_token([rng.normal(level, 0.5, 10) for level in levels], LEVEL)

    seen = texts(40)
    assert texts_to_exclude(1.0, seen, LEVEL, 0.0) == 40
    needed = texts_to_exclude(0.05, seen, LEVEL, 0.0)
    assert needed is not None
    assert texts_to_exclude(0.05, texts(2 * needed), LEVEL, 0.0) == 2 * needed
    assert texts_to_exclude(0.05, seen, LEVEL, 0.01) > needed  # type: ignore[operator]
    assert texts_to_exclude(0.05, seen, LEVEL, 0.04) is None  # no number makes up for the profile
    assert texts_to_exclude(-0.01, seen, LEVEL, 0.0) is None
    assert texts_to_exclude(1e-4, seen, LEVEL, 0.0) is None
