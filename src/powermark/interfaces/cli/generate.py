"""``powermark generate``: marked text from a model, for one prompt or a file of prompts."""

from __future__ import annotations

import json
import secrets
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from powermark.errors import FileProblem, InvalidInput
from powermark.generation.records import Records
from powermark.interfaces.cli import options
from powermark.interfaces.cli.terminal import progress

if TYPE_CHECKING:
    from powermark.models.chat import Prompt
    from powermark.watermark.watermark import Watermark

EXAMPLES = """\
Examples:

  powermark generate --spec s.json --key k.key --n-tokens 120 "Why is the sky blue?"

  powermark generate --spec s.json --key k.key --raw "The city council met on Tuesday"

  powermark generate --spec s.json --key k.key --prompts prompts.txt --batch 32 -o out.jsonl
"""


def generate_command(
    prompt: Annotated[str | None, typer.Argument(help="Question, or text to continue.")] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            help='File of prompts, - for stdin: one per line, or JSONL with "prompt", "messages" '
            'or "text".'
        ),
    ] = None,
    spec: options.Spec = None,
    key: options.Key = None,
    watermark: Annotated[bool, typer.Option(help="Mark the text.")] = True,
    model: options.Model = None,
    n_tokens: Annotated[int, typer.Option(help="Tokens to write at most.")] = 200,
    temperature: Annotated[
        float | None,
        typer.Option(help="0 takes the likeliest token. Default: the plan's, or 1."),
    ] = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    repetition_penalty: options.RepetitionPenalty = None,
    raw: options.Raw = None,
    system: options.System = None,
    thinking: Annotated[
        bool, typer.Option(help="Mark the thoughts of a model that thinks before it answers.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Seed, to repeat the text.")] = None,
    batch: Annotated[int, typer.Option(help="Prompts at a time.")] = 8,
    record_kl: Annotated[bool, typer.Option(help="Record the KL of each token.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="JSONL file to write, and to resume from.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one object per line.")
    ] = False,
) -> None:
    """Write text with the mark of a spec (or without, --no-watermark).

    An instruct model answers the prompt through its chat template; with --raw it continues it.
    Prints the text without the prompt, which is not marked, and without thoughts. The embedded
    model is downloaded and converted on first use. With -o a record is appended for each prompt,
    and the same command resumes after an interruption.
    """
    from powermark.generation.prompts import in_style
    from powermark.generation.writing import mark_for, sampling_for, write_texts
    from powermark.interfaces.generations import signature_of
    from powermark.models import load_model

    texts = _prompts(prompt, prompts)
    if batch < 1:
        raise InvalidInput(f"--batch must be at least 1; got {batch}.")
    if record_kl and not watermark:
        raise InvalidInput("--record-kl needs a mark.")
    mark = _watermark(spec, key) if watermark else None
    plan = None if mark is None else mark.spec.plan
    profile = None if plan is None else plan.profile
    sampling, notes = sampling_for(
        profile,
        n_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
    )
    if seed is not None and seed < 0:
        raise InvalidInput(f"--seed must be 0 or more; got {seed}.")
    seed = _first_seed(output) if seed is None else seed
    name = options.named_model(model)
    language_model = load_model(name)
    texts, more = in_style(
        texts, chats=language_model.chats, profile=profile, raw=raw, system=system
    )
    for note in (*notes, *more):
        typer.echo(f"note: {note}", err=True)
    line = signature_of(name, mark, sampling, seed, batch, texts, record_kl=record_kl)
    with nullcontext() if output is None else Records(output, line, batch, len(texts)) as records:
        done = 0 if records is None else records.done
        if done == len(texts):
            typer.echo(f"{output} is already complete.", err=True)
            return
        if done and mark is not None and mark.has_private_hash_key:
            raise FileProblem(
                f"cannot resume {str(output)!r}: it does not show that its hash key was this one.",
                hint="choose another name.",
            )
        config = None
        if mark is not None:
            config = mark_for(
                mark, language_model, sampling, thinking=thinking, record_kl=record_kl
            )
        empty = 0
        with progress("writing", -(-(len(texts) - done) // batch) * n_tokens) as advance:
            for part in write_texts(
                language_model,
                texts,
                sampling,
                seed=seed,
                batch=batch,
                config=config,
                done=done,
                signature=line,
                on_step=advance,
            ):
                empty += sum(not record["text"].strip() for record in part)
                if records is not None:
                    records.append(part)
                elif as_json:
                    print("\n".join(map(json.dumps, part)), flush=True)
                else:
                    print("\n\n".join(record["text"] for record in part), flush=True)
    if empty:
        new = len(texts) - done
        typer.echo(f"the model wrote nothing for {empty} of {new} prompts.", err=True)
        if empty == new:
            raise typer.Exit(1)


def _watermark(spec: Path | None, key: Path | None) -> Watermark:
    from powermark.watermark.watermark import Watermark

    if spec is None:
        raise InvalidInput(
            "marked text needs --spec.",
            hint="make one with `powermark plan ... -o s.json`, or use --no-watermark.",
        )
    return Watermark.load(spec, key)


def _prompts(prompt: str | None, path: Path | None) -> list[Prompt]:
    """Return the prompt, or those of a file."""
    from powermark.detection.text import valid
    from powermark.generation.prompts import all_prompts

    if prompt is not None and path is None:
        return [valid(prompt, "the prompt")]
    if prompt is None and path is not None:
        return all_prompts(path)
    raise InvalidInput("give either a prompt or --prompts FILE (- for stdin).")


def _first_seed(path: Path | None) -> int:
    """Return the seed of an earlier run with this file, or a new one."""
    if path is not None and path.is_file():
        wrong = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)
        with suppress(*wrong), path.open("rb") as stream:
            return int(json.loads(stream.readline())["seed"])
    return secrets.randbits(31)
