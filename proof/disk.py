"""Faults of the machine: no room, a cache that cannot be written, a clock that jumps.

A full disk is a small one of memory in a mount namespace of its own, filled but for a few bytes,
and a read-only cache is mounted so; where that is not allowed, files are limited in size, and the
cache is where no folder can be made.
"""

from __future__ import annotations

import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

from powermark.signals.profile_file import load_profile
from powermark.watermark.keys import load_key
from proof.scenario import JUMPS, cells_of, last_words, outcome, profile_of, readable, scan_of
from proof.shop import Shop, words

PROFILE = "p.npz"
FULL = ("spec", "key", "report", "profile", "scan", "texts")
_ROOM = {"profile": 16_384, "scan": 16_384, "texts": 16_384}  # bytes left, for a beginning
_NAMESPACE = ["unshare", "--map-root-user", "--mount"]
# with a full disk, then with room; SMALL is the disk, KEPT what was on it at the end
_FILLED = """
mount -t tmpfs -o size=8m none "$SMALL" && {
  cat /dev/zero > "$SMALL/filler" 2> /dev/null; truncate -s "-$ROOM" "$SMALL/filler"
  "$@"; echo "first $?"; rm "$SMALL/filler"; "$@"; echo "second $?"; cp -r "$SMALL/." "$KEPT"; }
"""
_LIMITED = """
(ulimit -f $((ROOM / 512)); "$@"); echo "first $?"; "$@"; echo "second $?"; cp -r "$SMALL/." "$KEPT"
"""
_READ_ONLY = """
mount --bind "$CACHE" "$CACHE" && mount -o remount,ro,bind "$CACHE" && exec "$@"
"""


def _commands(shop: Shop, place: Path) -> dict[str, tuple[list[str], Path]]:
    """Return what writes each kind of file, and the file."""
    text = shop.folder / "text.txt"
    text.write_text(words(list(range(2, 150))))
    mark = [*shop.mark, "--model", str(shop.model)]
    texts = ["--prompts", str(shop.data / "c4.jsonl"), "--texts", "12", "--batch", "2"]
    wanted = ["--n-tokens", "50", "--alpha", "0.05", "--power", "0.9", "--vocab-size", "200"]
    return {
        name: ([*command, str(place / file)], place / file)
        for name, command, file in (
            ("spec", ["plan", *wanted, "-o"], "spec.json"),
            ("key", ["key", "new"], "new.key"),
            ("report", ["detect", *mark, str(text), "--html"], "report.html"),
            ("profile", [*profile_of(shop), "-o"], PROFILE),
            ("scan", [*scan_of(shop), "-o"], "out"),
            ("texts", ["verify", *mark, *texts, "-o"], "texts.jsonl"),
            ("cells", [*cells_of(shop, place), "-o"], "cells"),
        )
    }


def full(*, folder: str, what: str) -> dict[str, Any]:
    """Run out of room, then run again with room: a sentence, then the result of a run alone.

    A key is another one each time; it must be whole. The second run ends as the one alone: with 0,
    or with 1 where ``verify`` finds a promise broken.
    """
    shop = Shop(Path(folder))
    place = shop.place(f"full-{what}-{time.time_ns()}")
    alone, small, kept = (shop.place(f"{place.name}/{n}") for n in ("alone", "small", "kept"))
    command, file = _commands(shop, alone)[what]
    code, _ = shop.run(shop.command(*command), place / "log")
    again, _ = _commands(shop, small)[what]
    script = [*_NAMESPACE, "sh", "-c", _FILLED] if _namespaces() else ["sh", "-c", _LIMITED]
    room = str(_ROOM.get(what, 0))
    names = {"SMALL": str(small), "KEPT": str(kept), "ROOM": room}
    _, said = shop.run([*script, "sh", *shop.command(*again)], place / "log", **names)
    found = kept / file.name
    if what == "key":
        whole = readable(lambda: load_key(found)) is not None
    else:
        whole = bool(readable(lambda: _same(file, found)))
    ends = code < 2 and {"first 2", f"second {code}"} <= {*said.splitlines()}
    told = ends and "powermark: cannot " in said
    return outcome(1, int(not (told and whole)), shop.heard(place), last_words(said))


def _same(wanted: Path, found: Path) -> bool:
    if wanted.name == PROFILE:  # its archive holds times
        return bool(load_profile(wanted).about["digest"] == load_profile(found).about["digest"])
    if wanted.is_dir():
        names = {path.name for path in wanted.iterdir()}
        same = names == {path.name for path in found.iterdir()}
        return same and all(_same(wanted / name, found / name) for name in names)
    return wanted.read_bytes() == found.read_bytes()


def full_output(*, folder: str) -> dict[str, Any]:
    """Print to a full device."""
    shop = Shop(Path(folder))
    place = shop.place(f"full-output-{time.time_ns()}")
    command = shop.command("power", "--gamma", ".5", "--delta", "2", "--n-tokens", "50",
                           "--alpha", ".05")  # fmt: skip
    code, said = shop.run(["sh", "-c", '"$@" > /dev/full', "sh", *command], place / "log")
    told = code != 0 and "powermark: " in said
    return outcome(1, int(not told), said, last_words(said))


def read_only_cache(*, folder: str) -> dict[str, Any]:
    """Detect with tables that cannot be kept, and ask for a model that cannot be kept either."""
    shop = Shop(Path(folder))
    place = shop.place(f"read-only-{time.time_ns()}")
    cache, log = shop.place(f"{place.name}/cache"), place / "log"
    ids = place / "ids.txt"
    ids.write_text(" ".join(map(str, range(2, 110))))
    detect = shop.command("detect", *shop.mark, "--ids", str(ids), "--detector", "winmax", "--json")
    _, wanted = shop.run(detect, log)
    text = place / "text.txt"
    text.write_text("a text for the embedded model's tokenizer")
    needs_model = shop.command("detect", *shop.mark, str(text))
    before, closed = [], "/proc/nowhere"
    if _namespaces():
        before, closed = [*_NAMESPACE, "sh", "-c", _READ_ONLY, "sh"], str(cache)
    settings = {"CACHE": str(cache), "POWERMARK_CACHE": closed}
    found = [shop.run([*before, *command], log, **settings) for command in (detect, needs_model)]
    refused = found[1][0] == 2 and "powermark: cannot keep the model" in found[1][1]
    left = [*cache.iterdir()]
    lost = (found[0] != (0, wanted)) + (not refused) + bool(left)
    return outcome(2, lost, shop.heard(place), last_words(found[1][1]))


def clock_jumps(*, folder: str) -> dict[str, Any]:
    """Run with a wall clock that jumps by thirty years at every look."""
    shop = Shop(Path(folder))
    place = shop.place(f"clock-{time.time_ns()}")
    alone, jumping = (shop.place(f"{place.name}/{name}") for name in ("alone", "jumping"))
    kinds = ("spec", "report", "profile", "scan", "texts", "cells")
    lost = 0
    for what in kinds:
        command, wanted = _commands(shop, alone)[what]
        usual, _ = shop.run(shop.command(*command), place / "log")
        command, found = _commands(shop, jumping)[what]
        code, _ = shop.run(shop.command(*command, before=JUMPS), place / "log")
        lost += not code == usual < 2 or not readable(partial(_same, wanted, found))
    return outcome(len(kinds), lost, shop.heard(place), "the same files")


def _namespaces() -> bool:
    """Whether this user may mount in a namespace of its own."""
    try:
        return subprocess.run([*_NAMESPACE, "true"], capture_output=True).returncode == 0
    except OSError:
        return False
