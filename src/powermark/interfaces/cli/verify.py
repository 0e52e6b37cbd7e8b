"""``powermark verify``: fresh texts, with the mark and without, against what the plan promised."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from powermark.errors import InvalidInput
from powermark.files import write_file
from powermark.interfaces.cli import options
from powermark.interfaces.cli.progress import progress

if TYPE_CHECKING:
    from powermark.evaluation.verify import Verification

EXAMPLES = """\
Examples:

  powermark verify --spec s.json --key k.key --prompts prompts.jsonl --texts 200 -o texts.jsonl

  powermark verify --spec s.json --key k.key --profile p.npz --html verify.html

  powermark verify --spec s.json --key k.key --endpoint http://127.0.0.1:8000/v1 --mark s
"""


def verify_command(
    spec: Annotated[Path, typer.Option(help="Watermark spec, from plan -o.")],
    key: options.Key = None,
    model: options.Model = None,
    prompts: options.Prompts = None,
    profile: options.ProfileFile = None,
    texts: Annotated[int, typer.Option(help="Texts with the mark, and as many without.")] = 96,
    n_tokens: Annotated[
        int | None, typer.Option(help="Tokens scored; for a spec that has no plan.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Level; for a spec that has no plan.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="The plan's, or 1, if left out.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="The plan's, or 0, if left out.")] = None,
    top_p: Annotated[float | None, typer.Option(help="The plan's, or 1, if left out.")] = None,
    skip: Annotated[
        int, typer.Option(help="Prompts to leave out, such as those of the profile.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="For the same texts again.")] = 0,
    batch: Annotated[int, typer.Option(help="Texts of each kind at a time.")] = 48,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Keep the texts (JSONL); goes on where it stopped."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to show.")] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Ask a live OpenAI-compatible server, by its /v1 address.")
    ] = None,
    mark_name: Annotated[
        str | None, typer.Option("--mark", help="Mark to ask it for; its default if left out.")
    ] = None,
    served_model: Annotated[
        str | None, typer.Option(help="Its name of the model; its first if left out.")
    ] = None,
    no_compare: Annotated[
        bool, typer.Option("--no-compare", help="Ask it for no unmarked texts.")
    ] = False,
    result: Annotated[
        Path | None, typer.Option(help="Write the JSON to this file too, such as s.verify.json.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Let the model write and compare what is measured with what the plan promised.

    Exit code 1 if the promise is broken by more than chance allows.
    """
    from powermark.calibration.profile_file import load_profile
    from powermark.detection.detection import Detector
    from powermark.evaluation.endpoint import Endpoint, ask, verify_answers
    from powermark.evaluation.pairs import write_pairs
    from powermark.evaluation.promise import check_profile, enough, promise_of
    from powermark.evaluation.prompts import prompts_for
    from powermark.evaluation.verify import verify
    from powermark.evaluation.writing import sampling_for
    from powermark.models import load_model
    from powermark.watermark.embed import load_key_for
    from powermark.watermark.keys import HashKey
    from powermark.watermark.spec import WatermarkSpec

    if texts < 2 or batch < 1:
        raise InvalidInput(f"--texts must be 2 or more, --batch 1 or more; got {texts}, {batch}.")
    mark = WatermarkSpec.load(spec)
    secret = load_key_for(mark, key)
    if output is not None and isinstance(secret, HashKey) and secret != HashKey():
        raise InvalidInput(
            "texts under another tool's own hash key are not kept: nothing shows which it was.",
            hint="leave -o out.",
        )
    known = None if profile is None else load_profile(profile)
    promise = promise_of(mark, n_tokens=n_tokens, alpha=alpha, profile=known)
    sampling, _ = sampling_for(
        promise.profile,
        enough(promise.n_tokens),
        strict=True,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
    )
    given = prompts_for(prompts, texts, skip)
    if endpoint is not None:
        if output is not None:
            raise InvalidInput("-o does not keep a server's texts.")
        tokenizer = options.named_tokenizer(model)
        detector = Detector(mark, secret, tokenizer=tokenizer, alpha=promise.alpha)
        with progress("asking", len(given) * (1 if no_compare else 2)) as advance:
            answers = ask(
                Endpoint(endpoint, served_model),
                given,
                sampling,
                tokenizer,
                mark=mark_name,
                batch=batch,
                seed=seed,
                compare=not no_compare,
                on_text=advance,
            )
        found = verify_answers(answers, detector, secret, promise, profile=known, seed=seed)
        _show(found, html, result, as_json)
        return
    if mark_name is not None or served_model is not None or no_compare:
        raise InvalidInput("--mark, --served-model and --no-compare are for --endpoint.")
    language_model = load_model(options.named_model(model))
    for about, whose in ((promise.profile, "the plan"), (known and known.about, "the profile")):
        check_profile(about or {}, language_model, sampling, whose)
    marked, unmarked = write_pairs(
        mark,
        secret,
        language_model,
        given,
        sampling,
        seed=seed,
        batch=batch,
        output=output,
        watch=partial(progress, "writing"),
    )
    found = verify(
        mark,
        secret,
        promise,
        marked,
        unmarked,
        profile=known,
        special_ids=language_model.tokenizer.all_special_ids,
        seed=seed,
    )
    _show(found, html, result, as_json)


def _show(found: Verification, html: Path | None, result: Path | None, as_json: bool) -> None:
    """Print and write what was found; exit code 1 where a promise is broken."""
    from powermark.evaluation.page import verification_page

    if html is not None:
        write_file(html, verification_page(found).encode())
    told = json.dumps(found.to_dict(), indent=2, allow_nan=False)
    if result is not None:
        write_file(result, f"{told}\n".encode())
    print(told if as_json else found)
    if found.broken:
        raise typer.Exit(1)
