"""Attacks change what they say, by their seed alone, and know what survived."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powermark.errors import InvalidInput
from powermark.measuring.attacks import (
    Attacked,
    copy_paste,
    delete,
    insert,
    paraphrase,
    replace_block,
    substitute,
)
from powermark.measuring.ngrams import Ids
from powermark.models import LanguageModel
from powermark.signals.edits import Edits

TEXTS = list(np.random.default_rng(0).permuted(np.tile(np.arange(5_000), (60, 1)), axis=1)[:, :200])
PLAIN = list(np.random.default_rng(1).integers(5_000, 10_000, (60, 250)))
TOKENS = 200 * 60  # no token twice in a text

ATTACKS: dict[str, Callable[[int], Attacked]] = {
    "substitute": lambda seed: substitute(TEXTS, 0.1, seed=seed),
    "delete": lambda seed: delete(TEXTS, 0.1, seed=seed),
    "insert": lambda seed: insert(TEXTS, 0.1, seed=seed),
    "replace_block": lambda seed: replace_block(TEXTS, PLAIN, 0.15, seed=seed),
    "copy_paste": lambda seed: copy_paste(TEXTS, PLAIN, 0.3, fragments=3, seed=seed),
}


def same(a: Attacked, b: Attacked) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a.ids, b.ids, strict=True))


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_follow_their_seed_and_keep_their_input(name: str) -> None:
    before = [text.copy() for text in (*TEXTS, *PLAIN)]
    found = ATTACKS[name](1)
    assert same(found, ATTACKS[name](1))
    assert not same(found, ATTACKS[name](2))
    for ids in found.ids:
        ids[:] = -1  # what came out is nobody else's
    assert all(np.array_equal(a, b) for a, b in zip((*TEXTS, *PLAIN), before, strict=True))


def slow_survival(edited: Ids, original: Ids, width: int) -> float:
    """Plain sets of n-grams."""
    old, new = (
        {tuple(ids[i : i + width].tolist()) for i in range(len(ids) - width + 1)}
        for ids in (original, edited)
    )
    return len(old & new) / len(new) if new else np.nan


@pytest.mark.parametrize("name", ATTACKS)
def test_survival_is_a_share_of_ngrams(name: str) -> None:
    found = ATTACKS[name](3)
    slow = [slow_survival(a, b, 3) for a, b in zip(found.ids, TEXTS, strict=True)]
    np.testing.assert_allclose(found.survival, slow)


short = st.lists(st.lists(st.integers(0, 3), max_size=9), max_size=4)


@settings(deadline=None)
@given(short, st.integers(0, 3), st.integers(0, 99))
def test_survival_of_short_and_repetitive_texts(
    texts: list[list[int]], context_width: int, seed: int
) -> None:
    for attack in (substitute, delete, insert):
        found = attack(texts, 0.4, seed=seed, context_width=context_width)
        pairs = zip(found.ids, texts, strict=True)
        slow = [slow_survival(a, np.array(b), context_width + 1) for a, b in pairs]
        np.testing.assert_allclose(found.survival, slow)


def test_survival_is_that_of_plans() -> None:
    """Five standard errors of (1 - p)^(h + 1), neighbours together."""
    for h in (0, 1, 4):
        expected = Edits(edit_rate=0.1, context_width=h).surviving_share(200)
        found = substitute(TEXTS, 0.1, seed=5, context_width=h).survival
        assert abs(found.mean() - expected) < 5 * found.std() / np.sqrt(60)
    assert found.std() > 0
    expected = Edits(removal=0.2, context_width=2).surviving_share(200)
    inside = replace_block(TEXTS, PLAIN, 0.2, seed=5).survival
    # a block at an end of the text takes no context from others, hence never less
    assert inside.min() == pytest.approx((200 - 2 - 40 - 2) / (200 - 2))
    assert abs(inside.mean() - expected) < 0.01


def test_substitution_changes_its_share_of_tokens() -> None:
    found = substitute(TEXTS, 0.1, seed=3).ids
    changed = np.mean([np.mean(a != b) for a, b in zip(found, TEXTS, strict=True)])
    assert abs(changed - 0.1) < 4 * np.sqrt(0.09 / TOKENS)
    assert substitute([[7, 7]], 0.9, seed=0).ids[0].tolist() == [7, 7]  # nothing else is there
    everything = substitute([[1, 2, 3] * 400], 1.0, seed=0).ids[0]
    assert not np.any(everything == np.array([1, 2, 3] * 400))
    # each of the others is as likely: 4 standard errors of 400 draws
    assert abs(np.mean(everything[::3] == 2) - 0.5) < 4 * np.sqrt(0.25 / 400)


def test_deletion_and_insertion_change_lengths() -> None:
    gone = delete(TEXTS, 0.1, seed=4).ids
    assert abs(sum(map(len, gone)) / TOKENS - 0.9) < 4 * np.sqrt(0.09 / TOKENS)
    come = insert(TEXTS, 0.1, seed=4).ids
    assert abs(sum(map(len, come)) / TOKENS - 1.1) < 4 * np.sqrt(0.09 / TOKENS)
    texts = [[1, 2, 3], [], [4, 5]]
    assert [ids.tolist() for ids in delete(texts, 1.0, seed=0).ids] == [[], [], []]
    doubled = insert(texts, 1.0, seed=0).ids
    assert [ids[1::2].tolist() for ids in doubled] == texts
    assert [ids.tolist() for ids in insert([[]], 0.5, seed=0).ids] == [[]]


@pytest.mark.parametrize("removal", [0.0, 0.1, 0.15, 0.2, 0.5, 1.0])
def test_a_block_is_replaced_by_unmarked_text(removal: float) -> None:
    found = replace_block(TEXTS, PLAIN, removal, seed=1)
    for ids, own, plain in zip(found.ids, TEXTS, PLAIN, strict=True):
        foreign = np.flatnonzero(ids != own)
        assert foreign.size == np.ceil(removal * 200)
        assert foreign.size == 0 or np.ptp(foreign) == foreign.size - 1  # contiguous
        assert np.array_equal(ids[foreign], plain[foreign])  # at the same places


def test_a_block_lies_within_the_beginning_and_anywhere_there() -> None:
    ones, twos = [[1] * 40] * 300, [[2] * 40] * 300
    starts = [
        int(np.flatnonzero(ids == 2)[0])
        for ids in replace_block(ones, twos, 0.3, seed=1, within=30).ids
    ]
    assert set(starts) == set(range(30 - 9 + 1))  # each is missed once in a million seeds
    long = replace_block([[1] * 5, [1] * 2], [[2], [3, 4]], 1.0, seed=0).ids
    assert [ids.tolist() for ids in long] == [[2, 3, 4, 2, 3], [3, 4]]  # goes on with the next


@pytest.mark.parametrize("fragments", [1, 3])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.9, 1.0])
def test_fragments_stand_in_unmarked_text(share: float, fragments: int) -> None:
    found = copy_paste(TEXTS, PLAIN, share, fragments=fragments, seed=2)
    size = int(share * 200 / fragments)
    for ids, own, plain in zip(found.ids, TEXTS, PLAIN, strict=True):
        assert ids.size == 200
        marked = ids < 5_000
        assert np.array_equal(ids[~marked], plain[: 200 - fragments * size])
        assert marked.sum() == fragments * size
        came_from = np.array([np.flatnonzero(own == token)[0] for token in ids[marked]], int)
        assert np.all(np.diff(came_from) > 0)  # in their order, none twice
        assert np.all(np.diff(came_from.reshape(fragments, size), axis=1) == 1)
        assert np.sum(np.diff(marked.astype(int), prepend=0) == 1) <= fragments


def test_paraphrases_are_encoded_again(writer: LanguageModel) -> None:
    steps: list[None] = []
    texts = [[5, 6, 7, 8, 9], [10, 11, 12]]
    found = paraphrase(
        texts,
        lambda text: text.replace("w7", "w70 w71"),
        writer.tokenizer,
        on_step=lambda: steps.append(None),
    )
    assert [ids.tolist() for ids in found.ids] == [[5, 6, 70, 71, 8, 9], [10, 11, 12]]
    assert len(steps) == 2
    assert found.survival.tolist() == [0.0, 1.0]
    pairs = paraphrase(texts, str, writer.tokenizer, context_width=1)
    assert pairs.survival.tolist() == [1.0, 1.0]


def test_rows_of_an_array_are_texts_too() -> None:
    rows: Any = np.stack(TEXTS)
    assert same(replace_block(rows, PLAIN, 0.15, seed=1), ATTACKS["replace_block"](1))


def test_empty_and_invalid_input() -> None:
    assert substitute([], 0.1, seed=0).ids == []
    assert replace_block([], [], 0.1, seed=0).ids == copy_paste([], [], 0.1, seed=0).ids == []
    with pytest.raises(InvalidInput, match=r"unmarked must be one per text, 60; got 59"):
        replace_block(TEXTS, PLAIN[1:], 0.1, seed=0)
    with pytest.raises(InvalidInput, match="all empty"):
        copy_paste([[1]], [[]], 0.5, seed=0)
    with pytest.raises(InvalidInput, match=r"removal must be in \[0, 1\]; got 1.5"):
        replace_block(TEXTS, PLAIN, 1.5, seed=0)
    with pytest.raises(InvalidInput, match="edit_rate must be in"):
        delete(TEXTS, -0.1, seed=0)
    with pytest.raises(InvalidInput, match="fragments must be"):
        copy_paste(TEXTS, PLAIN, 0.5, fragments=0, seed=0)
