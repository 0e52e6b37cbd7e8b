"""Large answers as JSON, encoded in parts: one long call would block the other threads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_PART = 1_000  # items of a list


def rendered(found: Mapping[str, Any]) -> bytes:
    """Return a JSON object as FastAPI writes it."""
    fields = (
        f"{_json(name)}:{_list(value) if isinstance(value, list) else _json(value)}"
        for name, value in found.items()
    )
    return f"{{{','.join(fields)}}}".encode()


def _list(items: list[Any]) -> str:
    parts = (_json(items[i : i + _PART])[1:-1] for i in range(0, len(items), _PART))
    return f"[{','.join(parts)}]"


def _json(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
