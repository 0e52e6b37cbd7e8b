"""Prompts for code: functions of the Python standard library, up to the end of their docstrings."""

from __future__ import annotations

import ast
import random
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

from powermark.errors import FileProblem

_SKIPPED = {"test", "tests", "idle_test", "lib2to3", "site-packages", "dist-packages"}
_LONGEST = 1_200  # characters; longer docstrings are manuals
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_functions(folder: Path | None = None) -> list[str]:
    """Return functions without their bodies: each from ``def`` to the end of its docstring.

    Top-level functions and methods, in an order shuffled with a fixed seed; tests are left out.

    Parameters
    ----------
    folder
        Of Python sources; the standard library of the running interpreter by default.
    """
    folder = folder or Path(sysconfig.get_paths()["stdlib"])
    files = sorted(
        path
        for path in folder.rglob("*.py")
        if not _SKIPPED.intersection(path.relative_to(folder).parts)
    )
    found = dict.fromkeys(prompt for path in files for prompt in _prompts(path))  # without copies
    if not found:
        raise FileProblem(
            f"{str(folder)!r} has no Python functions with docstrings.",
            hint="use a Python that comes with the sources of its library, or a file of prompts.",
        )
    shuffled = [*found]
    random.Random(0).shuffle(shuffled)
    return shuffled


def _prompts(path: Path) -> Iterator[str]:
    """Yield the prompts of a file; nothing for files that this Python cannot parse."""
    try:
        content = path.read_text(encoding="utf-8")
        with warnings.catch_warnings(action="ignore"):  # of invalid escapes in old sources
            parsed = ast.parse(content)
    except (OSError, ValueError, SyntaxError):
        return
    lines = content.splitlines()
    for function in _functions(parsed):
        doc = function.body[0]
        if len(function.body) > 1 and ast.get_docstring(function) is not None:
            assert doc.end_lineno is not None
            prompt = dedent("\n".join(lines[function.lineno - 1 : doc.end_lineno]))
            if len(prompt) <= _LONGEST:
                yield prompt


def _functions(parsed: ast.Module) -> Iterator[_Function]:
    """Yield a module's functions and the methods of its classes."""
    for node in parsed.body:
        if isinstance(node, _Function):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from (each for each in node.body if isinstance(each, _Function))
