"""NFKC in linear time: the same as Python's on any text that a language has."""

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powermark.detection import text as module
from powermark.detection.text import nfkc, normalise

MIB = 1 << 20
# letters, marks, Hangul in parts, ligatures, vowel signs that join: what could be cut wrongly
PARTS = (
    "ae\u0301\u0316\u0345\u1100\u1161\u11a8\uac00\uff9e\uff76\ufb01\ufdfa\u09c7\u09be\u0b47\u0b57"
)
PARTS += " \u0644\ufe8e\u3099\u304b\u2126\u212b\u01c4\u1e9b\u0323\u034f\ud55c\U0001d15e\U00011131"


@given(st.text(alphabet=st.sampled_from(PARTS) | st.characters(codec="utf-8"), max_size=40))
@settings(deadline=None)  # the first example reads a table of all characters
def test_it_is_nfkc_wherever_it_is_cut(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PART", 1)
        short = nfkc(text)
        patch.setattr(module, "_PART", 30)
        long = nfkc(text)
    assert long == unicodedata.normalize("NFKC", text)
    assert len(short) >= len(long) or short == long  # cut within a run of marks, it joins fewer


@given(st.lists(st.text(alphabet=st.sampled_from(PARTS), max_size=200), max_size=20))
def test_long_texts_are_the_same(parts: list[str]) -> None:
    text = " ".join(parts) * 20
    assert nfkc(text) == unicodedata.normalize("NFKC", text)


@given(st.text(alphabet=st.sampled_from("a1_ \u0430\u0435\u00e9-\n\u4e2d\u0301"), max_size=40))
def test_words_are_folded_whole_wherever_the_text_is_cut(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SLICE", 3)
        cut = normalise(text)
    assert cut == normalise(text)


@pytest.mark.parametrize(
    "text",
    [
        "\u0301\u0316" * (MIB // 4),
        "a" + "\u0301" * (MIB // 4) + "\u0316" * (MIB // 4),
        "\u1161" * (MIB // 3),
        "\ufdfa" * (MIB // 3),
    ],
    ids=["alternating", "sorted", "vowels", "ligatures"],
)
def test_a_mebibyte_takes_seconds_in_short_calls(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole takes a fraction of a second; by Python alone the first takes minutes."""
    longest, plain = [0], unicodedata.normalize

    def noted(form: str, part: str) -> str:
        longest[0] = max(longest[0], len(part))
        return plain(form, part)  # type: ignore[arg-type]

    monkeypatch.setattr(unicodedata, "normalize", noted)
    start = time.thread_time()  # not that of other tests' servers
    found = normalise(text)
    assert time.thread_time() - start < 10  # generous: other work shares the machine
    assert longest[0] <= 512  # such a call holds the lock for less than a millisecond
    assert len(found) >= len(text) - 1


def test_runs_of_marks_keep_their_marks() -> None:
    marks = "a" + "\u0316\u0301" * 1_000
    assert sorted(unicodedata.normalize("NFD", nfkc(marks))) == sorted(marks)
