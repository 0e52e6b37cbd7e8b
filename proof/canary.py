"""(f) Secrets: the canary key, in all its forms, in everything that the other parts left behind.

Every file of the work folder is searched, compressed ones opened, and texts that a report or JSON
shows token by token put together; only the key's own file, and copies of it by its name, may hold
it. The search is itself proved: each form, planted in each kind of file, must be found.
"""

from __future__ import annotations

import base64
import html
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from powermark.watermark.keys import SecretKey
from proof.ledger import Entry, Ledger, Piece
from proof.shop import CANARY, Shop

_TEXT = re.compile(rb'"text":\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
_PART = 8  # bytes: a quarter of the key is enough to be found


def prove(ledger: Ledger, work: Path, folder: Path) -> list[Entry]:
    """Do the part; a work folder that has changed since is searched anew, all of it.

    What tells is the number of files and when the last was changed, but for the entry that the
    search itself leaves.
    """
    own = ledger.path("secrets", "canary")
    times = [path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file() and path != own]
    newest = max(times, default=0)
    settings = {"work": str(work), "folder": str(folder), "files": len(times), "newest": newest}
    return ledger.run("secrets", [Piece("canary", search, settings)])


def search(*, work: str, folder: str, files: int, newest: int) -> dict[str, Any]:
    """Search everything below a folder."""
    del files, newest  # settings, so that a search is known to be of the folder as it is
    found = look(Path(work), Shop(Path(folder)).key.name)
    there, seen = planted()
    return {"files": found.files, "bytes": found.size, "forms": len(forms(CANARY)),
            "hits": len(found.hits), "where": found.hits[:10], "planted": there,
            "found": seen}  # fmt: skip


class Looked(NamedTuple):
    """How much was searched, and where the canary was."""

    files: int
    size: int
    hits: list[str]


def look(work: Path, own: str) -> Looked:
    """Look for the canary in all files that have not the name of its own."""
    files, size, hits, wanted = 0, 0, [], forms(CANARY)
    for path in sorted(work.rglob("*")):
        if path.is_file() and path.name != own:
            inside = contents(path)
            files, size = files + 1, size + sum(map(len, inside))
            hits += [
                f"{path.name}: {name}"
                for name, form in wanted.items()
                if any(form in content for content in inside)
            ]
    return Looked(files, size, hits)


def forms(key: bytes) -> dict[str, bytes]:
    """Return what a key looks like: its bytes and what is derived from them for the mark."""
    low, high = SecretKey(key).siphash_key
    halves = low.to_bytes(8, "little") + high.to_bytes(8, "little")
    found = {
        "a list of numbers": ", ".join(map(str, key[:_PART])).encode(),
        "a list without blanks": ",".join(map(str, key[:_PART])).encode(),
        "numbers of four bytes": np.frombuffer(key[:_PART], np.uint8).astype("<i4").tobytes(),
        "numbers of eight bytes": np.frombuffer(key[:_PART], np.uint8).astype("<i8").tobytes(),
        "a Python literal": repr(key[:_PART])[2:-1].encode(),
        "a number, big end first": str(int.from_bytes(key, "big")).encode(),
        "a number, little end first": str(int.from_bytes(key, "little")).encode(),
        "SipHash key 1": str(low).encode(),
        "SipHash key 2": str(high).encode(),
    }
    for name, secret in (("key", key), ("SipHash key", halves)):
        for at in range(0, len(secret), _PART):
            part = secret[at : at + _PART]
            found[f"{name}, bytes {at}"] = part
            found[f"{name}, hexadecimal {at}"] = part.hex().encode()
            found[f"{name}, capitals {at}"] = part.hex().upper().encode()
        for shift in range(3):  # where the key begins among groups of three bytes
            for alphabet, encode in (
                ("", base64.b64encode),
                (" for URLs", base64.urlsafe_b64encode),
            ):
                whole = encode(b"\0" * shift + secret)[4:20]
                found[f"{name}, base64{alphabet} {shift}"] = whole
        found[f"{name}, base32"] = base64.b32encode(secret)[:24]
    return found


def contents(path: Path) -> list[bytes]:
    """Return what a file holds, what is packed in it, and the texts that it shows in pieces."""
    content = path.read_bytes()
    found = [content]
    try:
        if content.startswith(b"PK"):
            with zipfile.ZipFile(path) as archive:
                found += [archive.read(name) for name in archive.namelist()]
        elif content.startswith(b"PAR1"):
            table = pq.read_table(path)
            chunks = [chunk for column in table.columns for chunk in column.chunks]
            found += [
                buffer.to_pybytes() for chunk in chunks for buffer in chunk.buffers() if buffer
            ]
            found.append(str(table.to_pylist()).encode())
    except Exception:  # damaged on purpose, by the other parts
        return found
    if b"<span" in content:
        text = re.sub(r"<[^>]*>", "", content.decode(errors="replace"))
        found.append(html.unescape(text).encode())
    if pieces := _TEXT.findall(content):
        found.append("".join(map(_unquoted, pieces)).encode(errors="replace"))
    return found


def _unquoted(piece: bytes) -> str:
    """Return the text of a JSON string; of one in a damaged file, what is there."""
    shown = piece.decode(errors="replace")
    try:
        return str(json.loads(shown, strict=False))
    except ValueError:
        return shown


def _in_html(form: str) -> bytes:
    pieces = (html.escape(form[at : at + 2]) for at in range(0, len(form), 2))
    return "".join(f'<span title="red">{piece}</span>' for piece in pieces).encode()


def _in_json(form: str, separators: tuple[str, str] | None = None) -> bytes:
    pieces = [{"text": form[at : at + 2], "state": "red"} for at in range(0, len(form), 2)]
    return json.dumps(pieces, separators=separators).encode()


def _in_npz(form: bytes) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, kept=np.frombuffer(form, np.uint8))
    return content.getvalue()


def _in_parquet(form: bytes) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table({"kept": [b"before", form]}), content, compression="zstd")
    return content.getvalue()


_CARRIERS: dict[str, Callable[[bytes], bytes]] = {
    "log": lambda form: b"before " + form + b" after",
    "npz": _in_npz,
    "parquet": _in_parquet,
}
_TEXTS: dict[str, Callable[[str], bytes]] = {
    "html": _in_html,
    "json": _in_json,
    "compact": lambda form: _in_json(form, (",", ":")),  # as a server writes it
}


def planted() -> tuple[int, int]:
    """Plant every form in every kind of file that can hold it; return how many, how many found."""
    wanted = []
    with tempfile.TemporaryDirectory() as name:
        for number, (title, form) in enumerate(forms(CANARY).items()):
            made = {kind: carry(form) for kind, carry in _CARRIERS.items()}
            if form.isascii() and form.decode().isprintable():
                made |= {kind: carry(form.decode()) for kind, carry in _TEXTS.items()}
            for kind, content in made.items():
                Path(name, f"{number}.{kind}").write_bytes(content)
                wanted.append(f"{number}.{kind}: {title}")
        hits = set(look(Path(name), "").hits)
    return len(wanted), len(hits.intersection(wanted))
