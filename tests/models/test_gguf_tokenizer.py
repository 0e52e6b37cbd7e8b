"""Tokenizers of GGUF files without transformers; a real file is read in tests/e2e."""

from pathlib import Path

import pytest
from gguf import GGUFWriter, TokenType
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer

from powermark.errors import FileProblem
from powermark.models.gguf_tokenizer import write_tokenizer
from powermark.models.tokenizer import FileTokenizer
from powermark.watermark.spec import digest_of

TEXTS = [
    "The theme of the hen: then there.",
    "  two  spaces,\ttabs\n\nlines \n",
    "12345 in 1969, it's 3.14",
    "中文 🙂 naïve \u0301e",
    "a <end> b<tool>c <s>",
    "",
]


def write_gguf(path: Path, kind: str, architecture: str = "llama") -> Path:
    """A file with a vocabulary and no weights: gpt2 for bytes, llama for SentencePiece."""
    writer = GGUFWriter(path, architecture)
    if kind == "gpt2":
        words, special = sorted(ByteLevel.alphabet()), ["<s>", "<end>"]
        merges = ["t h", "th e", "Ġ the", "h e", "1 9", "Ġ a"]
        words += [merge.replace(" ", "") for merge in merges]
        writer.add_token_merges(merges)
    else:
        words = [f"<0x{byte:02X}>" for byte in range(256)] + list("▁thenmr.a:12\n")
        words += ["  ", "   ", "th", "he", "the", "▁the", "▁then", "\n\n", "en", "hen"]
        special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<end>"]
    tokens = [*special, *words, "<tool>"]
    types = dict.fromkeys(special, TokenType.CONTROL) | {"<tool>": TokenType.USER_DEFINED}
    types |= dict.fromkeys(("  ", "   "), TokenType.USER_DEFINED)
    writer.add_tokenizer_model(kind)
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([types.get(token, TokenType.NORMAL) for token in tokens])
    writer.add_unk_token_id(special.index("<unk>") if "<unk>" in special else 0)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(("kind", "architecture"), [("gpt2", "llama"), ("llama", "gemma3")])
def test_ids_are_those_of_transformers(tmp_path: Path, kind: str, architecture: str) -> None:
    gguf = write_gguf(tmp_path / "x.gguf", kind, architecture)
    write_tokenizer(gguf, tmp_path)
    mine = FileTokenizer(tmp_path / "tokenizer.json")
    theirs = AutoTokenizer.from_pretrained(str(tmp_path), gguf_file="x.gguf")
    theirs.save_pretrained(tmp_path / "theirs")
    saved = FileTokenizer(tmp_path / "theirs" / "tokenizer.json")
    assert mine.get_vocab() == saved.get_vocab()
    assert mine.all_special_ids == saved.all_special_ids
    for text in TEXTS:
        assert mine.encode_with_spans(text) == saved.encode_with_spans(text), text
        assert mine.decode(mine.encode(text)) == saved.decode(saved.encode(text))
    assert digest_of(mine) == digest_of(saved)


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    gguf = write_gguf(tmp_path / "x.gguf", "llama")
    with pytest.raises(FileProblem, match=r"x\.gguf is of an unknown kind: \('llama', 'llama'\)"):
        write_tokenizer(gguf, tmp_path)
