"""Disguised text, and what tokenising does to it."""

import sys
from pathlib import Path

import pytest

from powermark.detection.detector import Detector
from powermark.detection.text import lost_in_round_trip, normalise, tokenise, tokens_of, valid
from powermark.errors import InvalidInput, MissingExtra
from powermark.models import LanguageModel, load_tokenizer
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec


@pytest.mark.parametrize(
    ("disguised", "plain"),
    [
        ("p\u0430ssw\u043erd", "password"),  # Cyrillic letters in a Latin word
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("\ufb01ne \uff21\uff22", "fine AB"),  # ligature, full width
        ("Привет, мир", "Привет, мир"),  # another script is left alone
        ("naïve café Straße", "naïve café Straße"),
        ("日本語 🙂", "日本語 🙂"),
        ("x\u4e2dy", "x\u4e2dy"),  # nothing to fold it to
        ("", ""),
    ],
)
def test_disguises_are_undone_and_languages_are_not(disguised: str, plain: str) -> None:
    assert normalise(disguised) == plain
    assert normalise(plain) == plain


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confusable_homoglyphs", None)
    with pytest.raises(MissingExtra, match="needs confusable-homoglyphs"):
        normalise("a")


def test_three_kinds_of_tokenizers(tiny_model: LanguageModel, tiny_folder: Path) -> None:
    class Plain:
        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            return list(tiny_model.tokenizer.encode(text, add_special_tokens=add_special_tokens))

        def decode(self, ids: list[int]) -> str:
            return f"<{ids[0]}>"

    want = [2, 3], [(0, 1), (3, 4)]
    assert tokenise(tiny_model.tokenizer, "a  b") == want
    assert tokenise(load_tokenizer(str(tiny_folder)), "a  b") == want
    assert tokenise(Plain(), "a  b") == ([2, 3], None)
    spec = WatermarkSpec(gamma=0.5, delta=2.0, context_width=1, vocab_size=8)
    look = Detector(
        spec, SecretKey(bytes(32)), tokenizer=tiny_model.tokenizer, alpha=0.5, normalise_text=True
    )
    assert look.inspect("a  b").words == ["a", "  b"]
    assert tokens_of(Plain(), "a  b").words == ["<2>", "<3>"]
    assert look.inspect([2]).words == ["a"]
    assert look.detect("\u0430a b").tokens == look.detect("aa b").tokens
    assert "normalise:yes" in look.detect("a b").signature


def test_ids_that_do_not_come_back_are_counted(tiny_model: LanguageModel) -> None:
    assert lost_in_round_trip(tiny_model.tokenizer, [2, 3, 4]) == 0
    assert lost_in_round_trip(tiny_model.tokenizer, [2, 3, 9, 4]) == 1  # 9 has no text
    assert lost_in_round_trip(tiny_model.tokenizer, []) == 0
    assert lost_in_round_trip(tiny_model.tokenizer, [9, 2]) == 1
    assert lost_in_round_trip(tiny_model.tokenizer, [2, 9, 3, 4, 9, 5, 2]) == 2
    assert lost_in_round_trip(tiny_model.tokenizer, [2, 9] * 600) == 1199  # not matched one by one
    with pytest.raises(InvalidInput, match="not Unicode, at 1"):
        valid("a\ud800")
