"""From text to token ids, and the little repairs that copied or disguised text may need."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from powermark.errors import InvalidInput, MissingExtra

Spans = list[tuple[int, int]]
Ids = NDArray[np.int64]

_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff\u00ad"))  # zero-width space and the like
_COMPARED = 1_000  # ids that are matched one by one
_WORD = re.compile(r"\w+")


def valid(text: str, name: str = "the text") -> str:
    """Return a text as it is; one that is no Unicode (half a surrogate pair) is refused."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{name} holds characters that are not Unicode, at {error.start}."
        ) from None
    return text


def token_ids_of(tokenizer: Any, text: str) -> list[int]:
    """Return a text's ids without special tokens."""
    return list(tokenizer.encode(text, add_special_tokens=False))


def flat_ids(tokenizer: Any, texts: Sequence[str]) -> tuple[Ids, Ids]:
    """Return the ids of many texts end to end, and where each begins; in one call where it can."""
    if hasattr(tokenizer, "encode_many"):
        ids, offsets = tokenizer.encode_many(texts)
        return ids, offsets
    if getattr(tokenizer, "is_fast", False) and texts:
        rows = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    else:
        rows = [token_ids_of(tokenizer, text) for text in texts]
    offsets = np.cumsum([0, *map(len, rows)])
    return np.fromiter(chain.from_iterable(rows), np.int64, offsets[-1]), offsets


def tokenise(tokenizer: Any, text: str) -> tuple[list[int], Spans | None]:
    """Return a text's ids without special tokens and, where known, the characters of each."""
    if hasattr(tokenizer, "encode_with_spans"):
        ids, spans = tokenizer.encode_with_spans(text)
        return ids, spans
    if getattr(tokenizer, "is_fast", False):
        found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return list(found["input_ids"]), [tuple(span) for span in found["offset_mapping"]]
    return token_ids_of(tokenizer, text), None


def characters_of(
    tokenizer: Any, text: str, ids: Ids, start: int, stop: int
) -> tuple[int, int] | None:
    """Return the characters of some of a text's tokens, blanks at both ends left out.

    Decoding what comes before takes a small part of the time of tokenising again. Where it does not
    give the text back, the tokenizer's own record of places is asked for; None if it has none.
    """
    before, until = (tokenizer.decode(ids[:end].tolist()) for end in (start, stop))
    if text.startswith(until) and until.startswith(before):
        first, last = len(before), len(until)
    else:
        spans = tokenise(tokenizer, text)[1]
        if spans is None:
            return None
        first, last = spans[start][0], spans[stop - 1][1]
    piece = text[first:last]
    if not piece.strip():
        return first, last
    return last - len(piece.lstrip()), first + len(piece.rstrip())


def normalise(text: str) -> str:
    """Undo disguises: NFKC, invisible characters, and foreign letters that pose as Latin ones.

    Letters are folded only in words that mix scripts, so text in another script stays as it is.
    The look-alikes are Unicode's own list, through the package confusable-homoglyphs.
    """
    try:
        from confusable_homoglyphs import confusables
    except ImportError:
        raise MissingExtra(
            "normalising text needs confusable-homoglyphs, which is not installed.",
            hint="pip install 'powermark[text]'",
        ) from None
    plain = unicodedata.normalize("NFKC", text.translate(_INVISIBLE))

    def fold(word: re.Match[str]) -> str:
        letters = word.group()
        if letters.isascii() or not any(c.isascii() and c.isalpha() for c in letters):
            return letters
        return "".join(map(latin, letters))

    def latin(letter: str) -> str:
        if letter.isascii() or unicodedata.name(letter, "").startswith("LATIN"):
            return letter
        found = confusables.is_confusable(letter, greedy=True, preferred_aliases=["latin"])
        shapes = [shape["c"] for entry in found or () for shape in entry["homoglyphs"]]
        return next((c for c in shapes if len(c) == 1 and c.isascii() and c.isalpha()), letter)

    return _WORD.sub(fold, plain)


def lost_in_round_trip(tokenizer: Any, ids: Sequence[int]) -> int:
    """Return how many generated ids do not come back when their text is tokenised again."""
    old, new = list(ids), token_ids_of(tokenizer, tokenizer.decode(list(ids)))
    while old and new and old[-1] == new[-1]:
        old.pop()
        new.pop()
    same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    if same is None:
        return max(0, len(old) - len(new))
    old, new = old[same:], new[same:]
    if len(old) > _COMPARED:  # a finer count would take long, and says nothing more
        return len(old)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return len(old) - sum(block.size for block in matcher.get_matching_blocks())
