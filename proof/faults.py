"""(c) Faults: what is killed, starved of room, lied to about the time or damaged loses nothing.

Every scenario is compared with the same work left alone. Something is **lost** where the two end
with another result, or where what is damaged is taken for whole; and whatever goes wrong must be
said in a sentence, not a traceback.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from powermark.calibration.profile_file import load_profile
from proof import damage, disk
from proof.ledger import Entry, Ledger, Piece
from proof.scale import Scale
from proof.shop import Shop, words

_CLIENTS = 8
_PATIENCE = 120.0  # seconds in which a server must be there again
_PAUSE = 0.05


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
            Piece("kill-server", kill_server, kills),
            *(Piece(f"full-disk-{what}", disk.full, {**shop, "what": what}) for what in disk.FULL),
            Piece("full-output", disk.full_output, shop),
            Piece("read-only-cache", disk.read_only_cache, shop),
            Piece("clock-jumps", disk.clock_jumps, shop),
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
        options = ["--scale", "smoke", "--data", str(shop.data), "--model", str(shop.model)]
        folders = ["--work", str(place / "work"), "-o", str(place / "out")]
        return shop.command("reproduce", "table-cells", *options, *folders)

    return _killed(shop, "runner", command, _contents, kills)


def kill_scan(*, folder: str, kills: int) -> dict[str, Any]:
    """Kill a scan."""
    shop = Shop(Path(folder))

    def command(place: Path) -> list[str]:
        return shop.command(*disk.scan_of(shop), "-o", str(place / "out"))

    return _killed(shop, "scan", command, _contents, kills)


def kill_profile(*, folder: str, kills: int) -> dict[str, Any]:
    """Kill the recording of a profile."""
    shop = Shop(Path(folder))

    def command(place: Path) -> list[str]:
        return shop.command(*disk.profile_of(shop), "-o", str(place / "p.npz"))

    def result(place: Path) -> Any:
        return [load_profile(place / "p.npz").about["digest"], [p.name for p in place.iterdir()]]

    return _killed(shop, "profile", command, result, kills)


def _killed(
    shop: Shop,
    name: str,
    command: Callable[[Path], list[str]],
    result: Callable[[Path], Any],
    kills: int,
) -> dict[str, Any]:
    """Kill a command at random moments, let it finish, and compare.

    One that is done before its kill is compared, and another one is begun.
    """
    place = shop.place(f"kill-{name}-{time.time_ns()}")
    alone, killed = shop.place(f"{place.name}/alone"), shop.place(f"{place.name}/killed")
    log, rng, at_work, lost = place / "log", np.random.default_rng(0), 0, 0
    start = time.monotonic()
    shop.run(command(alone), log)
    took, wanted = time.monotonic() - start, result(alone)
    for number in range(kills):
        child = shop.begin(command(killed), log)
        time.sleep(rng.uniform(0.0, took))
        if child.poll() is None:
            at_work += 1
            child.send_signal(signal.SIGKILL)
            child.wait()
        else:
            lost += result(killed) != wanted
            killed = shop.place(f"{place.name}/killed-{number}")
    code, said = shop.run(command(killed), log)
    lost += code != 0 or result(killed) != wanted
    return _outcome(kills, lost, said if lost else f"{at_work} of {kills} kills met it at work")


def _contents(place: Path) -> dict[str, bytes]:
    """Return all files of a folder that are not hidden."""
    files = (path for path in place.rglob("*") if path.is_file() and path.name[0] != ".")
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def kill_server(*, folder: str, kills: int) -> dict[str, Any]:
    """Kill a server under load and start it again; every question must be answered, and rightly."""
    shop = Shop(Path(folder))
    place = shop.place(f"kill-server-{time.time_ns()}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    rng = np.random.default_rng(0)
    texts = [words(rng.integers(2, 200, n).tolist()) for n in rng.integers(20, 300, 50)]
    command = shop.command(
        "serve", str(shop.shelf), "--port", str(port), "--tokenizer", str(shop.model)
    )
    answers: list[tuple[int, bytes]] = []
    ended = threading.Event()

    def client(number: int) -> None:
        while not ended.is_set():
            number = (number + 1) % len(texts)
            answers.append((number, _ask(port, texts[number])))

    server = shop.begin(command, place / "log")
    wanted = [_ask(port, text) for text in texts]
    clients = [threading.Thread(target=client, args=(number,)) for number in range(_CLIENTS)]
    for thread in clients:
        thread.start()
    for _ in range(kills):
        time.sleep(rng.uniform(0.0, 2.0))
        server.send_signal(signal.SIGKILL)
        server.wait()
        server = shop.begin(command, place / "log")
        _ask(port, texts[0])
    ended.set()
    for thread in clients:
        thread.join()
    server.terminate()
    server.wait()
    lost = sum(answer != wanted[number] or not answer for number, answer in answers)
    (place / "answers").write_bytes(b"\n".join(wanted))
    return _outcome(kills, lost, f"{len(answers)} questions under load, all answered in the end")


def _ask(port: int, text: str) -> bytes:
    """Ask until there is an answer; nothing if there is none in time."""
    end = time.monotonic() + _PATIENCE
    body = json.dumps({"spec": "canary", "text": text}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/detect", body, {"content-type": "application/json"}
    )
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                return bytes(answer.read())
        except (OSError, HTTPException):
            time.sleep(_PAUSE)
    return b""


def _outcome(trials: int, lost: int, said: str) -> dict[str, Any]:
    return disk.outcome(trials, lost, said)
