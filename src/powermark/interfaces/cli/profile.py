"""``powermark profile``: what a mark will do on your model, with your prompts and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from powermark.errors import InvalidInput
from powermark.interfaces.cli import options
from powermark.interfaces.cli.progress import progress
from powermark.interfaces.cli.texts import is_folder

if TYPE_CHECKING:
    from powermark.calibration.profile import Profile

EXAMPLES = """\
Examples:

  powermark profile --model smollm2-135m --prompts prompts.jsonl --temperature .7 -o p.npz

  powermark plan --n-tokens 100 --alpha .01 --power .95 --profile p.npz

  powermark profile --model my-model --endpoint http://127.0.0.1:8000/v1 --texts 192 -o p.npz
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
    endpoint: Annotated[
        str | None, typer.Option(help="Ask a live OpenAI-compatible server, by its /v1 address.")
    ] = None,
    served_model: Annotated[
        str | None, typer.Option(help="Its name of the model; its first if left out.")
    ] = None,
    spec: Annotated[
        list[Path] | None,
        typer.Option(help="Spec that the server has by its file's name; some texts are marked so."),
    ] = None,
    head: Annotated[int, typer.Option(help="Likeliest tokens to ask it for at each step.")] = 20,
    as_json: options.Json = False,
) -> None:
    """Let a model write and record what it chose from, for --profile.

    Two thirds of the texts are unmarked, the others marked, so that the profile knows how marked
    text goes on. A run that was interrupted goes on from FILE.part when it is started again.

    With --endpoint a live server writes, and only the tokenizer of --model is read. Texts are
    then marked if --spec names marks of the server; without it they are as the server sends them,
    which must be unmarked.
    """
    from powermark.evaluation.profile import keep_profile, record_profile
    from powermark.evaluation.prompts import prompts_for
    from powermark.evaluation.writing import Sampling
    from powermark.models import load_model, load_tokenizer

    if temperature == 0:
        raise InvalidInput("--temperature must be above 0: a mark needs a choice to act on.")
    if is_folder(output):
        raise InvalidInput(f"-o names the file to write; {str(output)!r} is a folder.")
    sampling = Sampling(n_tokens=n_tokens, temperature=temperature, top_k=top_k, top_p=top_p)
    given = prompts_for(prompts, texts)
    so_far = output.with_name(output.name + ".part")
    name = options.named_model(model)
    if endpoint is not None:
        from powermark.evaluation.endpoint import Endpoint
        from powermark.evaluation.served_profile import profile_endpoint
        from powermark.watermark.spec import WatermarkSpec

        with progress("writing", texts) as advance:
            found = profile_endpoint(
                Endpoint(endpoint, served_model),
                given,
                sampling,
                load_tokenizer(name),
                model=name,
                marks={path.stem: WatermarkSpec.load(path) for path in spec} if spec else None,
                head=head,
                seed=seed,
                batch=batch,
                so_far=so_far,
                on_text=advance,
            )
        keep_profile(found, output, so_far)
        _show(found, output, as_json)
        return
    if served_model is not None or spec:
        raise InvalidInput("--served-model and --spec are for --endpoint.")
    language_model = load_model(name)
    with progress("writing", -(-texts // max(batch, 1)) * n_tokens) as advance:
        found = record_profile(
            language_model,
            given,
            sampling,
            seed=seed,
            batch=batch,
            so_far=so_far,
            on_step=advance,
        )
    keep_profile(found, output, so_far)
    _show(found, output, as_json)


def _show(found: Profile, output: Path, as_json: bool) -> None:
    """Say what a profile foretells."""
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
