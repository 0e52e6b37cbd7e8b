"""Tokenizers by name, folder or file; from their file alone, without torch or transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from powermark.errors import FileProblem, MissingExtra
from powermark.models.catalog import CATALOG, DEFAULT_MODEL

Ids = tuple[NDArray[np.int64], NDArray[np.int64]]


class FileTokenizer:
    """A ``tokenizer.json``, with the part of transformers' interface that powermark uses.

    Reading it takes a fraction of a second; importing transformers takes several.
    """

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        try:
            self._inner = Tokenizer.from_file(str(path))
        except Exception as error:  # the reader raises plain Exception
            raise FileProblem(
                f"cannot read the tokenizer {str(path)!r}: {error}.",
                hint="if it is damaged, remove the model's folder; it is then downloaded again.",
            ) from None
        self.chat_template = _chat_template(path.parent)
        self._inner.no_truncation()
        self._inner.no_padding()
        self.all_special_ids = sorted(
            token
            for token, added in self._inner.get_added_tokens_decoder().items()
            if added.special
        )

    def __len__(self) -> int:
        return int(self._inner.get_vocab_size(with_added_tokens=True))

    def get_vocab(self) -> dict[str, int]:
        """Return every token with its id."""
        return dict(self._inner.get_vocab(with_added_tokens=True))

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return a text's ids."""
        found = self._inner.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        return list(found[0].ids)

    def encode_many(self, texts: Sequence[str]) -> Ids:
        """Return the ids of many texts end to end, and where each begins.

        Each list of ids is freed before the next is made, which saves a third of the time.
        """
        found = self._inner.encode_batch_fast(texts, add_special_tokens=False)
        offsets = np.cumsum([0, *map(len, found)])
        rows = map(attrgetter("ids"), found)
        return np.fromiter(chain.from_iterable(rows), np.int64, offsets[-1]), offsets

    def encode_with_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return a text's ids and the characters of each."""
        [found] = self._inner.encode_batch([text], add_special_tokens=False)  # without the lock
        return list(found.ids), list(found.offsets)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of ids."""
        return str(self._inner.decode(list(ids), skip_special_tokens=skip_special_tokens))


def load_tokenizer(name: str = DEFAULT_MODEL) -> Any:
    """Return a tokenizer by a model's name or folder, or by its ``tokenizer.json``.

    Only a model of a hub, or a folder without ``tokenizer.json``, needs transformers. Nothing needs
    torch.
    """
    try:
        if (file := _file(name)) is not None:
            return FileTokenizer(file)
    except ImportError as error:
        raise MissingExtra(
            f"reading a tokenizer needs {error.name}, which is not installed.",
            hint="pip install 'powermark[detect]'",
        ) from None
    if find_spec("transformers") is None:
        raise MissingExtra(
            f"{name!r} has no tokenizer.json here; loading it in another way needs transformers, "
            "which is not installed.",
            hint="give a tokenizer.json or a folder that has one, or pip install "
            "'powermark[transformers]'",
        )
    from transformers import AutoTokenizer

    from powermark.models.language_model import load_part

    return load_part(AutoTokenizer, name, name)


def _file(name: str) -> Path | None:
    """Return the ``tokenizer.json`` of an embedded model, a folder or a file, if there is one."""
    if name in CATALOG:
        from powermark.models.store import tokenizer_folder

        return tokenizer_folder(name) / "tokenizer.json"
    path = Path(name)
    found = path if path.suffix == ".json" else path / "tokenizer.json"
    return found if found.is_file() else None


def _chat_template(folder: Path) -> str | None:
    """Return the chat template beside a tokenizer's file: its own file, or in the configuration."""
    with suppress(OSError, UnicodeDecodeError):
        return (folder / "chat_template.jinja").read_text("utf-8")
    with suppress(OSError, ValueError, AttributeError):
        found = json.loads((folder / "tokenizer_config.json").read_bytes()).get("chat_template")
        return None if found is None else str(found)
    return None
