"""Run the proof, or parts of it, and write ``docs/proof.md``.

``python -m proof [PART ...] --data data --work work/proof``; parts are size, promise,
faults, fuzz, concurrency and secrets. What the work folder holds is not done again.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

from powermark.errors import PowermarkError
from powermark.models.catalog import DEFAULT_MODEL
from powermark.version import __version__
from proof.ledger import Ledger, say
from proof.page import PARTS, write_page
from proof.scale import SCALES
from proof.shop import open_shop


def main(arguments: list[str] | None = None) -> int:
    """Do what is asked; return 1 where something is broken."""
    parser = argparse.ArgumentParser(prog="python -m proof", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("work/proof"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--scale", choices=[*SCALES], default="full")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="of the promise")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    try:
        broken = _run(given)
    except PowermarkError as error:
        say(f"{error} {error.hint or ''}")
        return 2
    for text in broken:
        say(f"BROKEN {text}")
    return int(bool(broken))


def _run(given: argparse.Namespace) -> list[str]:
    from proof import canary, concurrency, faults, fuzz, promise, size

    scale, work = SCALES[given.scale], given.work.resolve()
    ledger, data, workers = Ledger(work / "ledger"), given.data.resolve(), given.workers
    folder = work / "shop"
    parts: dict[str, Callable[[], object]] = {
        "size": lambda: size.prove(ledger, scale, data, workers),
        "promise": lambda: promise.prove(ledger, scale, data, work, given.model),
        "faults": lambda: faults.prove(ledger, scale, folder),
        "fuzz": lambda: fuzz.prove(ledger, scale, folder, workers),
        "concurrency": lambda: concurrency.prove(ledger, scale, folder),
        "secrets": lambda: canary.prove(ledger, work, folder),
    }
    wanted = given.parts or list(PARTS)
    if set(wanted) - {"size", "promise"}:
        open_shop(folder, scale.documents)
    for part in parts:
        if part in wanted:
            start = time.monotonic()
            parts[part]()
            say(f"{part} is done, {(time.monotonic() - start) / 60:.1f} min")
    about = {
        "version": f"powermark {__version__}, Python {platform.python_version()}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "scale": given.scale,
    }
    return write_page(ledger, given.docs, about)


if __name__ == "__main__":
    sys.exit(main())
