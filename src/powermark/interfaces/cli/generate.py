"""``powermark generate``: marked text from a real model, one prompt or a file of them."""

from __future__ import annotations

import json
import secrets
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import FileProblem, InvalidInput
from powermark.evaluation.records import Records
from powermark.interfaces.cli import options
from powermark.interfaces.cli.progress import progress

if TYPE_CHECKING:
    from powermark.models import LanguageModel

EXAMPLES = """\
Examples:

  powermark generate --spec s.json --key k.key --n-tokens 120 "The city council met on Tuesday"

  powermark generate --spec s.json --key k.key --prompts prompts.txt --batch 32 -o out.jsonl
"""


def generate_command(
    prompt: Annotated[str | None, typer.Argument(help="Text to continue.")] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            help='File of prompts, - for stdin: one a line, or JSONL with "prompt" or "text".'
        ),
    ] = None,
    spec: options.Spec = None,
    key: options.Key = None,
    watermark: Annotated[bool, typer.Option(help="Mark the text.")] = True,
    model: options.Model = None,
    n_tokens: Annotated[int, typer.Option(help="Tokens to write at most.")] = 200,
    temperature: Annotated[
        float | None,
        typer.Option(help="0 takes the likeliest token; the plan's, or 1, if left out."),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            help="Sample among the k likeliest, 0 for all; the plan's, or 0, if left out."
        ),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Sample within this much probability; the plan's, or 1, if left out."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For the same text again.")] = None,
    batch: Annotated[int, typer.Option(help="Prompts at a time.")] = 8,
    record_kl: Annotated[bool, typer.Option(help="Record what the mark cost, per token.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="JSONL file; goes on where it stopped.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """Write text with the mark of a spec (or without, --no-watermark).

    Prints what follows the prompt, and not the prompt, which is not marked.
    The embedded model is fetched and converted on first use. With -o a record is appended for each
    prompt, and the same command goes on after an interruption.
    """
    from powermark.evaluation.writing import sampling_for, write_texts
    from powermark.interfaces.generations import signature_of
    from powermark.models import load_model

    texts = _prompts(prompt, prompts)
    if batch < 1:
        raise InvalidInput(f"--batch must be at least 1; got {batch}.")
    mark = _Mark(spec, key, watermark, record_kl)
    sampling, notes = sampling_for(
        mark.profile, n_tokens, temperature=temperature, top_k=top_k, top_p=top_p
    )
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if seed is not None and seed < 0:
        raise InvalidInput(f"--seed must be 0 or more; got {seed}.")
    seed = _first_seed(output) if seed is None else seed
    name = options.named_model(model)
    line = signature_of(name, mark.parts, sampling, seed, batch, texts)
    with nullcontext() if output is None else Records(output, line, batch, len(texts)) as records:
        done = 0 if records is None else records.done
        if done == len(texts):
            typer.echo(f"{output} is complete already.", err=True)
            return
        if done and mark.secret_hash_key:
            raise FileProblem(
                f"cannot go on with {str(output)!r}: nothing shows that its hash key was this one.",
                hint="choose another name.",
            )
        language_model = load_model(name)
        config = mark.config(language_model, sampling.temperature)
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
                if records is not None:
                    records.append(part)
                elif as_json:
                    print("\n".join(map(json.dumps, part)), flush=True)
                else:
                    print("\n\n".join(record["text"] for record in part), flush=True)


class _Mark:
    """The spec and key of this run, or neither."""

    def __init__(self, path: Path | None, key: Path | None, watermark: bool, record_kl: bool):
        from powermark.interfaces.generations import mark_parts
        from powermark.watermark.embed import load_key_for
        from powermark.watermark.keys import HashKey
        from powermark.watermark.spec import WatermarkSpec

        self.record_kl = record_kl
        self.spec = self.profile = None
        self.secret_hash_key = False
        self.parts: dict[str, str | None] = {"spec": "none"}
        if not watermark:
            if record_kl:
                raise InvalidInput("--record-kl needs a mark.")
            return
        if path is None:
            raise InvalidInput(
                "marked text needs --spec.",
                hint="make one with `powermark plan ... -o s.json`, or say --no-watermark.",
            )
        self.spec = WatermarkSpec.load(path)
        self.profile = (self.spec.design or {}).get("profile")
        self.key = load_key_for(self.spec, key)
        self.secret_hash_key = isinstance(self.key, HashKey) and self.key != HashKey()
        self.parts = mark_parts(self.spec, self.key, record_kl=record_kl)

    def config(self, model: LanguageModel, temperature: float) -> Any:
        """Return what generate() takes; checks the model's tokenizer."""
        if self.spec is None:
            return None
        from powermark.integrations.transformers import WatermarkConfig

        return WatermarkConfig(
            self.spec,
            self.key,
            model.tokenizer,
            temperature=temperature or 1.0,
            record_kl=self.record_kl,
        )


def _prompts(prompt: str | None, path: Path | None) -> list[str]:
    """Return the prompt, or those of a file."""
    from powermark.detection.text import valid
    from powermark.evaluation.prompts import all_prompts

    if prompt is not None and path is None:
        return [valid(prompt, "the prompt")]
    if prompt is None and path is not None:
        return all_prompts(path)
    raise InvalidInput("give either a prompt or --prompts FILE (- for stdin).")


def _first_seed(path: Path | None) -> int:
    """Return the seed that an earlier run chose for this file, or a new one."""
    if path is not None and path.is_file():
        wrong = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)
        with suppress(*wrong), path.open("rb") as stream:
            return int(json.loads(stream.readline())["seed"])
    return secrets.randbits(31)
