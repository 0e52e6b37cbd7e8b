"""What cog calls to put real output into the docs: `make docs` writes, `make check` verifies."""

from __future__ import annotations

import os
import shlex
import subprocess

import cog


def run(command: str) -> str:
    """Return what a shell line prints, on a terminal of 80 columns without colour."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    shown = subprocess.run(
        shlex.split(command), capture_output=True, text=True, check=False, env=environment
    )
    return (shown.stdout + shown.stderr).rstrip()


def show(*commands: str) -> None:
    """Write commands and what they print as one code block."""
    cog.outl("```console")
    for command in commands:
        cog.outl(f"$ {command}")
        cog.outl(run(command))
    cog.outl("```")
