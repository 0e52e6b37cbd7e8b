"""Text and token ids: tokenising, undoing disguises (NFKC, look-alikes), matching ids to text."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from powermark.checks import Ids
from powermark.errors import InvalidInput, MissingExtra

Spans = list[tuple[int, int]]

_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff\u00ad"))  # zero-width space and the like
_SLICE = 65_536  # characters that one call holds the interpreter's lock for
_COMPARED = 1_000  # ids that are matched one by one
_WORD = re.compile(r"\w+")
_PART = 256  # characters that are normalised at a time, up to twice as many
_JAMO = ((0x1161, 0x1175), (0x11A8, 0x11C2))  # Hangul vowels and final consonants


def valid(text: str, name: str = "the text") -> str:
    """Return the text; refuse invalid Unicode (half a surrogate pair)."""
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


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text's token ids and the characters of each; ``copied`` where a text was tokenised."""

    ids: Ids
    words: list[str]
    copied: bool


def tokens_of(tokenizer: Any, text: str | ArrayLike) -> Tokens:
    """Tokenise a text, or describe token ids; where tokens share a character, the first has it.

    Without a tokenizer the words of ids are the ids themselves.
    """
    ids, spans = tokenise(tokenizer, text) if isinstance(text, str) else (np.asarray(text), None)
    if isinstance(text, str) and spans is not None:
        ends = np.maximum.accumulate([0, *(stop for _, stop in spans)]).tolist()
        words = [text[start:stop] for start, stop in pairwise(ends)]
    elif tokenizer is None:
        words = [f"{token} " for token in ids]
    else:
        words = [tokenizer.decode([token]) for token in ids]
    return Tokens(np.asarray(ids), words, isinstance(text, str))


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
    The look-alikes are Unicode's own list, through the package confusable-homoglyphs. The time is
    linear in the text, and no call holds the interpreter's lock for long.
    """
    try:
        from confusable_homoglyphs import confusables
    except ImportError:
        raise MissingExtra(
            "normalising text needs confusable-homoglyphs, which is not installed.",
            hint="pip install 'powermark[text]'",
        ) from None
    plain = nfkc("".join(part.translate(_INVISIBLE) for part in _slices(text)))

    def fold(word: re.Match[str]) -> str:
        letters = word.group()
        if letters.isascii() or not any(c.isascii() and c.isalpha() for c in letters):
            return letters
        return "".join("".join(map(latin, part)) for part in _slices(letters))

    @lru_cache(maxsize=4096)
    def latin(letter: str) -> str:
        if letter.isascii() or unicodedata.name(letter, "").startswith("LATIN"):
            return letter
        found = confusables.is_confusable(letter, greedy=True, preferred_aliases=["latin"])
        shapes = [shape["c"] for entry in found or () for shape in entry["homoglyphs"]]
        return next((c for c in shapes if len(c) == 1 and c.isascii() and c.isalpha()), letter)

    return "".join(_WORD.sub(fold, part) for part in _whole_words(plain))


def _slices(text: str) -> Iterator[str]:
    return (text[i : i + _SLICE] for i in range(0, len(text), _SLICE))


def _whole_words(text: str) -> Iterator[str]:
    """Yield a text in slices that end where no word goes on."""
    start = 0
    while start < len(text):
        stop = min(start + _SLICE, len(text))
        word = _WORD.match(text, stop - 1)
        stop = word.end() if word else stop
        yield text[start:stop]
        start = stop


def nfkc(text: str) -> str:
    """Return the text in Unicode's normalisation form NFKC, in linear time.

    CPython sorts a run of combining marks by insertion (gh-149079) and holds the interpreter's lock
    meanwhile: a megabyte of marks takes minutes. So the text is cut where no character can join the
    one before it, as UAX #15 allows, and normalised part by part. A run of several hundred
    characters without such a place, which no language has, is cut all the same.
    """
    parts, start = [], 0
    while start < len(text):
        stop = start + _PART
        while stop < min(len(text), start + 2 * _PART) and not _stands_alone(text[stop]):
            stop += 1
        parts.append(unicodedata.normalize("NFKC", text[start:stop]))
        start = stop
    return "".join(parts)


@lru_cache(maxsize=4096)
def _stands_alone(character: str) -> bool:
    """Whether a text may be cut before a character: it neither joins nor passes the one before."""
    first = unicodedata.normalize("NFKD", character)[0]
    return unicodedata.combining(first) == 0 and first not in _joining()


@cache
def _joining() -> frozenset[str]:
    """Return the characters that come second in a canonical pair; all are below U+20000."""
    pairs = (unicodedata.decomposition(chr(point)).split() for point in range(0x20000))
    seconds = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and pair[0][0] != "<"}
    return frozenset(seconds | {chr(i) for low, high in _JAMO for i in range(low, high + 1)})


def text_of(tokenizer: Any, ids: Sequence[int]) -> str:
    """Return the text of sampled ids as people get it, without special tokens."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=True))


def lost_in_round_trip(tokenizer: Any, ids: Sequence[int]) -> int:
    """Return how many generated ids do not come back when their text is tokenised again."""
    again = token_ids_of(tokenizer, text_of(tokenizer, ids))
    return len(ids) - int((sources_of(ids, again) >= 0).sum())


def sources_of(ids: Sequence[int], again: Sequence[int]) -> Ids:
    """Return, for each id of a text tokenised again, its place in the sampled ids, or -1."""
    old, new, found = np.asarray(ids, np.int64), np.asarray(again, np.int64), [-1] * len(again)
    shorter = min(old.size, new.size)
    first = _same(old[:shorter], new[:shorter])
    last = _same(old[first:][::-1], new[first:][::-1])
    found[:first] = range(first)
    found[new.size - last :] = range(old.size - last, old.size)
    left, right = old[first : old.size - last].tolist(), new[first : new.size - last].tolist()
    if len(left) <= _COMPARED:  # a finer look would take long, and say nothing more
        matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
        for a, b, size in matcher.get_matching_blocks():
            found[first + b : first + b + size] = range(first + a, first + a + size)
    return np.array(found, np.int64)


def _same(one: Ids, other: Ids) -> int:
    """Return how many ids two sequences begin with in common."""
    size = min(one.size, other.size)
    differ = np.flatnonzero(one[:size] != other[:size])
    return int(differ[0]) if differ.size else size
