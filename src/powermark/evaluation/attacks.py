"""What readers do to texts before they are tested, on token ids.

Every attack leaves its input alone, draws from its own seed, and says what survived: a mark is in
the tokens together with their contexts, so it is counted in n-grams of ``context_width + 1``.

``substitute``    tokens here and there are replaced by others
``delete``        tokens here and there are left out
``insert``        foreign tokens come in here and there
``replace_block`` one contiguous share is replaced by unmarked text (paper, Appendix B.7)
``copy_paste``    fragments of marked text stand in unmarked text
``paraphrase``    whatever a function makes of the words
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from powermark.calibration.edits import CONTEXT_WIDTH, block_length
from powermark.checks import Array, count, unit
from powermark.detection.text import token_ids_of
from powermark.errors import InvalidInput
from powermark.evaluation.ngrams import Ids, common_share, flattened, places

Texts = Sequence[ArrayLike]


@dataclass(frozen=True, slots=True)
class Attacked:
    """Texts after an attack, and the share of each one's n-grams that the original has too.

    Different n-grams count once, as in detection. nan where a text is too short for any.
    """

    ids: list[Ids]
    survival: Array


def substitute(
    texts: Texts, edit_rate: float, *, seed: int, context_width: int = CONTEXT_WIDTH
) -> Attacked:
    """Replace each token, with probability ``edit_rate``, by one that stands elsewhere.

    The new tokens are drawn from all texts given, so common ones come up as often as they do in
    such text; a token is never replaced by itself.
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
    """Leave out each token with probability ``edit_rate``."""
    rng = np.random.default_rng(seed)
    ids, lengths = flattened(texts)
    kept = rng.random(ids.size) >= float(unit("edit_rate", edit_rate))
    left = np.bincount(places(lengths)[0][kept], minlength=lengths.size)
    return _attacked(texts, _split(ids[kept], left), context_width)


def insert(
    texts: Texts, edit_rate: float, *, seed: int, context_width: int = CONTEXT_WIDTH
) -> Attacked:
    """Put a token from anywhere in the texts before each token, with probability ``edit_rate``."""
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
    """Replace a contiguous share of each text, at a uniform place, by unmarked text as long.

    Parameters
    ----------
    unmarked
        One per text. The tokens at the block's own places are taken, as the paper does; where the
        unmarked text is too short it goes on with the next one.
    within
        Tokens at the beginning that the block is a share of and lies in; None for all.
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
    """Keep a share of each text, in fragments, and spread them over unmarked text.

    The result is as long as the text was: ``share`` of it are fragments of equal length, in their
    order, from uniform places and to uniform places; the rest is the beginning of the unmarked
    text, which goes on with the next one where it is too short.
    """
    rng = np.random.default_rng(seed)
    k, kept = int(count("fragments", fragments)), float(unit("share", share))
    foreign, mixed = _foreign(texts, unmarked), []
    for number, text in enumerate(texts):
        ids = np.asarray(text, np.int64)
        size = int(kept * ids.size / k + 1e-9)
        rest = np.arange(ids.size - k * size)
        host = foreign(np.full(rest.size, number), rest)
        # sorted starts among the rest, moved apart by the fragments before: none overlap
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
    """Let a function rewrite each text's words: a translator and back, a language model, a synonym.

    ``on_step`` is called after each text. What is random in ``rewrite`` is seeded there.
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
    """Return the unmarked token that stands at a place of a text."""
    if len(unmarked) != len(texts):
        raise InvalidInput(f"unmarked must be one per text, {len(texts)}; got {len(unmarked)}.")
    ids, lengths = flattened(unmarked)
    if len(texts) and not ids.size:
        raise InvalidInput("the unmarked texts are all empty.")
    starts = np.cumsum(lengths) - lengths
    return lambda text, place: ids[(starts[text] + place) % max(ids.size, 1)]
