"""(c) Faults: what is killed, starved of room, lied to about the time or damaged loses nothing.

Every scenario is compared with the same work left alone. Something is **lost** where the two end
with another result, or where what is damaged is taken for whole; and whatever goes wrong must be
said in a sentence, not a traceback.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from powermark.signals.profile_file import load_profile
from proof import attacks, bombs, damage, disk, drafts, scenario, servers
from proof.ledger import Entry, Ledger, Piece
from proof.scale import Scale
from proof.shop import WORDS, Shop

State = dict[Path, int]
_PAUSE = 0.02
_SMALL = 20_000  # documents of a small scan


def prove(ledger: Ledger, scale: Scale, folder: Path) -> list[Entry]:
    """Do the part, one scenario after the other: each has the machine for itself."""
    shop, kills = {"folder": str(folder)}, {"folder": str(folder), "kills": scale.kills}
    crowds = {"folder": str(folder), "connections": scale.connections}
    damages = {"folder": str(folder), "times": 10 * scale.kills}
    return ledger.run(
        "faults",
        [
            Piece("kill-runner", kill_runner, kills),
            Piece("kill-scan", kill_scan, kills),
            Piece("kill-small-scan", kill_small_scan, kills),
            Piece("kill-profile", kill_profile, kills),
            Piece("kill-server", servers.kill, kills),
            *(Piece(f"full-disk-{what}", disk.full, {**shop, "what": what}) for what in disk.FULL),
            Piece("full-output", disk.full_output, shop),
            Piece("read-only-cache", disk.read_only_cache, shop),
            Piece("clock-jumps", disk.clock_jumps, shop),
            Piece("clock-jumps-server", servers.clock_jumps, shop),
            Piece("idle-flood", attacks.idle, crowds),
            Piece("slow-readers", attacks.slow, crowds),
            Piece("combining-marks", attacks.marks, shop),
            Piece("served-secrets", attacks.secrets, shop),
            *(
                Piece(f"damaged-{what}", damage.tried, {**damages, "what": what})
                for what in damage.KINDS
            ),
            *(Piece(f"bomb-{what}", bombs.tried, {**shop, "what": what}) for what in bombs.BOMBS),
            *(Piece(f"drafts-{kind}", drafts.tried, {"kind": kind}) for kind in drafts.KINDS),
        ],
    )


def kill_runner(*, folder: str, kills: int) -> dict[str, Any]:
    """Kill the paper's experiments."""
    shop = Shop(Path(folder))

    def command(place: Path) -> list[str]:
        return shop.command(*scenario.cells_of(shop, place), "-o", str(place / "out"))

    return _killed(shop, "runner", command, scenario.contents_of, kills)


def kill_scan(*, folder: str, kills: int) -> dict[str, Any]:
    """Kill a scan."""
    shop = Shop(Path(folder))

    def command(place: Path) -> list[str]:
        return shop.command(*scenario.scan_of(shop), "-o", str(place / "out"))

    return _killed(shop, "scan", command, scenario.contents_of, kills)


def kill_small_scan(*, folder: str, kills: int) -> dict[str, Any]:
    """Kill a scan that is smaller than a partition, each time once it has kept something new.

    It keeps what it has done ten times a second here, instead of every five seconds.
    """
    shop = Shop(Path(folder))
    place = shop.place(f"kill-small-scan-{time.time_ns()}")
    rng, log = np.random.default_rng(0), place / "log"
    ids = rng.integers(2, WORDS, (_SMALL, 100))
    corpus = place / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"token_ids": row}) + "\n" for row in ids.tolist()))
    often = "import powermark.corpus.workers; powermark.corpus.workers.KEPT_EVERY = 0.1\n"
    scan = ["scan", *shop.mark, "--detector", "winmax", "--field", "token_ids", str(corpus),
            "--workers", "1", "--json"]  # fmt: skip

    def command(output: Path) -> list[str]:
        return shop.command(*scan, "-o", str(output), before=often)

    _, alone = shop.run(command(place / "alone"), log)
    at_work = 0
    for _ in range(kills):
        before, child = _state(place / "killed"), shop.begin(command(place / "killed"), log)
        while child.poll() is None and not _kept(place / "killed") - _kept(before):
            time.sleep(_PAUSE)
        at_work += child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
    code, found = shop.run(command(place / "killed"), log)
    scanned = [_scanned(said) for said in (alone, found)]
    same = scenario.contents_of(place / "alone") == scenario.contents_of(place / "killed")
    lost = code != 0 or not same or not at_work or scanned[1] >= scanned[0]
    said = f"{at_work} kills; {scanned[1]} of {scanned[0]} documents were left"
    return scenario.outcome(kills, int(lost), shop.heard(place), said)


def _kept(files: Path | State) -> set[Path]:
    """Return the files in which a scan keeps what it has done."""
    found = files.rglob("*") if isinstance(files, Path) else files
    return {path for path in found if path.name.startswith(("kept-", "part-"))}


def _scanned(said: str) -> int:
    """Return how many documents a run has scanned, by its JSON."""
    found = re.search(r'"this_run": \{\s*"documents": (\d+)', said)
    return int(found[1]) if found else -1


def kill_profile(*, folder: str, kills: int) -> dict[str, Any]:
    """Kill the recording of a profile."""
    shop = Shop(Path(folder))

    def command(place: Path) -> list[str]:
        return shop.command(*scenario.profile_of(shop), "-o", str(place / "p.npz"))

    def result(place: Path) -> Any:
        return [load_profile(place / "p.npz").about["digest"], sorted(scenario.contents_of(place))]

    return _killed(shop, "profile", command, result, kills)


def _killed(
    shop: Shop,
    name: str,
    command: Callable[[Path], list[str]],
    result: Callable[[Path], Any],
    kills: int,
) -> dict[str, Any]:
    """Kill a command at random moments once it is at work, let it finish, and compare.

    One that is done before its kill is compared, and another one is begun.
    """
    place = shop.place(f"kill-{name}-{time.time_ns()}")
    alone, killed = shop.place(f"{place.name}/alone"), shop.place(f"{place.name}/killed")
    log, rng, at_work, lost = place / "log", np.random.default_rng(0), 0, 0
    before, child = _state(alone), shop.begin(command(alone), log)
    _until_at_work(child, alone, before)
    start = time.monotonic()
    child.wait()
    took, wanted = time.monotonic() - start, scenario.readable(partial(result, alone))
    for number in range(kills):
        before, child = _state(killed), shop.begin(command(killed), log)
        _until_at_work(child, killed, before)
        time.sleep(rng.uniform(0.0, took))
        if child.poll() is None:
            at_work += 1
            child.send_signal(signal.SIGKILL)
            child.wait()
        else:
            lost += scenario.readable(partial(result, killed)) != wanted
            killed = shop.place(f"{place.name}/killed-{number}")
    code, _ = shop.run(command(killed), log)
    lost += code != 0 or wanted is None or scenario.readable(partial(result, killed)) != wanted
    said = f"{at_work} of {kills} kills met it at work"
    return scenario.outcome(kills, lost, shop.heard(place), said)


def _until_at_work(child: subprocess.Popen[bytes], place: Path, before: State) -> None:
    """Wait for a child's first change to its files: before, it only loads what it is made of."""
    while child.poll() is None and _state(place) == before:
        time.sleep(_PAUSE)


def _state(place: Path) -> State:
    """Return when each file below a folder was last changed."""
    state = {}
    for path in place.rglob("*"):
        with suppress(FileNotFoundError):  # renamed since
            state[path] = path.stat().st_mtime_ns
    return state
