"""Disguised text, and what tokenising does to it."""

import sys
from pathlib import Path

import pytest

from powermark.detection.detection import Detector
from powermark.detection.report import words_of
from powermark.detection.text import lost_in_round_trip, normalise, tokenise, valid
from powermark.errors import InvalidInput, MissingExtra
from powermark.models import LanguageModel, load_tokenizer
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from tests.models.test_language_model import folder, model

__all__ = ["folder", "model"]  # fixtures, used below by name


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


def test_three_kinds_of_tokenizers(model: LanguageModel, folder: Path) -> None:
    class Plain:
        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            return list(model.tokenizer.encode(text, add_special_tokens=add_special_tokens))

        def decode(self, ids: list[int]) -> str:
            return f"<{ids[0]}>"

    want = [2, 3], [(0, 1), (3, 4)]
    assert tokenise(model.tokenizer, "a  b") == want
    assert tokenise(load_tokenizer(str(folder)), "a  b") == want
    assert tokenise(Plain(), "a  b") == ([2, 3], None)
    spec = WatermarkSpec(gamma=0.5, delta=2.0, context_width=1, vocab_size=8)
    look = Detector(
        spec, SecretKey(bytes(32)), tokenizer=model.tokenizer, alpha=0.5, normalise_text=True
    )
    assert words_of(look, model.tokenizer, "a  b") == ["a", "  b"]
    assert words_of(look, Plain(), "a  b") == ["<2>", "<3>"]
    assert words_of(look, model.tokenizer, [2]) == ["a"]
    assert look.detect("\u0430a b").tokens == look.detect("aa b").tokens
    assert "normalise:yes" in look.detect("a b").signature


def test_ids_that_do_not_come_back_are_counted(model: LanguageModel) -> None:
    assert lost_in_round_trip(model.tokenizer, [2, 3, 4]) == 0
    assert lost_in_round_trip(model.tokenizer, [2, 3, 9, 4]) == 1  # 9 has no text
    assert lost_in_round_trip(model.tokenizer, []) == 0
    assert lost_in_round_trip(model.tokenizer, [9, 2]) == 1
    assert lost_in_round_trip(model.tokenizer, [2, 9, 3, 4, 9, 5, 2]) == 2
    assert lost_in_round_trip(model.tokenizer, [2, 9] * 600) == 1199  # not matched one by one
    with pytest.raises(InvalidInput, match="not Unicode, at 1"):
        valid("a\ud800")
