"""Reference values, read once; each file says where it comes from."""

import csv
from pathlib import Path


def rows(name: str) -> list[dict[str, float]]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    table = csv.DictReader(line for line in text if not line.startswith("#"))
    return [{key: float(value) for key, value in row.items()} for row in table]
