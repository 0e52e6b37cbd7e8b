"""``powermark spec``: show a watermark spec, or write one for an existing mark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from powermark.errors import InvalidInput
from powermark.interfaces.cli import options
from powermark.interfaces.cli.terminal import visible

app = typer.Typer(
    help="Show watermark specs, or write one by hand.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("show")
def show_command(
    path: Annotated[Path, typer.Argument(help="Spec file.")], as_json: options.Json = False
) -> None:
    """Check a spec and print its content."""
    from powermark.watermark.spec import WatermarkSpec

    spec = WatermarkSpec.load(path)
    if as_json:
        print(json.dumps(spec.to_dict(), indent=2, allow_nan=False))
        return
    place = spec.delta_place.replace("_", " ")
    bias = "bias" if spec.steering is None else "largest bias of the schedule"
    rows = [
        ("scheme", spec.scheme, ""),
        ("gamma", f"{spec.gamma:.6g}", "green share of the vocabulary"),
        ("delta", f"{spec.delta:.6g}", f"{bias} on green logits, {place}"),
        ("context_width", str(spec.context_width), "previous tokens that choose a green list"),
        ("vocab_size", str(spec.vocab_size), ""),
        ("tokenizer", spec.tokenizer_digest or "any", ""),
        ("key", spec.key_fingerprint or "any", ""),
        ("digest", spec.digest, "matches"),
    ]
    for name, value, remark in rows:
        print(f"{name:<14} {value}  {remark}".rstrip())
    print("chosen by hand" if spec.plan is None else visible(spec.plan.signature))


@app.command("new")
def new_command(
    path: Annotated[Path, typer.Argument(help="File to write.")],
    gamma: Annotated[float, typer.Option(help="Green share of the vocabulary.")],
    delta: Annotated[float, typer.Option(help="Bias added to green logits.")],
    scheme: Annotated[
        str, typer.Option(help="pm1, kgw-lefthash, kgw-minhash, kgw-selfhash, hf-lefthash, ...")
    ] = "pm1",
    model: options.Model = None,
    vocab_size: options.TokenIds = None,
    context_width: Annotated[
        int | None,
        typer.Option(help="Previous tokens that choose a list; the scheme's by default."),
    ] = None,
    delta_place: Annotated[
        str | None,
        typer.Option(help="before_temperature (as KGW's) or after_temperature (pm1, HF's)."),
    ] = None,
) -> None:
    """Write the spec of a mark without a plan, such as another tool's."""
    from powermark.signals.edits import CONTEXT_WIDTH
    from powermark.watermark.compat import COMPAT_SCHEMES
    from powermark.watermark.spec import WatermarkSpec

    if scheme.startswith("hf-") and vocab_size is None:
        raise InvalidInput(
            f"{scheme} needs --vocab-size: its lists cover all logits of the model.",
            hint="it is vocab_size in the model's config.json.",
        )
    size, digest = options.vocabulary(model, vocab_size, exact=scheme == "pm1")
    if context_width is None:
        context_width = (
            COMPAT_SCHEMES[scheme].context_width if scheme in COMPAT_SCHEMES else CONTEXT_WIDTH
        )
    if delta_place is None:
        delta_place = "before" if scheme.startswith("kgw") else "after"
        delta_place += "_temperature"
    spec = WatermarkSpec(
        scheme=scheme,
        gamma=gamma,
        delta=delta,
        context_width=context_width,
        vocab_size=size,
        tokenizer_digest=digest,
        delta_place=delta_place,  # type: ignore[arg-type]  # the spec checks it
    )
    spec.save(path)
    print(spec.digest)
