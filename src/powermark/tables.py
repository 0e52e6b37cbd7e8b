"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], sides: str = "<><") -> str:
    """Align columns: ``sides`` has ``<`` or ``>`` for each, and its last one for the rest.

    >>> print(table([("kl", "0.05", "nats"), ("size", "0.9", "")]))
    kl    0.05  nats
    size   0.9
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    columns = list(zip(sides.ljust(len(widths), sides[-1]), widths, strict=True))
    lines = (
        "  ".join(f"{cell:{side}{width}}" for cell, (side, width) in zip(row, columns, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
