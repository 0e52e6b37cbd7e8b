"""(f) Secrets: the canary key, in all its forms, in everything that the other parts left behind.

Every file of the work folder is searched, compressed ones opened; only the key's own file, and
copies of it by its name, may hold it. The search is itself proved: each form, planted in a file,
must be found.
"""

from __future__ import annotations

import base64
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from powermark.watermark.keys import SecretKey
from proof.ledger import Entry, Ledger, Piece
from proof.shop import CANARY, Shop

_PART = 8  # bytes: a quarter of the key is enough to be found


def prove(ledger: Ledger, work: Path, folder: Path) -> list[Entry]:
    """Do the part; what was searched before is searched again."""
    files = sum(path.is_file() for path in work.rglob("*"))
    settings = {"work": str(work), "folder": str(folder), "files": files}
    return ledger.run("secrets", [Piece("canary", search, settings)])


def search(*, work: str, folder: str, files: int) -> dict[str, Any]:
    """Search everything below a folder."""
    del files  # a setting, so that a work folder that has grown is searched anew
    own, wanted = Shop(Path(folder)).key.name, forms(CANARY)
    searched, size, hits = 0, 0, []
    for path in sorted(Path(work).rglob("*")):
        if path.is_file() and path.name != own:
            for content in contents(path):
                size += len(content)
                hits += [f"{path.name}: {n}" for n, form in wanted.items() if form in content]
            searched += 1
    return {"files": searched, "bytes": size, "forms": len(wanted), "hits": len(hits),
            "where": hits[:10], "planted": len(wanted), "found": planted()}  # fmt: skip


def forms(key: bytes) -> dict[str, bytes]:
    """Return what a key looks like: its bytes and what is derived from them for the mark."""
    low, high = SecretKey(key).siphash_key
    halves = low.to_bytes(8, "little") + high.to_bytes(8, "little")
    found = {
        "a list of numbers": ", ".join(map(str, key[:_PART])).encode(),
        "a list without blanks": ",".join(map(str, key[:_PART])).encode(),
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
    """Return what a file holds, and what is packed in it."""
    content = path.read_bytes()
    found = [content]
    if content.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                found += [archive.read(name) for name in archive.namelist()]
        except Exception:  # damaged on purpose, by the other parts
            return found
    if content.startswith(b"PAR1"):
        import pyarrow.parquet as pq

        try:
            found.append(str(pq.read_table(path).to_pylist()).encode())
        except Exception:
            return found
    return found


def planted() -> int:
    """Return how many forms are found when they are there."""
    with tempfile.TemporaryDirectory() as name:
        file, seen = Path(name, "planted"), 0
        for form in forms(CANARY).values():
            file.write_bytes(b"before " + form + b" after")
            seen += form in contents(file)[0]
    return seen
