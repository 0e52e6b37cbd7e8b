"""``powermark verify``: fresh texts, marked and unmarked, against the promise of the plan."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from powermark.errors import InvalidInput
from powermark.files import cache_folder, write_file
from powermark.interfaces.cli import options
from powermark.interfaces.cli.terminal import progress

if TYPE_CHECKING:
    from powermark.measuring.verify import Verification

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
    texts: Annotated[
        int | None,
        typer.Option(
            help="Texts with the mark, and as many without. Default: enough to detect a loss of "
            ".05 in power in 4 of 5 runs."
        ),
    ] = None,
    n_tokens: Annotated[
        int | None, typer.Option(help="Tokens scored, for a spec without a plan.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Level, for a spec without a plan.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Default: the plan's, or 1.")] = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    repetition_penalty: options.RepetitionPenalty = None,
    raw: options.Raw = None,
    system: options.System = None,
    thinking: Annotated[
        bool, typer.Option(help="Mark the thoughts of a model that thinks before it answers.")
    ] = False,
    skip: Annotated[int, typer.Option(help="Prompts to skip, such as those of the profile.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed, to repeat the texts.")] = 0,
    batch: Annotated[
        int, typer.Option(help="Texts of each kind at a time; the most that an interrupt loses.")
    ] = 24,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Keep the texts (JSONL)."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the result as a page.")] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Verify a live OpenAI-compatible server: its /v1 address.")
    ] = None,
    mark_name: Annotated[
        str | None, typer.Option("--mark", help="Mark to request. Default: the server's.")
    ] = None,
    served_model: Annotated[
        str | None, typer.Option(help="Model to request. Default: the server's first.")
    ] = None,
    no_compare: Annotated[
        bool, typer.Option("--no-compare", help="Request no unmarked texts.")
    ] = False,
    result: Annotated[
        Path | None, typer.Option(help="Also write the JSON to this file, such as s.verify.json.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Let the model write, and compare measurements with the promise of the plan.

    Texts are judged by a copy of the text, as a reader has it. Exit code 1 if the promise is
    broken by more than chance allows, 3 if there are not enough texts to say. The same command
    resumes an interrupted run.
    """
    from powermark.generation.endpoint import Endpoint, ask
    from powermark.generation.prompts import in_style, prompts_for
    from powermark.generation.writing import digest_of_prompts, sampling_for, write_pairs
    from powermark.measuring.promise import check_profile, promise_of, tokens_to_write
    from powermark.measuring.verify import texts_for, verify
    from powermark.measuring.verify_served import verify_answers
    from powermark.models import load_model
    from powermark.models.chat import has_chat_template
    from powermark.signals.profile_file import load_profile
    from powermark.watermark.watermark import Watermark

    if (texts is not None and texts < 2) or batch < 1:
        raise InvalidInput(f"--texts must be 2 or more, --batch 1 or more; got {texts}, {batch}.")
    mark = Watermark.load(spec, key)
    if output is not None and mark.has_private_hash_key:
        raise InvalidInput(
            "texts under another tool's hash key cannot be kept: nothing shows which key it was.",
            hint="leave out -o.",
        )
    known = None if profile is None else load_profile(profile)
    promise = promise_of(mark.spec, n_tokens=n_tokens, alpha=alpha, profile=known)
    sampling, _ = sampling_for(
        promise.profile,
        tokens_to_write(promise),
        strict=True,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
    )
    if texts is None:
        texts = texts_for(promise, kl=endpoint is None, size=not no_compare)
    given = prompts_for(prompts, texts, skip)
    about = {
        "sampling": ", ".join(f"{name} {value:g}" for name, value in sampling.to_dict().items()),
        "prompts": f"{prompts or 'none'}, from number {skip + 1} on",
    }
    if endpoint is not None:
        if output is not None:
            raise InvalidInput("-o cannot be used with --endpoint: a server's texts are not kept.")
        tokenizer = options.named_tokenizer(model)
        given, _ = in_style(
            given,
            chats=has_chat_template(tokenizer),
            profile=promise.profile,
            raw=raw,
            system=system,
            served=True,
            strict=True,
        )
        detector = mark.detector(tokenizer, alpha=promise.alpha)
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
        found = verify_answers(
            answers,
            detector,
            promise,
            profile=known,
            seed=seed,
            about={"model": f"{options.named_model(model)} at {endpoint}", **about},
        )
        _show(found, html, result, as_json)
        return
    if mark_name is not None or served_model is not None or no_compare:
        raise InvalidInput("--mark, --served-model and --no-compare are for --endpoint.")
    language_model = load_model(options.named_model(model))
    given, _ = in_style(
        given,
        chats=language_model.chats,
        profile=promise.profile,
        raw=raw,
        system=system,
        strict=True,
    )
    for recorded, whose in ((promise.profile, "the plan"), (known and known.about, "the profile")):
        check_profile(recorded or {}, language_model, sampling, whose)
    so_far = None
    if output is None and not mark.has_private_hash_key:
        so_far = _unfinished(
            *(mark.spec.digest, mark.fingerprint, language_model.digest, sampling),
            *(seed, batch, thinking, digest_of_prompts(given)),
        )
    marked, unmarked = write_pairs(
        mark,
        language_model,
        given,
        sampling,
        seed=seed,
        batch=batch,
        thinking=thinking,
        output=output or so_far,
        watch=partial(progress, "writing"),
    )
    found = verify(
        mark,
        promise,
        marked,
        unmarked,
        profile=known,
        tokenizer=language_model.tokenizer,
        special_ids=language_model.tokenizer.all_special_ids,
        seed=seed,
        about={"model": language_model.name, **about},
    )
    if so_far is not None:
        so_far.unlink()
    _show(found, html, result, as_json)


def _unfinished(*settings: object) -> Path | None:
    """Return the file for the finished batches of a run without -o, or None if it has no place.

    The file is in the cache and named after the settings, so that the same command resumes.
    """
    folder = cache_folder() / "verify"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = blake2b(repr(settings).encode(), digest_size=8).hexdigest()
    return folder / f"{name}.jsonl" if os.access(folder, os.W_OK) else None


def _show(found: Verification, html: Path | None, result: Path | None, as_json: bool) -> None:
    """Print and write the result; exit code 1 for a broken promise, 3 for too few texts."""
    from powermark.measuring.verification import verification_page

    if html is not None:
        write_file(html, verification_page(found).encode())
    as_text = json.dumps(found.to_dict(), indent=2, allow_nan=False)
    if result is not None:
        write_file(result, f"{as_text}\n".encode())
    print(as_text if as_json else found)
    code = {"kept": 0, "broken": 1}.get(found.outcome, 3)
    if code:
        raise typer.Exit(code)
