"""Runs the code blocks of a page, from the top, and compares what they print with what is written.

A *console* block has commands after ``$``, each followed by its output; without any ``$`` every
line is a command, and what it prints is not shown. *pycon* is a doctest, *python* is run; names
live to the end of the page. Other blocks are data. Commands of a page share a folder and a key.

Processors differ in the last bits of a model's logits, and then in its texts. Of a block below
the line ``<!-- varies -->`` commands and verdicts are compared, and nothing else. A plan's numbers
differ in their last bits too, which are not shown but go into the digest of its spec: digests are
not compared.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args
from unittest import mock

from powermark.detection.detection import Verdict

ROOT = Path(__file__).parents[1]
_DIGEST = re.compile(r"digest [0-9a-f]{32}")
_BLOCK = re.compile(r"^(?P<varies><!-- varies -->\n)?^( *)```(\w+)\n(.*?)^\2```$", re.M | re.S)


class Block(NamedTuple):
    """A fenced block: its language, its lines, and where they stand in the page."""

    language: str
    content: str
    start: int
    varies: bool


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page in order."""
    return [
        Block(found[3], found[4], found.start(4), found["varies"] is not None)
        for found in _BLOCK.finditer(page)
    ]


def run_page(page: str, folder: Path) -> str:
    """Run every block and return the page as it should be."""
    names: dict[str, Any] = {}
    pieces, end = [], 0
    with contextlib.chdir(folder), _one_model(), _known_keys():
        for block in blocks_of(page):
            content = _run(block, names)
            pieces += [page[end : block.start], content]
            end = block.start + len(block.content)
    return "".join([*pieces, page[end:]])


def _run(block: Block, names: dict[str, Any]) -> str:
    if block.language == "console":
        return _console(block.content)
    if block.language == "pycon":
        return _doctest(block.content, names)
    if block.language == "python":
        exec(compile(block.content, "a block", "exec"), names)
    return block.content


def _console(content: str) -> str:
    if not content.lstrip().startswith("$ "):
        for line in content.splitlines():
            command(line)
        return content
    said = []
    for line in content.splitlines():
        indent, found, text = line.partition("$ ")
        if found and not indent.strip():
            said.append(line)
            said += [(indent + shown).rstrip() for shown in command(text).splitlines()]
    return "\n".join(said) + "\n"


def command(line: str) -> str:
    """Run a line and return what it prints; what would take over the machine is only looked at."""
    words = shlex.split(line, comments=True)
    if words[0] == "make":  # this is run by one of its targets
        return _shell(["make", "-n", "-C", str(ROOT), words[1]]) and ""
    if words[:2] == ["pip", "install"]:  # `make release-check` does
        _check_extras(words[2])
        return ""
    output = words[-1] if words[-2:-1] == [">"] else None
    words = words[:-2] if output else words
    shown, told = _powermark(words[1:]) if words[0] == "powermark" else (_shell(words), "")
    if output:
        Path(output).write_text(shown, encoding="utf-8")
        return told
    return shown + told


def _powermark(arguments: list[str]) -> tuple[str, str]:
    from powermark.interfaces.cli import main

    shown, told = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict("os.environ", {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}),
        mock.patch("powermark.interfaces.cli.terminal.LINE_SECONDS", 1e6),  # as on a fast machine
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(told),
        contextlib.suppress(SystemExit),
    ):
        main(arguments)
    return shown.getvalue(), told.getvalue()


def _shell(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _check_extras(target: str) -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in re.findall(r"[\w-]+", target.partition("[")[2]):
        if extra not in project["optional-dependencies"]:
            raise ValueError(f"there is no extra {extra!r}.")


def _doctest(content: str, names: dict[str, Any]) -> str:
    said = []
    for example in doctest.DocTestParser().get_examples(content):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.source, "a block", "single"), names)
        source = example.source.splitlines()
        said += [f">>> {source[0]}", *(f"... {line}" for line in source[1:])]
        said += printed.getvalue().splitlines()
    return "\n".join(said) + ("\n\n" if content.endswith("\n\n") else "\n")


@contextlib.contextmanager
def _one_model() -> Iterator[None]:
    """Load each model once, whoever asks for it."""
    from functools import cache

    from powermark import models
    from powermark.models import language_model

    load: Callable[..., Any] = cache(models.load_model)
    with (
        mock.patch.object(models, "load_model", load),
        mock.patch.object(language_model, "load_model", load),
    ):
        yield


@contextlib.contextmanager
def _known_keys() -> Iterator[None]:
    """Let `key new` make the same keys each time, so that texts stay the same."""
    made = iter(bytes(range(first, first + 32)) for first in range(100))
    with mock.patch("secrets.token_bytes", side_effect=made):
        yield


def differences(written: str, found: str) -> list[str]:
    """Return the lines in which a page differs from what its blocks print."""
    wrong: list[str] = []
    for old, new in zip(blocks_of(written), blocks_of(found), strict=True):
        have, want = (_DIGEST.sub("digest", b.content).splitlines() for b in (old, new))
        if old.varies:
            have, want = (
                [line for line in part if line.startswith("$ ") or line in get_args(Verdict)]
                for part in (have, want)
            )
        if have != want:
            wrong += difflib.unified_diff(have, want, "written", "printed", lineterm="")
    return wrong


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(name).resolve()
            page.write_text(
                run_page(page.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8"
            )
