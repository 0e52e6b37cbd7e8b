"""Everything powermark raises on purpose.

    PowermarkError
    ├── InvalidInput    a value lies outside its domain
    ├── Infeasible      the request is well formed, but no design can meet it
    ├── FileProblem     a file is missing, unreadable, malformed or cannot be written
    └── MissingExtra    an optional dependency is not installed

Each message is one sentence: what was wrong and which bound it broke. Advice, where there is any,
travels as a note (PEP 678): a traceback ends in it, and the command line prints it as a hint.
"""

from __future__ import annotations


class PowermarkError(Exception):
    """Base of all errors below; catch it to catch them all."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint is not None:
            self.add_note(f"Hint: {hint}")


class InvalidInput(PowermarkError, ValueError):
    """A value lies outside its domain, or arguments contradict one another."""


class Infeasible(PowermarkError, ValueError):
    """No design can meet the request; the message names the bound that was broken."""


class FileProblem(PowermarkError, OSError):
    """A file is missing, unreadable, malformed or cannot be written."""


class MissingExtra(PowermarkError, ImportError):
    """An optional dependency is needed for this call and is not installed."""
