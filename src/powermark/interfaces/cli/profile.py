"""``powermark profile``: what a mark will do on your model, with your prompts and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from powermark.errors import InvalidInput
from powermark.interfaces.cli import options
from powermark.interfaces.cli.progress import progress

if TYPE_CHECKING:
    from powermark.calibration.profile import Profile

EXAMPLES = """\
Examples:

  powermark profile --model smollm2-135m --prompts prompts.jsonl --temperature .7 -o p.npz

  powermark plan --n-tokens 100 --alpha .01 --power .95 --profile p.npz
"""
_SHOWN = ((0.25, 2.0), (0.5, 2.0), (0.9, 3.0), (0.95, 4.5))  # gamma and delta


def profile_command(
    output: Annotated[Path, typer.Option("-o", "--output", help="Profile to write (.npz).")],
    model: options.Model = None,
    prompts: options.Prompts = None,
    texts: Annotated[int, typer.Option(help="Texts to write.")] = 36,
    n_tokens: Annotated[int, typer.Option(help="Tokens of each; best the planned length.")] = 100,
    temperature: Annotated[float, typer.Option(help="As it will be used.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="As it will be used; 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="As it will be used.")] = 1.0,
    seed: Annotated[int, typer.Option(help="For the same texts again.")] = 0,
    batch: Annotated[int, typer.Option(help="Texts at a time.")] = 36,
    as_json: options.Json = False,
) -> None:
    """Let a model write and record what it chose from, for --profile.

    Two thirds of the texts are unmarked, the others marked, so that the profile knows how marked
    text goes on. A run that was interrupted goes on from FILE.part when it is started again.
    """
    from powermark.calibration.profile_file import save_profile
    from powermark.evaluation.profile import record_profile
    from powermark.evaluation.prompts import prompts_for
    from powermark.evaluation.writing import Sampling
    from powermark.models import load_model

    if temperature == 0:
        raise InvalidInput("--temperature must be above 0: a mark needs a choice to act on.")
    sampling = Sampling(n_tokens=n_tokens, temperature=temperature, top_k=top_k, top_p=top_p)
    given = prompts_for(prompts, texts)
    language_model = load_model(options.named_model(model))
    with progress("writing", -(-texts // max(batch, 1)) * n_tokens) as advance:
        found = record_profile(
            language_model,
            given,
            sampling,
            seed=seed,
            batch=batch,
            so_far=output.with_name(output.name + ".part"),
            on_step=advance,
        )
    save_profile(found, output)
    if as_json:
        print(json.dumps(found.about, indent=2))
        return
    print(f"{output}: {found.about['steps']} steps of {found.about['texts']} texts by {found.name}")
    print("gamma  delta  green rate (plug-in)         kl (plug-in)")
    for gamma, delta in _SHOWN:
        print(_compared(found, gamma, delta))


def _compared(found: Profile, gamma: float, delta: float) -> str:
    """Say what the profile and the plug-in foretell."""
    from powermark.calibration.signal import PlugIn

    rate, kl = float(found.green_rate(gamma, delta)), float(found.kl(gamma, delta))
    plain = PlugIn()
    by_rate, by_kl = float(plain.green_rate(gamma, delta)), float(plain.kl(gamma, delta))
    errors = found.standard_errors(1, 1, gamma, delta)
    shown = {k: "?" if errors is None else f"{errors[k]:.4f}" for k in ("gamma_prime", "kl")}
    return (
        f"{gamma:<5}  {delta:<5}  {rate:.4f} +- {shown['gamma_prime']} ({by_rate:.4f})  "
        f"{kl:.4f} +- {shown['kl']} ({by_kl:.4f})"
    )
