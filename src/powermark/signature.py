"""Signatures: one line that says how a number was made.

Two equal signatures on equal input give equal output. The line is ``powermark|key:value|...|v:X``;
parts that are None are omitted.
"""

from __future__ import annotations

from powermark.version import __version__


def signature(kind: str, **parts: str | float | None) -> str:
    """Join ``parts`` into a signature line; floats are printed to ten significant digits.

    Examples
    --------
    >>> signature("plan", n=50, a=0.05, pi=None).rpartition("|")[0]
    'powermark|plan|n:50|a:0.05'
    """
    shown = [
        f"{key}:{value}" if isinstance(value, str) else f"{key}:{value:.10g}"
        for key, value in parts.items()
        if value is not None
    ]
    return "|".join(["powermark", kind, *shown, f"v:{__version__}"])
