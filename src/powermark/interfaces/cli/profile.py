"""``powermark profile``: what a mark will do on your model, with your prompts and settings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from powermark.interfaces.cli import options

if TYPE_CHECKING:
    from powermark.calibration.profile import Profile

EXAMPLES = """\
Examples:

  powermark profile --model smollm2-135m --prompts prompts.jsonl --temperature .7 -o p.npz

  powermark plan --n-tokens 100 --alpha .01 --power .95 --profile p.npz
"""


def profile_command(
    output: Annotated[Path, typer.Option("-o", "--output", help="Profile to write (.npz).")],
    model: options.Model = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help="File of prompts, as for generate; the model's own if left out."),
    ] = None,
    texts: Annotated[int, typer.Option(help="Texts to write, of as many prompts.")] = 24,
    n_tokens: Annotated[int, typer.Option(help="Tokens of each.")] = 100,
    temperature: Annotated[float, typer.Option(help="As it will be used.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="As it will be used; 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="As it will be used.")] = 1.0,
    seed: Annotated[int, typer.Option(help="For the same texts again.")] = 0,
    batch: Annotated[int, typer.Option(help="Texts at a time.")] = 24,
    as_json: options.Json = False,
) -> None:
    """Let a model write unmarked text and record what it chose from, for --profile."""
    from rich.console import Console
    from rich.progress import Progress

    from powermark.calibration.profile_file import save_profile
    from powermark.evaluation.profile import record_profile
    from powermark.interfaces.cli.generate import read_prompts
    from powermark.models import load_model

    given = [""] * texts if prompts is None else read_prompts(None, prompts)[:texts]
    language_model = load_model(options.named_model(model))
    with Progress(
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("writing", total=-(-len(given) // max(batch, 1)) * n_tokens)
        found = record_profile(
            language_model,
            given,
            n_tokens=n_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            batch=batch,
            on_step=lambda: bar.advance(task),
        )
    save_profile(found, output)
    if as_json:
        print(json.dumps(found.about, indent=2))
        return
    print(f"{output}: {found.about['steps']} steps of {found.about['texts']} texts by {found.name}")
    print("gamma  delta  green rate (plug-in)   kl (plug-in)")
    for gamma, delta in ((0.25, 2.0), (0.5, 2.0), (0.9, 3.0), (0.95, 4.5)):
        print(_compared(found, gamma, delta))


def _compared(found: Profile, gamma: float, delta: float) -> str:
    from powermark.calibration.signal import PlugIn

    rate, kl = float(found.green_rate(gamma, delta)), float(found.kl(gamma, delta))
    plain = PlugIn()
    by_rate, by_kl = float(plain.green_rate(gamma, delta)), float(plain.kl(gamma, delta))
    errors = found.standard_errors(gamma, delta)
    return (
        f"{gamma:<5}  {delta:<5}  {rate:.4f} +- {errors[0]:.4f} ({by_rate:.4f})  "
        f"{kl:.4f} +- {errors[1]:.4f} ({by_kl:.4f})"
    )
