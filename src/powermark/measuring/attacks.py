"""Attacks on texts, as token ids: edits that a reader may make before detection.

Every attack leaves its input unchanged, draws from its own seed, and reports what survives: a mark
is in tokens together with their contexts, so survival is counted in n-grams of
``context_width + 1``.

``substitute``    replaces tokens at random places by others
``delete``        deletes tokens at random places
``insert``        inserts foreign tokens at random places
``replace_block`` replaces one contiguous share by unmarked text (paper, Appendix B.7)
``copy_paste``    puts fragments of marked text into unmarked text
``paraphrase``    applies any function to the words
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import Array, count, unit
from powermark.detection.text import token_ids_of
from powermark.errors import InvalidInput
from powermark.measuring.ngrams import Ids, common_share, flattened, places
from powermark.signals.edits import CONTEXT_WIDTH, block_length

Texts = Sequence[ArrayLike]


@dataclass(frozen=True, slots=True)
class Attacked:
    """Texts after an attack, and the share of each one's n-grams that its original also has.

    Repeated n-grams count once, as in detection; nan for texts without n-grams.
    """

    ids: list[Ids]
    survival: Array


def substitute(
    texts: Texts, edit_rate: float, *, seed: int, context_width: int = CONTEXT_WIDTH
) -> Attacked:
    """Replace each token, with probability ``edit_rate``, by a token from elsewhere.

    New tokens are drawn from all given texts, so they are as frequent as in such text; a token is
    never replaced by itself.
    """
    rng = np.random.default_rng(seed)
    ids, lengths = flattened(texts)
    pool = np.sort(ids)
    first, last = (np.searchsorted(pool, ids, side=side) for side in ("left", "right"))
    run = last - first  # of a token's own copies in the pool, which is drawn from without them
    chosen = rng.random(ids.size) < float(unit("edit_rate", edit_rate))
    hit = np.flatnonzero(chosen & (run < pool.size))
    drawn = rng.integers(0, pool.size - run[hit])
    ids[hit] = pool[drawn + np.where(drawn >= first[hit], run[hit], 0)]
    return _attacked(texts, _split(ids, lengths), context_width)


def delete(
    texts: Texts, edit_rate: float, *, seed: int, context_width: int = CONTEXT_WIDTH
) -> Attacked:
    """Delete each token with probability ``edit_rate``."""
    rng = np.random.default_rng(seed)
    ids, lengths = flattened(texts)
    kept = rng.random(ids.size) >= float(unit("edit_rate", edit_rate))
    left = np.bincount(places(lengths)[0][kept], minlength=lengths.size)
    return _attacked(texts, _split(ids[kept], left), context_width)


def insert(
    texts: Texts, edit_rate: float, *, seed: int, context_width: int = CONTEXT_WIDTH
) -> Attacked:
    """Insert a token of the texts before each token, with probability ``edit_rate``."""
    rng = np.random.default_rng(seed)
    ids, lengths = flattened(texts)
    hit = np.flatnonzero(rng.random(ids.size) < float(unit("edit_rate", edit_rate)))
    new = ids[rng.integers(0, ids.size, hit.size)] if hit.size else ids[:0]
    grown = lengths + np.bincount(places(lengths)[0][hit], minlength=lengths.size)
    return _attacked(texts, _split(np.insert(ids, hit, new), grown), context_width)


def replace_block(
    texts: Texts,
    unmarked: Texts,
    removal: float,
    *,
    seed: int,
    within: int | None = None,
    context_width: int = CONTEXT_WIDTH,
) -> Attacked:
    """Replace a contiguous share of each text, at a uniform place, by unmarked text.

    Parameters
    ----------
    unmarked
        One per text. The tokens at the block's own places are taken, as in the paper; the next
        unmarked text continues one that is too short.
    within
        The block is a share of the first ``within`` tokens and lies in them; None for all.
    """
    rng = np.random.default_rng(seed)
    ids, lengths = flattened(texts)
    text, place = places(lengths)
    room = lengths if within is None else np.minimum(lengths, int(count("within", within)))
    size = block_length(room, removal)
    start = rng.integers(0, room - size + 1)
    hit = (place >= start[text]) & (place < (start + size)[text])
    ids[hit] = _foreign(texts, unmarked)(text[hit], place[hit])
    return _attacked(texts, _split(ids, lengths), context_width)


def copy_paste(
    texts: Texts,
    unmarked: Texts,
    share: float,
    *,
    seed: int,
    fragments: int = 1,
    context_width: int = CONTEXT_WIDTH,
) -> Attacked:
    """Keep a share of each text, in fragments, and insert them into unmarked text.

    The result has the length of the text: ``share`` of it are fragments of equal length, in order,
    from uniform places to uniform places; the rest is the beginning of the unmarked text, continued
    by the next one if it is too short.
    """
    rng = np.random.default_rng(seed)
    k, kept = int(count("fragments", fragments)), float(unit("share", share))
    foreign, mixed = _foreign(texts, unmarked), []
    for number, text in enumerate(texts):
        ids = np.asarray(text, np.int64)
        size = int(kept * ids.size / k + 1e-9)
        rest = np.arange(ids.size - k * size)
        host = foreign(np.full(rest.size, number), rest)
        # sorted starts among the rest, shifted by the fragments before, so that none overlap
        taken, put = np.sort(rng.integers(0, rest.size + 1, (2, k)), axis=1)
        taken = (taken + np.arange(k) * size)[:, None] + np.arange(size)
        mixed.append(np.insert(host, np.repeat(put, size), ids[taken.ravel()]))
    return _attacked(texts, mixed, context_width)


def paraphrase(
    texts: Texts,
    rewrite: Callable[[str], str],
    tokenizer: Any,
    *,
    context_width: int = CONTEXT_WIDTH,
    on_step: Callable[[], object] = lambda: None,
) -> Attacked:
    """Rewrite each text's words with a function: back-translation, a language model, synonyms.

    ``on_step`` is called after each text. ``rewrite`` seeds its own random numbers.
    """
    rewritten = []
    for text in texts:
        words = rewrite(tokenizer.decode(np.asarray(text, np.int64).tolist()))
        rewritten.append(np.array(token_ids_of(tokenizer, words), np.int64))
        on_step()
    return _attacked(texts, rewritten, context_width)


def _attacked(originals: Texts, edited: list[Ids], context_width: int) -> Attacked:
    return Attacked(edited, common_share(edited, originals, context_width + 1))


def _split(ids: Ids, lengths: Ids) -> list[Ids]:
    return np.split(ids, np.cumsum(lengths)[:-1]) if lengths.size else []


def _foreign(texts: Texts, unmarked: Texts) -> Callable[[Ids, Ids], Ids]:
    """Return a function: the unmarked token at a place of a text."""
    if len(unmarked) != len(texts):
        raise InvalidInput(f"unmarked must be one per text, {len(texts)}; got {len(unmarked)}.")
    ids, lengths = flattened(unmarked)
    if len(texts) and not ids.size:
        raise InvalidInput("the unmarked texts are all empty.")
    starts = np.cumsum(lengths) - lengths
    return lambda text, place: ids[(starts[text] + place) % max(ids.size, 1)]
