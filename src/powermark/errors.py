"""Everything powermark raises on purpose.

    PowermarkError
    ├── InvalidInput    a value lies outside its domain
    ├── Infeasible      the request is well formed, but no design can meet it
    ├── SpecMismatch    a watermark spec does not fit the tokenizer, the model or the key
    ├── FileProblem     a file is missing, unreadable, malformed or cannot be written
    │   ├── SpecCorrupt     a spec is damaged, or was changed after it was written
    │   └── SpecTooNew      a spec was written by a newer powermark
    ├── EngineProblem   an inference engine does not give what marking needs
    └── MissingExtra    an optional dependency is not installed

Each message is one sentence: what was wrong and which bound it broke. Advice, if any, is a note
(PEP 678): tracebacks end with it, and the command line prints it as a hint.
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


class SpecCorrupt(FileProblem):
    """A watermark spec is damaged: invalid JSON, wrong fields, or a digest that does not match."""


class SpecTooNew(FileProblem):
    """A watermark spec has a version that this powermark cannot read."""


class SpecMismatch(PowermarkError, ValueError):
    """A watermark spec was made for another tokenizer, vocabulary or key."""


class EngineProblem(PowermarkError, RuntimeError):
    """An inference engine or server does not give what marking or its proof needs."""


class MissingExtra(PowermarkError, ImportError):
    """An optional dependency is needed for this call and is not installed."""
