"""``powermark key``: make a secret key, import another tool's, print a fingerprint."""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

from powermark.errors import InvalidInput

app = typer.Typer(
    help="Make, import and identify secret keys.", no_args_is_help=True, rich_markup_mode=None
)
KeyFile = Annotated[
    Path | None, typer.Argument(help="Key file; by default the variable POWERMARK_KEY.")
]


@app.command("new")
def new_command(
    path: Annotated[Path, typer.Argument(help="New file; must not exist.")],
) -> None:
    """Write a new key to a file that only you can read, and print its fingerprint."""
    from powermark.watermark.keys import new_key

    print(new_key(path).fingerprint)


@app.command("import")
def import_command(
    path: Annotated[Path, typer.Argument(help="New file; must not exist.")],
) -> None:
    """Save another tool's hash key, read from stdin, to a file that only you can read."""
    from powermark.watermark.keys import save_hash_key

    typed = sys.stdin.isatty()
    try:
        text = getpass("hash key (a whole number): ") if typed else sys.stdin.readline()
        value = int(text)
    except ValueError:
        raise InvalidInput("the hash key on stdin must be a whole number.") from None
    print(save_hash_key(path, value))


@app.command("fingerprint")
def fingerprint_command(path: KeyFile = None) -> None:
    """Print the fingerprint of a key; it is not secret."""
    from powermark.watermark.keys import load_key

    print(load_key(path).fingerprint)
