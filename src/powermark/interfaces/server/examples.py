"""Example texts, from a folder that the operator names; every client gets them.

Every client would get a secret among them. So the server refuses to start if one of them holds a
key or access tokens, or is a link out of the folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from powermark.errors import FileProblem
from powermark.watermark.keys import KEY_BYTES, HashKey, SecretKey, holds_a_key

_BYTES = 20_000  # of a text; longer files are ignored
_BETWEEN = re.compile(r"[\s\0\ufeff]+")  # added to a key by an editor or another encoding
_DIGITS = re.compile(rf"(?=([0-9a-f]{{{2 * KEY_BYTES}}}))")
_TOKEN = re.compile(r"^\s*\w+\s+(detect|inspect)\s+[0-9a-fA-F]{64}\s*$", re.MULTILINE)


def own_examples(folder: Path) -> Path | None:
    """Return ``examples`` in the served folder, if there is one; refuse a link out of the folder.

    The operator may name any folder, but not by a link that somebody left in the served one.
    """
    own = folder / "examples"
    if not own.is_dir():
        return None
    if not own.resolve().is_relative_to(folder.resolve()):
        raise FileProblem(
            f"{str(own)!r} is a link out of the served folder, and every client would get the "
            "texts behind it.",
            hint="name the folder with --examples if they are meant for every client.",
        )
    return own


def load_examples(folder: Path | None, keys: Sequence[SecretKey | HashKey] = ()) -> dict[str, str]:
    """Return the texts ``*.txt`` of a folder by name; refuse a folder with a secret in one."""
    if folder is None:
        return {}
    if not folder.is_dir():
        raise FileProblem(f"there is no folder {str(folder)!r} of examples.")
    found = {}
    for file in sorted(folder.glob("*.txt")):
        if not file.resolve().is_relative_to(folder.resolve()):
            raise _refusal(file, "is a link out of its folder")
        text = _text(file)
        if text is None:
            continue
        if _shows_key(text, keys):
            raise _refusal(file, "holds a key")
        if _TOKEN.search(text):
            raise _refusal(file, "is a file of access tokens")
        found[file.stem] = text.removesuffix("\n")
    return found


def _refusal(file: Path, why: str) -> FileProblem:
    return FileProblem(
        f"the example {str(file)!r} {why}, and every client would get it.",
        hint="move it out of the folder of examples.",
    )


def _text(file: Path) -> str | None:
    """Return a short text; None for other files."""
    try:
        if file.stat().st_size > _BYTES:
            return None
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _shows_key(text: str, keys: Sequence[SecretKey | HashKey]) -> bool:
    """Whether a text has a key file's prefix or a loaded key's digits, spaces ignored."""
    dense = _BETWEEN.sub("", text).lower()
    if holds_a_key(dense):
        return True
    secrets = [key for key in keys if isinstance(key, SecretKey)]
    if any(SecretKey(bytes.fromhex(run)) in secrets for run in _DIGITS.findall(dense)):
        return True
    return any(isinstance(key, HashKey) and dense == str(key.value) for key in keys)
