"""Run the proof, or parts of it, and write ``docs/proof.md``.

``python -m proof [PART ...] --data data --work work/proof``; parts are size, promise,
faults, fuzz, concurrency and secrets. What the work folder holds is not done again. A smaller
scale than the full one has a ledger of its own and writes its page to the work folder.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from powermark.errors import FileProblem, PowermarkError
from powermark.models.catalog import DEFAULT_MODEL
from proof.about import about, commit_here
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
    parser.add_argument("--docs", type=Path, help="for the page; docs, or --work unless full")
    parser.add_argument("--scale", choices=[*SCALES], default="full")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="of the promise")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = sys.argv[1:] if arguments is None else arguments
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    try:
        broken = _run(given, arguments)
    except PowermarkError as error:
        say(f"{error} {error.hint or ''}")
        return 2
    for text in broken:
        say(f"BROKEN {text}")
    return int(bool(broken))


def _run(given: argparse.Namespace, arguments: list[str]) -> list[str]:
    from proof import canary, concurrency, faults, fuzz, promise, size

    scale, work, commit = SCALES[given.scale], given.work.resolve(), commit_here()
    ledger = Ledger(work / f"ledger-{given.scale}", commit)
    data, workers = given.data.resolve(), given.workers
    folder = work / f"shop-{scale.documents}"
    docs = given.docs or (Path("docs") if given.scale == "full" else work)
    parts: dict[str, Callable[[], object]] = {
        "size": lambda: size.prove(ledger, scale, data, workers),
        "promise": lambda: promise.prove(ledger, scale, data, work, given.model),
        "faults": lambda: faults.prove(ledger, scale, folder),
        "fuzz": lambda: fuzz.prove(ledger, scale, folder, workers),
        "concurrency": lambda: concurrency.prove(ledger, scale, folder),
        "secrets": lambda: canary.prove(ledger, work, folder),
    }
    wanted = given.parts or list(PARTS)
    if {"size", "promise"} & set(wanted):
        _check_data(given.data, size.DATASETS)
    if set(wanted) - {"size", "promise"}:
        open_shop(folder, scale.documents)
    for part in parts:
        if part in wanted:
            start = time.monotonic()
            parts[part]()
            say(f"{part} is done, {(time.monotonic() - start) / 60:.1f} min")
    return write_page(ledger, docs, about(arguments, given.scale, commit))


def _check_data(data: Path, names: Sequence[str]) -> None:
    """Refuse a folder without human text before hours are spent on the rest."""
    missing = [f"{name}.jsonl" for name in names if not (data / f"{name}.jsonl").is_file()]
    if missing:
        raise FileProblem(
            f"no {', '.join(missing)} in {str(data)!r}.",
            hint='give a folder of JSON lines with a "text" each: --data FOLDER.',
        )


if __name__ == "__main__":
    sys.exit(main())
