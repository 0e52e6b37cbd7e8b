"""Reading a plan's JSON, and rows as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from powermark.errors import FileProblem
from powermark.files import read_file

_LARGEST = 2**24  # bytes of a plan


def read_plan(path: Path) -> dict[str, float]:
    """Return gamma, delta, n_tokens and alpha from what ``powermark plan --json`` printed."""
    hint = "make it with `powermark plan ... --json > plan.json`"
    try:
        found = json.loads(read_file(path, _LARGEST).decode())
    except FileProblem:
        raise
    except OSError as error:
        raise FileProblem(f"cannot read {str(path)!r}: {error.strerror}.", hint=hint) from None
    except (ValueError, RecursionError):
        raise FileProblem(f"{str(path)!r} is not JSON.", hint=hint) from None
    if not isinstance(found, dict):
        raise FileProblem(f"{str(path)!r} must be a plan; got a {type(found).__name__}.", hint=hint)
    wanted = ("gamma", "delta", "n_tokens", "alpha")
    for name in wanted:
        if type(found.get(name)) not in (int, float):
            raise FileProblem(
                f"{name} in {str(path)!r} must be a number; got {found.get(name)!r}.", hint=hint
            )
    return {name: found[name] for name in wanted}


def csv_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as CSV, floats with twelve significant digits; None is an empty cell."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return stream.getvalue().encode()


def _cell(value: Any) -> Any:
    return f"{value:.12g}" if isinstance(value, float) else value
