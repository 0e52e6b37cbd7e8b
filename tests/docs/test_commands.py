"""Every ``powermark`` line in the pages' console blocks names commands and options that exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import blocks
import pytest
from typer.main import get_command

from powermark.interfaces.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands_of(page: str) -> list[str]:
    """Return the commands of a page's console blocks that begin with powermark."""
    found = []
    for block in blocks.blocks_of(page):
        if block.language not in ("console", "sh", "bash", "shell"):
            continue
        shown = re.sub(r"\\\n\s*", " ", block.content)
        prompted = "$ " in shown
        for line in shown.splitlines():
            text = line.strip()
            if prompted and not text.startswith("$ "):
                continue  # what a command printed
            for part in re.split(r"\s(?:\||&&|;|>)\s", text.removeprefix("$ ")):
                if re.match(r"(?:[A-Z_]+=\S+ )*powermark\b(?! *=)", part.strip()):
                    found.append(part.strip())
    return found


def wrong(line: str) -> str | None:
    """Say what a command line has that does not exist."""
    words = shlex.split(line, comments=True)
    words = words[words.index("powermark") + 1 :]
    command: Any = get_command(app)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in command.commands:
            return f"no command {name!r}"
        command = command.commands[name]
    known = {"--help", "-h"}
    for parameter in command.params:
        known |= {*parameter.opts, *parameter.secondary_opts}
    for word in words:
        option = word.partition("=")[0]
        if re.match(r"--?[a-zA-Z]", option) and option not in known:
            return f"no option {option!r}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_exist(page: Path) -> None:
    lines = commands_of(page.read_text(encoding="utf-8"))
    assert {line: wrong(line) for line in lines if wrong(line)} == {}


def test_there_are_many() -> None:
    assert sum(len(commands_of(page.read_text(encoding="utf-8"))) for page in PAGES) > 60


def test_what_is_wrong_is_said() -> None:
    page = """
```console
$ echo x | powermark plan --n-tokens 50 \\
    --powre .9
powermark printed this
$ POWERMARK_KEY=x powermark key mend k.key  # nothing
```
"""
    typed, unknown = commands_of(page)
    assert wrong(typed) == "no option '--powre'"
    assert wrong(unknown) == "no command 'mend'"
    assert wrong("powermark plan --n-tokens 50 -o s.json --json") is None
    assert wrong("powermark plan --alpha=.05 --power -1") is None
