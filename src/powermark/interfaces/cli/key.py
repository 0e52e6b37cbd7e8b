"""``powermark key``: make a secret key, name a key without showing it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Make secret keys and tell them apart.", no_args_is_help=True, rich_markup_mode=None
)
KeyFile = Annotated[
    Path | None, typer.Argument(help="Key file; the variable POWERMARK_KEY if left out.")
]


@app.command("new")
def new_command(
    path: Annotated[Path, typer.Argument(help="File to make; must not exist.")],
) -> None:
    """Write a new key to a file that only you can read, and print its fingerprint."""
    from powermark.watermark.keys import new_key

    print(new_key(path).fingerprint)


@app.command("fingerprint")
def fingerprint_command(path: KeyFile = None) -> None:
    """Print the fingerprint of a key, which may be shown to anybody."""
    from powermark.watermark.keys import load_key

    print(load_key(path).fingerprint)
