"""Where the numbers of a proof come from: version, commit, time, machine, command and seeds."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from powermark.version import __version__

_SEEDS = (
    "keys of size 0, 1, 2, ...; keys of promise the CRC-32 of a plan's name; blocks of fuzz 0, "
    "1000, 2000, ...; damage the length of the file; the small model and its corpus 1; the "
    "canary 11; texts, moments of kills and jumps of clocks 0; `powermark key new` has none"
)


def about(arguments: Sequence[str], scale: str, commit: str) -> dict[str, str]:
    """Return what the page says of the run that wrote it."""
    return {
        "version": f"powermark {__version__}, commit {commit}, Python {platform.python_version()}",
        "written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "command": f"`python -m proof {shlex.join(map(_name, arguments))}`".replace(" `", "`"),
        "scale": scale,
        "seeds": _SEEDS,
    }


def commit_here() -> str:
    """Return the commit of this code; a plus where sources were changed since."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        return commit + ("+" if _git("status", "--porcelain", "src", "proof") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    root = Path(__file__).parents[1]
    found = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, check=True, text=True
    )
    return found.stdout.strip()


def _name(argument: str) -> str:
    """Return an argument without the folders of one machine."""
    return Path(argument).name if argument.startswith("/") else argument
