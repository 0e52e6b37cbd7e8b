"""Build a ``tokenizer.json`` from the metadata of a GGUF file, without torch or transformers.

A GGUF file lists tokens, their types and, for most models, merges. Normaliser, pre-tokenizer and
decoder follow from the kind of tokenizer. The result gives the same ids as the tokenizer that
transformers builds from the same file, and so has the same digest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from powermark.errors import FileProblem

Merges = list[tuple[str, str]]
_CONTROL, _USER_DEFINED = 3, 4  # types of tokens in a GGUF file
_SPACE = "\u2581"  # how SentencePiece writes a blank


def write_tokenizer(gguf: Path, folder: Path) -> None:
    """Write ``tokenizer.json`` of a GGUF file to ``folder``."""
    fields = GGUFReader(gguf).fields

    def field(name: str) -> Any:
        return fields[name].contents() if name in fields else None

    tokens, types = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    kind = field("tokenizer.ggml.model"), field("general.architecture")
    if kind[0] == "gpt2":
        tokenizer = _byte_level(tokens, field("tokenizer.ggml.merges"))
    elif kind == ("llama", "gemma3"):
        tokenizer = _gemma(tokens, tokens[field("tokenizer.ggml.unknown_token_id")])
    else:
        raise FileProblem(f"the tokenizer of {gguf.name} is of an unknown kind: {kind}.")
    known = tokenizer.get_vocab()
    for added, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        tokenizer.add_tokens(
            [
                AddedToken(token, normalized=False, special=special)
                for token, its_type in zip(tokens, types, strict=True)
                if its_type == added and token in known
            ]
        )
    tokenizer.save(str(folder / "tokenizer.json"))


def _byte_level(tokens: list[str], merges: list[str]) -> Tokenizer:
    """Return a byte-level BPE tokenizer, as GPT-2 has."""
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    tokenizer = Tokenizer(BPE(_numbered(tokens), pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _gemma(tokens: list[str], unknown: str) -> Tokenizer:
    """Return a SentencePiece-like BPE tokenizer whose merges follow from the order of its tokens.

    The file writes tokens of several blanks as blanks.
    """
    tokens = [_SPACE * len(token) if set(token) == {" "} else token for token in tokens]
    model = BPE(
        _numbered(tokens),
        _merges(tokens),
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", _SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def _merges(tokens: list[str]) -> Merges:
    """Return every way to join two tokens to a third; those of earlier tokens come first.

    Among the ways to the same token, a longer left part comes first.
    """
    known = _numbered(tokens)
    return [
        (token[:cut], token[cut:])
        for token in tokens
        for cut in range(len(token) - 1, 0, -1)
        if token[:cut] in known and token[cut:] in known
    ]


def _numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}
