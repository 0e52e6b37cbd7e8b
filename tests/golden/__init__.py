"""Reference values, read once; each file says where it comes from."""

import csv
from pathlib import Path


def pairs(name: str) -> list[tuple[str, ...]]:
    """The rows of a file below its header, as text."""
    return [tuple(row) for row in csv.reader(_lines(name))][1:]


def rows(name: str) -> list[dict[str, float]]:
    """The rows of a file by column, as numbers."""
    return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(_lines(name))]


def _lines(name: str) -> list[str]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]
