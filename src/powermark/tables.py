"""Rows of words as plain text, in columns."""

from __future__ import annotations

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], sides: str = "<><") -> str:
    """Align columns, each to the side that ``sides`` has for it; its last one serves the rest.

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
