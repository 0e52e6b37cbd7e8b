"""What the proof has found so far: one JSON file for each piece of it, there whole or not at all.

A proof that was killed goes on where it stopped. A piece that was found with other settings is
found anew. One that was found at another commit is kept, and says so: hours of work are not thrown
away for a comma.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from powermark.files import make_folder, write_file


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the work: ``work(**settings)`` gives what is kept under the name."""

    name: str
    work: Callable[..., Any]
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of a piece."""

    name: str
    settings: dict[str, Any]
    seconds: float
    found: Any
    commit: str = ""


class Ledger:
    """A folder of entries, one folder for each part of the proof, and the commit that adds some."""

    def __init__(self, folder: Path, commit: str = "") -> None:
        self._folder, self._commit = folder, commit

    def run(self, part: str, pieces: Sequence[Piece], workers: int = 1) -> list[Entry]:
        """Do what is not done yet, keep each piece as it comes, and return all in order.

        What an earlier proof of other pieces left is removed. Where a piece fails, those that were
        begun are still kept before its error is raised.
        """
        names = {piece.name for piece in pieces}
        for path in make_folder(self._folder / part).glob("*.json"):
            if path.stem not in names:
                path.unlink()
        wanting = [piece for piece in pieces if self._kept(part, piece) is None]
        begun = time.monotonic()
        for done, entry in enumerate(_done(wanting, workers), 1):
            content = json.dumps({**asdict(entry), "commit": self._commit}, allow_nan=False)
            write_file(self.path(part, entry.name), content.encode())
            left = (time.monotonic() - begun) / done * (len(wanting) - done) / 60
            number = len(pieces) - len(wanting) + done
            say(f"{part}: {number} of {len(pieces)}, {entry.name}, about {left:.0f} min left")
        found = [self._kept(part, piece) for piece in pieces]
        return [entry for entry in found if entry is not None]

    def entries(self, part: str) -> list[Entry]:
        """Return all that is kept of a part, by name."""
        paths = sorted((self._folder / part).glob("*.json"))
        return [entry for entry in map(_read, paths) if entry is not None]

    def _kept(self, part: str, piece: Piece) -> Entry | None:
        entry = _read(self.path(part, piece.name))
        return entry if entry is not None and entry.settings == piece.settings else None

    def path(self, part: str, name: str) -> Path:
        """Return where a piece is kept."""
        return self._folder / part / f"{name}.json"


def say(text: str) -> None:
    """Tell how it goes."""
    sys.stderr.write(f"proof: {text}\n")


def _read(path: Path) -> Entry | None:
    try:
        return Entry(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _done(pieces: Sequence[Piece], workers: int) -> Iterator[Entry]:
    if workers < 2 or len(pieces) < 2:
        yield from map(_timed, pieces)
        return
    failed: BaseException | None = None
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(_timed, piece) for piece in pieces}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                if error := future.exception():
                    failed = failed or error
                else:
                    yield future.result()
            if failed:
                waiting = {future for future in waiting if not future.cancel()}
    if failed:
        raise failed


def _timed(piece: Piece) -> Entry:
    start = time.perf_counter()
    found = piece.work(**piece.settings)
    return Entry(piece.name, piece.settings, round(time.perf_counter() - start, 3), found)
