"""``powermark key``: make a secret key, keep another tool's, name one without showing it."""

from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

from powermark.errors import InvalidInput

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


@app.command("import")
def import_command(
    path: Annotated[Path, typer.Argument(help="File to make; must not exist.")],
) -> None:
    """Keep another tool's hash key, read from stdin, in a file that only you can read."""
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
    """Print the fingerprint of a key, which may be shown to anybody."""
    from powermark.watermark.keys import load_key

    print(load_key(path).fingerprint)
