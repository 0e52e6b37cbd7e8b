"""``powermark greenlist``: the green ids after a context, to check other implementations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from powermark.errors import InvalidInput
from powermark.interfaces.cli import options

if TYPE_CHECKING:
    from powermark.watermark.spec import WatermarkSpec

EXAMPLES = """\
Examples:

  powermark greenlist --spec s.json --key k.key --context 5,77 --json

  powermark greenlist --scheme hf-lefthash --gamma .25 --vocab-size 50257 --context 262
"""


def greenlist_command(
    context: Annotated[str, typer.Option(help="Token ids of the context, oldest first: 5,77,1234")],
    spec: options.Spec = None,
    scheme: Annotated[
        str, typer.Option(help="Without a spec: pm1, or another tool's, as in `spec new`.")
    ] = "pm1",
    gamma: options.Gamma = None,
    vocab_size: options.TokenIds = None,
    key: options.Key = None,
    as_json: options.Json = False,
) -> None:
    """Print the ids that are green after a context, one a line.

    Schemes of other tools use their public hash key by default (see `key import`). With selfhash
    a token's colour depends on the token itself too: leave it out of the context.
    """
    from powermark.watermark.watermark import Watermark

    try:
        ids = [int(token) for token in context.split(",")] if context else []
    except ValueError:
        raise InvalidInput(
            f"--context must be token ids like 5,77,1234; got {context!r}."
        ) from None
    made = _spec(spec, scheme, gamma, vocab_size, len(ids))
    if len(ids) < made.context_width:
        raise InvalidInput(f"--context must have {made.context_width} ids; got {len(ids)}.")
    mark = Watermark.load(made, key)
    context_ids = ids[len(ids) - made.context_width :]
    mask = mark.scheme.green_masks([context_ids])[0]
    green = mask.nonzero()[0].tolist()
    if as_json:
        answer = {
            "scheme": made.scheme,
            "key_fingerprint": mark.fingerprint,
            "gamma": made.gamma,
            "vocab_size": made.vocab_size,
            "context": context_ids,
            "green": green,
        }
        print(json.dumps(answer))
    else:
        print("\n".join(str(token) for token in green))


def _spec(
    path: Path | None, scheme: str, gamma: float | None, vocab_size: int | None, width: int
) -> WatermarkSpec:
    from powermark.watermark.spec import WatermarkSpec

    if path is not None:
        return WatermarkSpec.load(path)
    if gamma is None or vocab_size is None:
        raise InvalidInput("give --spec, or --gamma and --vocab-size.")
    return WatermarkSpec(
        scheme=scheme, gamma=gamma, delta=0.0, context_width=width, vocab_size=vocab_size
    )
