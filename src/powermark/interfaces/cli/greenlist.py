"""``powermark greenlist``: the green ids of a context, for others to check their code against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from powermark.errors import InvalidInput

EXAMPLES = """\
Examples:

  powermark greenlist --key k.key --gamma .25 --vocab-size 50257 --context 5,77

  powermark greenlist --key k.key --gamma .5 --vocab-size 32000 --context 262 --json
"""


def greenlist_command(
    gamma: Annotated[float, typer.Option(help="Green share of the vocabulary.")],
    vocab_size: Annotated[int, typer.Option(help="Number of token ids.")],
    context: Annotated[str, typer.Option(help="The token ids before, oldest first: 5,77,1234")],
    key: Annotated[
        Path | None, typer.Option(help="Key file; the variable POWERMARK_KEY if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the ids that are green after a context under scheme pm1, one a line."""
    from powermark.watermark.greenlist import green_mask
    from powermark.watermark.keys import load_key

    try:
        ids = [int(token) for token in context.split(",")] if context else []
    except ValueError:
        raise InvalidInput(
            f"--context must be token ids like 5,77,1234; got {context!r}."
        ) from None
    secret = load_key(key)
    mask = green_mask(secret, [ids], gamma=gamma, vocab_size=vocab_size)[0]
    green = mask.nonzero()[0].tolist()
    if as_json:
        answer = {
            "scheme": "pm1",
            "key_fingerprint": secret.fingerprint,
            "gamma": gamma,
            "vocab_size": vocab_size,
            "context": ids,
            "green": green,
        }
        print(json.dumps(answer))
    else:
        print("\n".join(str(token) for token in green))
