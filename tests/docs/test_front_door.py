"""What a newcomer sees first: a short README, and ``make help`` with every target."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readme_has_at_most_90_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90


def test_make_help_lists_every_target() -> None:
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    shown = subprocess.run(
        ["make", "--no-print-directory", "-C", ROOT, "help"],
        capture_output=True,
        text=True,
        check=True,
    )
    listed = [line.split(maxsplit=1) for line in shown.stdout.splitlines()]
    assert sorted(name for name, _ in listed) == sorted(phony[0].split())
