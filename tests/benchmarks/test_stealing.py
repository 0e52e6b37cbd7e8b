"""The attacks of `benchmarks.stealing`, in little: a language of 40 words that are all likely."""

import numpy as np
import pytest

from benchmarks.stealing import kernels
from benchmarks.stealing.collector import collect, forging, knowing, washing
from benchmarks.stealing.figure import draw_forging
from benchmarks.stealing.kernels import BLIND, COLOURS, PROMPT
from benchmarks.stealing.language import Ids, Language
from benchmarks.stealing.marks import LENGTH, Mark, make_mark
from benchmarks.stealing.oracle import asking, by_rounded_p, make_oracle
from powermark.watermark.keys import SecretKey
from powermark.watermark.watermark import Watermark

KEY, WORDS = SecretKey(bytes(range(32))), 40


@pytest.fixture(scope="module")
def language() -> Language:
    return Language(np.random.default_rng(0).integers(0, WORDS, 20_000), WORDS)


@pytest.fixture(scope="module")
def mark(language: Language) -> Mark:
    return make_mark(language, KEY, 0.5, 2.0, 1)


def green_share(mark: Mark, texts: Ids) -> float:
    h = mark.spec.context_width
    rows = np.lib.stride_tricks.sliding_window_view(texts[:, PROMPT - h :], h + 1, axis=1)
    rows = rows.reshape(-1, h + 1)
    return float(Watermark(mark.spec, KEY).scheme.are_green(rows[:, :h], rows[:, h]).mean())


def test_the_writer_marks_as_a_bias_on_the_logits_does(language: Language, mark: Mark) -> None:
    texts = language.write(100, LENGTH, mark.parts, np.random.default_rng(1))
    after = texts[:, PROMPT - 1 : -1].ravel(), texts[:, PROMPT:].ravel()
    masks = Watermark(mark.spec, KEY).scheme.green_masks(np.arange(WORDS)[:, None])
    share = masks.mean(axis=1)  # words are alike, so a list's share of them is its mass
    expected = np.exp(2.0) * share / (1.0 + np.expm1(2.0) * share)
    # 20,000 draws: a standard error of .0025 at most; masses differ from shares by sampling
    assert green_share(mark, texts) == pytest.approx(expected[after[0]].mean(), abs=0.02)


def test_notes_tell_colours_better_the_more_there_are(language: Language, mark: Mark) -> None:
    rng = np.random.default_rng(2)
    collected = language.write(1_000, LENGTH, mark.parts, rng)
    rows = forging(language, mark, collected, [2_000, 200_000], 40, rng)
    shares = [row["found_0.001"] for row in rows]
    assert shares[0] < 0.1  # nothing collected, nothing forged
    assert shares == sorted(shares)
    assert shares[-1] == 1.0  # 1,600 pairs, 125 looks at each
    assert draw_forging(rows, 0.001).axes[0].lines


def test_a_new_key_makes_notes_worthless(language: Language, mark: Mark) -> None:
    rng = np.random.default_rng(3)
    notes = collect(language.write(1_000, LENGTH, mark.parts, rng), 1)
    forged = kernels.forge(
        language.model, mark.parts, notes, language.prompts(40, rng), LENGTH, 8, rng
    )
    other = make_mark(language, SecretKey(bytes(32)), 0.5, 2.0, 1)
    assert mark.found(forged)[1] == 1.0
    assert green_share(mark, forged) > 0.95
    assert other.found(forged)[1] <= 0.2  # words are few, so one key's luck is shared by texts


def test_who_sees_colours_needs_fewer_edits(language: Language, mark: Mark) -> None:
    rng = np.random.default_rng(4)
    marked = language.write(20, LENGTH, mark.parts, rng)
    edits = np.array([10, 60])
    blind, told = (
        kernels.wash(language.model, mark.parts, knowing(kind), marked, edits, 8, rng)
        for kind in (BLIND, COLOURS)
    )
    for washed in (blind, told):
        assert ((washed != marked).sum(axis=2) == edits[:, None]).all()
    assert green_share(mark, told[1]) < green_share(mark, blind[1]) - 0.1
    rows = washing(language, mark, marked, 10, rng)
    assert [row["edits"] for row in rows] == [0, *[10, 20, 40] * 3]


@pytest.mark.parametrize("h", [1, 2])
def test_rounded_p_gives_colours_away_one_by_one(language: Language, h: int) -> None:
    oracle = make_oracle(language, KEY, 0.5, 0.01, h)
    text = by_rounded_p(oracle, language, np.random.default_rng(5))
    assert oracle.verdicts([text]) == [True]
    grams = np.lib.stride_tricks.sliding_window_view(np.array(text), h + 1)
    mark = make_mark(language, KEY, 0.5, 1.0, h)
    assert Watermark(mark.spec, KEY).scheme.are_green(grams[:, :h], grams[:, h]).all()
    told = oracle.colours(text)[h:]  # green, or not counted as a repeat
    assert told[: 2 * h].all()
    assert LENGTH < oracle.queries < 5 * LENGTH
    oracle.service.close()


def test_every_attack_on_the_server_gets_its_text_accepted(language: Language) -> None:
    rows = asking(language, 0.5, 0.01, 2, 1, np.random.default_rng(6))
    needed = {row["answers"]: row["queries"] for row in rows}
    assert all(row["accepted"] == 1.0 for row in rows)
    assert needed["inspect"] == 1.0
    assert needed["detect"] > LENGTH
