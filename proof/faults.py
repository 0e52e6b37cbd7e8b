"""(c) Faults: what is killed, starved of room, lied to about the time or damaged loses nothing.

Every scenario is compared with the same work left alone. Something is **lost** where the two end
with another result, or where what is damaged is taken for whole; and whatever goes wrong must be
said in a sentence, not a traceback.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from powermark.calibration.profile_file import load_profile
from proof import damage, disk, scenario, servers
from proof.ledger import Entry, Ledger, Piece
from proof.scale import Scale
from proof.shop import Shop

State = dict[Path, int]
_PAUSE = 0.02


def prove(ledger: Ledger, scale: Scale, folder: Path) -> list[Entry]:
    """Do the part, one scenario after the other: each has the machine for itself."""
    shop, kills = {"folder": str(folder)}, {"folder": str(folder), "kills": scale.kills}
    damages = {"folder": str(folder), "times": 10 * scale.kills}
    return ledger.run(
        "faults",
        [
            Piece("kill-runner", kill_runner, kills),
            Piece("kill-scan", kill_scan, kills),
            Piece("kill-profile", kill_profile, kills),
            Piece("kill-server", servers.kill, kills),
            *(Piece(f"full-disk-{what}", disk.full, {**shop, "what": what}) for what in disk.FULL),
            Piece("full-output", disk.full_output, shop),
            Piece("read-only-cache", disk.read_only_cache, shop),
            Piece("clock-jumps", disk.clock_jumps, shop),
            Piece("clock-jumps-server", servers.clock_jumps, shop),
            *(
                Piece(f"damaged-{what}", damage.tried, {**damages, "what": what})
                for what in damage.KINDS
            ),
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
