"""``powermark profile``: record how your model samples, with your prompts and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from powermark.errors import InvalidInput
from powermark.interfaces.cli import options
from powermark.interfaces.cli.terminal import progress, visible
from powermark.interfaces.cli.texts import is_folder

if TYPE_CHECKING:
    from powermark.signals.assumptions import Assumptions
    from powermark.signals.profile import Profile

EXAMPLES = """\
Examples:

  powermark profile --model smollm2-135m --prompts prompts.jsonl --temperature .7 -o p.npz

  powermark plan --n-tokens 100 --alpha .01 --power .95 --profile p.npz

  powermark profile --model my-model --endpoint http://127.0.0.1:8000/v1 --texts 192 -o p.npz

  powermark profile --show p.npz --gamma .9 --delta 3
"""
_SHOWN = ((0.25, 2.0), (0.5, 2.0), (0.9, 3.0), (0.95, 4.5))  # gamma and delta


def profile_command(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Profile to write (.npz).")
    ] = None,
    model: options.Model = None,
    prompts: options.Prompts = None,
    texts: Annotated[int, typer.Option(help="Texts to write.")] = 36,
    n_tokens: Annotated[int, typer.Option(help="Tokens per text; best the planned length.")] = 100,
    temperature: Annotated[float, typer.Option(help="The temperature of later use.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="The top-k of later use; 0 for all.")] = 0,
    top_p: Annotated[float, typer.Option(help="The top-p of later use.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="The min-p of later use.")] = 0.0,
    repetition_penalty: Annotated[
        float, typer.Option(help="The repetition penalty of later use.")
    ] = 1.0,
    raw: options.Raw = None,
    system: options.System = None,
    seed: Annotated[int, typer.Option(help="Seed, to repeat the texts.")] = 0,
    batch: Annotated[
        int, typer.Option(help="Texts at a time; the most that an interrupt loses.")
    ] = 24,
    endpoint: Annotated[
        str | None, typer.Option(help="Profile a live OpenAI-compatible server: its /v1 address.")
    ] = None,
    served_model: Annotated[
        str | None, typer.Option(help="Model to request. Default: the server's first.")
    ] = None,
    spec: Annotated[
        list[Path] | None,
        typer.Option(
            help="Spec of a mark that the server has under the file's name; it marks some texts."
        ),
    ] = None,
    head: Annotated[int, typer.Option(help="Likeliest tokens to request at each step.")] = 20,
    show: Annotated[
        Path | None,
        typer.Option(help="Show this profile, and measure the paper's assumptions on it."),
    ] = None,
    gamma: Annotated[float, typer.Option(help="With --show: green share.")] = 0.5,
    delta: Annotated[float, typer.Option(help="With --show: bias.")] = 2.0,
    as_json: options.Json = False,
) -> None:
    """Let a model write, and record its next-token distributions for plan --profile.

    An instruct model answers the prompts through its chat template; with --raw it continues them.
    Two thirds of the texts are unmarked and the others marked, so that the profile knows how marked
    text continues. An interrupted run resumes from FILE.part.

    With --endpoint a live server writes, and only the tokenizer of --model is read. Some texts are
    then marked if --spec names marks of the server; without it the server must send unmarked text.
    """
    from powermark.generation.prompts import in_style, prompts_for
    from powermark.generation.writing import Sampling
    from powermark.measuring.record_profile import keep_profile, record_profile
    from powermark.models import load_model, load_tokenizer
    from powermark.models.chat import has_chat_template

    if (show is None) == (output is None):
        raise InvalidInput("give either -o FILE, to record a profile, or --show FILE, to show one.")
    if show is not None:
        from powermark.signals.assumptions import measure_assumptions
        from powermark.signals.profile_file import load_profile

        found = load_profile(show)
        _show(found, show, as_json, measure_assumptions(found, gamma, delta))
        return
    assert output is not None
    if temperature == 0:
        raise InvalidInput("--temperature must be above 0: a mark needs a choice to act on.")
    if is_folder(output):
        raise InvalidInput(f"-o must be a file to write; {str(output)!r} is a folder.")
    sampling = Sampling(
        n_tokens=n_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
    )
    given = prompts_for(prompts, texts)
    so_far = output.with_name(output.name + ".part")
    name = options.named_model(model)
    if endpoint is not None:
        from powermark.generation.endpoint import Endpoint
        from powermark.measuring.record_served_profile import profile_endpoint
        from powermark.watermark.spec import WatermarkSpec

        tokenizer = load_tokenizer(name)
        chats = has_chat_template(tokenizer)
        given, _ = in_style(given, chats=chats, raw=raw, system=system, served=True)
        with progress("writing", texts) as advance:
            found = profile_endpoint(
                Endpoint(endpoint, served_model),
                given,
                sampling,
                tokenizer,
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
    given, _ = in_style(given, chats=language_model.chats, raw=raw, system=system)
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


def _show(
    found: Profile, output: Path, as_json: bool, assumptions: Assumptions | None = None
) -> None:
    """Print a profile's predictions and, if measured, the paper's assumptions."""
    if as_json:
        measured = {} if assumptions is None else {"assumptions": assumptions.to_dict()}
        print(json.dumps({**found.about, "randomness": found.randomness(), **measured}, indent=2))
        return
    about = f"{found.about['steps']} steps of {found.about['texts']} texts by {found.name}"
    print(visible(f"{output}: {about}"))
    if survival := found.about.get("survival"):  # since 0.2
        print(
            f"{survival['copy']:.2%} of token ids are unchanged when a copy of the text is "
            f"tokenised again (exact text: {survival['text']:.2%}; with its prompt: "
            f"{survival['behind_prompt']:.2%}). Plans assume the copy."
        )
    random = found.randomness()
    shares = (
        f"{random['above_99']:.0%} have a token with p > .99, {random['above_999']:.0%} p > .999"
    )
    print(f"unmarked steps: mean entropy {random['entropy']:.2f} nats; {shares}.")
    print("gamma  delta  green rate (plug-in)         kl (plug-in)")
    for gamma, delta in _SHOWN:
        print(_compared(found, gamma, delta))
    if assumptions is not None:
        design = f"gamma {assumptions.gamma:g}, delta {assumptions.delta:g}"
        print(f"\nassumptions at {design}, on {assumptions.texts} texts of about that strength:")
        print(assumptions)


def _compared(found: Profile, gamma: float, delta: float) -> str:
    """Return the predictions of the profile and the plug-in."""
    from powermark.signals.signal import PlugIn

    rate, kl = float(found.green_rate(gamma, delta)), float(found.kl(gamma, delta))
    plain = PlugIn()
    by_rate, by_kl = float(plain.green_rate(gamma, delta)), float(plain.kl(gamma, delta))
    errors = found.standard_errors(1, 1, gamma, delta)
    shown = {k: "?" if errors is None else f"{errors[k]:.4f}" for k in ("gamma_prime", "kl")}
    return (
        f"{gamma:<5}  {delta:<5}  {rate:.4f} +- {shown['gamma_prime']} ({by_rate:.4f})  "
        f"{kl:.4f} +- {shown['kl']} ({by_kl:.4f})"
    )
