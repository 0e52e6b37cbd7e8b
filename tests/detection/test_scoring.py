"""Which tokens count: against a plain Python reading of the rule."""

from typing import Any

import numpy as np
import pytest

from powermark.detection.scoring import REASONS, score
from powermark.errors import InvalidInput, SpecMismatch
from powermark.statistics.p_values import p_value
from powermark.watermark.compat import Compat
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.scheme import Pm1, Scheme

VOCAB = 60
KEY = SecretKey(bytes(range(32)))


def pm1(h: int) -> Pm1:
    return Pm1(KEY, gamma=0.4, vocab_size=VOCAB, context_width=h)


def plainly(
    scheme: Scheme, text: list[int], prompt: list[int], mask: list[bool], special: set[int]
) -> list[tuple[str, bool]]:
    """The rule, one token at a time."""
    h, seen, found = scheme.context_width, set(), []
    history: list[int | None] = [
        *prompt,
        *(t if m else None for t, m in zip(text, mask, strict=True)),
    ]
    for i in range(len(prompt), len(history)):
        token, context = history[i], history[max(0, i - h) : i]
        if token is None:
            found.append(("padding", False))
        elif len(context) < h or None in context:
            found.append(("no context", False))
        elif token in special:
            found.append(("special", False))
        else:
            seeds, green = scheme.colours(np.array([context], np.int64).reshape(1, h), [token])
            pair = (int(seeds[0]), token)
            found.append(("repeated" if pair in seen else "scored", bool(green[0])))
            seen.add(pair)
    return found


SCHEMES = [
    pm1(0), pm1(1), pm1(2), pm1(4),
    *(
        Compat(name, HashKey(), gamma=0.4, vocab_size=VOCAB)
        for name in ("kgw-lefthash", "kgw-minhash", "kgw-selfhash", "hf-selfhash")
    ),
]  # fmt: skip


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: f"{s.name}-{s.context_width}")
@pytest.mark.parametrize("with_prompts", [False, True])
def test_batches_are_scored_as_the_rule_says(scheme: Scheme, with_prompts: bool) -> None:
    rng = np.random.default_rng(scheme.context_width)
    lengths = [0, 1, 3, 40, 120]
    texts = [rng.integers(0, 12, n).tolist() for n in lengths]  # few ids, so many repeats
    masks = [(rng.random(n) < 0.9).tolist() for n in lengths]
    prompts = [rng.integers(0, 12, n).tolist() for n in (5, 0, 1, 2, 9)]
    special = {3, 7, 99}
    options: dict[str, Any] = {"prompts": prompts} if with_prompts else {}
    got = score(scheme, texts, masks=masks, special_ids=special, **options)
    for i, (text, mask) in enumerate(zip(texts, masks, strict=True)):
        want = plainly(scheme, text, prompts[i] if with_prompts else [], mask, special)
        span = slice(got.offsets[i], got.offsets[i + 1])
        states = [REASONS[state] for state in got.state[span].tolist()]
        assert states == [state for state, _ in want]
        colours = [green for state, green in want if state in ("scored", "repeated")]
        kept = [state in ("scored", "repeated") for state in states]
        assert got.green[span][kept].tolist() == colours
        assert got.ids[span].tolist() == text
        scored = [green for state, green in want if state == "scored"]
        assert (got.scored[i], got.greens[i]) == (len(scored), sum(scored))
        assert got.colours(i).tolist() == scored
        assert got.positions(i).tolist() == [j for j, s in enumerate(states) if s == "scored"]
    assert got.texts == 5


def test_padding_on_either_side_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    text = rng.integers(0, VOCAB, 50)
    alone = score(pm1(2), [text])
    for side in ("left", "right"):
        pad = np.zeros(30, np.int64)
        row = np.concatenate([pad, text] if side == "left" else [text, pad])
        mask = np.concatenate([pad, text * 0 + 1] if side == "left" else [text * 0 + 1, pad])
        got = score(pm1(2), row[None, :], masks=mask[None, :].astype(bool))  # type: ignore[arg-type]
        assert got.colours().tolist() == alone.colours().tolist()


def test_repeated_text_brings_no_evidence() -> None:
    phrase = np.random.default_rng(1).integers(0, VOCAB, 20)
    once, often = score(pm1(1), [phrase]), score(pm1(1), [np.tile(phrase, 50)])
    assert often.scored[0] <= once.scored[0] + 1  # the seam between two copies is new


@pytest.mark.parametrize("words", [8, 60])  # with 8 words most tokens are repeats
@pytest.mark.parametrize("gamma", [0.25, 0.9])
def test_the_size_is_at_most_alpha_with_repeats_and_padding(words: int, gamma: float) -> None:
    """200,000 texts under 200 keys; a true size of alpha would fail with a chance of 1e-6."""
    rng, rejected, texts = np.random.default_rng(words), np.zeros(3), 200_000
    alphas = np.array([0.05, 0.01, 0.001])
    for _ in range(200):
        scheme = Pm1(SecretKey(rng.bytes(32)), gamma=gamma, vocab_size=VOCAB, context_width=2)
        ids = rng.integers(0, words, (texts // 200, 40))
        masks = np.arange(40) < rng.integers(20, 41, (texts // 200, 1))
        got = score(scheme, ids, masks=masks, special_ids=[0])  # type: ignore[arg-type]
        p = p_value(got.greens, got.scored, gamma)
        rejected += (p[:, None] <= alphas).sum(axis=0)
    # texts under one key share pairs, so they are not independent: the spread is over keys
    assert np.all(rejected / texts <= alphas + 4.75 * np.sqrt(alphas / (texts / 10)))


def test_greens_among_the_first_that_count() -> None:
    rng = np.random.default_rng(7)
    texts = [rng.integers(0, VOCAB, length) for length in (0, 80, 3, 500, 41)]
    got = score(pm1(1), texts)
    for n in (1, 30, 40):
        rows = [got.colours(i) for i in range(got.texts)]
        want = [row[:n].sum() if row.size >= n else np.nan for row in rows]
        np.testing.assert_array_equal(got.first_greens(n), want)
        kept = [row[:n] for row in rows if row.size >= n]
        np.testing.assert_array_equal(got.first_colours(n), np.reshape(kept, (-1, n)))
    assert got.first_colours(501).shape == (0, 501)


def test_nothing_to_score() -> None:
    batches: list[list[list[int]]] = [[], [[]], [[5]]]
    for texts in batches:
        got = score(pm1(1), texts)
        assert got.scored.sum() == 0
        assert got.texts == len(texts)


def test_what_is_refused() -> None:
    with pytest.raises(SpecMismatch, match="token ids below 60; the text has -5"):
        score(pm1(1), [[1, 2, -5, 7]])
    with pytest.raises(SpecMismatch, match="token ids below 60; the text has 60"):
        score(pm1(1), [[1, 60]])
    with pytest.raises(InvalidInput, match="a row of token ids; got shape"):
        score(pm1(1), [[[1, 2]]])
    with pytest.raises(InvalidInput, match="prompts must be one per text, 1; got 2"):
        score(pm1(1), [[1]], prompts=[[1], [2]])
    with pytest.raises(InvalidInput, match="masks must be one per text"):
        score(pm1(1), [[1], [2]], masks=[[True]])
    with pytest.raises(InvalidInput, match="its text's 2 entries; got 1"):
        score(pm1(1), [[1, 2]], masks=[[True]])
    with pytest.raises(InvalidInput, match="token ids must be"):
        score(pm1(1), [np.array([0.5])])
