"""What scenarios share: commands to run, a clock that jumps, and what is kept of what happened."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from powermark.errors import PowermarkError
from proof.shop import Shop

T = TypeVar("T")
_LOGGED = re.compile(r'"event":\s*"error"')  # as powermark.interfaces.server.telemetry writes it
_TELLING = re.compile(
    rf"powermark: (?!http)|[\w.]*(Error|Exception|Interrupt)\b|.*{_LOGGED.pattern}"
)
JUMPS = """
import random, time
jump, now, now_ns = random.Random(0).choice, time.time, time.time_ns
time.time = lambda: now() + jump((-1e9, 0.0, 1e9))
time.time_ns = lambda: now_ns() + jump((-10**18, 0, 10**18))
"""


def outcome(trials: int, lost: int, heard: str, said: str) -> dict[str, Any]:
    """Return what is kept of a scenario: tracebacks in all that was heard, and ``said``.

    A server writes no traceback but an error's kind and place, on a line of its log: it counts as
    one. Where something went wrong the last words of what was heard take the place of ``said``.
    """
    tracebacks = heard.count("Traceback (most recent") + len(_LOGGED.findall(heard))
    said = last_words(heard, said) if lost or tracebacks else said
    shown = re.sub(r"'[^']*/", "'", said)[:300]
    return {"trials": trials, "lost": lost, "tracebacks": tracebacks, "said": shown}


def last_words(heard: str, otherwise: str = "nothing was said") -> str:
    """Return the last line that tells of an error."""
    telling = [line for line in heard.splitlines() if _TELLING.match(line)]
    return telling[-1] if telling else otherwise


def readable(result: Callable[[], T]) -> T | None:
    """Return a result; None where there is none that can be read."""
    try:
        return result()
    except (PowermarkError, OSError, ValueError):
        return None


def contents_of(place: Path) -> dict[str, bytes]:
    """Return all files of a folder that are not hidden."""
    files = (path for path in place.rglob("*") if path.is_file() and path.name[0] != ".")
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def profile_of(shop: Shop) -> list[str]:
    """Return the command that records a profile, without where to."""
    prompts = str(shop.data / "c4.jsonl")
    settings = ["--texts", "40", "--n-tokens", "30", "--batch", "2", "--json"]
    return ["profile", "--model", str(shop.model), "--prompts", prompts, *settings]


def scan_of(shop: Shop) -> list[str]:
    """Return the command that scans the corpus, without where to."""
    return ["scan", *shop.mark, "--field", "token_ids", str(shop.corpus), "--workers", "2"]


def cells_of(shop: Shop, place: Path) -> list[str]:
    """Return the command that runs the paper's experiments, without where their table goes."""
    options = ["--scale", "smoke", "--data", str(shop.data), "--model", str(shop.model)]
    return ["reproduce", "table-cells", *options, "--work", str(place / "work")]
