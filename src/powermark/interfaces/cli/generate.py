"""``powermark generate``: marked text from a real model, one prompt or a file of them."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import FileProblem, InvalidInput
from powermark.interfaces.cli import options
from powermark.interfaces.cli.records import Records
from powermark.signature import signature

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
        typer.Option(help='File of prompts, - for stdin: one a line, or JSONL with "prompt".'),
    ] = None,
    spec: options.Spec = None,
    key: options.Key = None,
    watermark: Annotated[bool, typer.Option(help="Mark the text.")] = True,
    model: options.Model = None,
    n_tokens: Annotated[int, typer.Option(help="Tokens to write at most.")] = 200,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.8,
    top_k: Annotated[int, typer.Option(help="Sample among the k likeliest; 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Sample within this much probability.")] = 1.0,
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
    texts = read_prompts(prompt, prompts)
    if batch < 1:
        raise InvalidInput(f"--batch must be at least 1; got {batch}.")
    mark = _Mark(spec, key, watermark, record_kl)
    settings: dict[str, Any] = {
        "n_tokens": n_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
    }
    if seed is not None and seed < 0:
        raise InvalidInput(f"--seed must be 0 or more; got {seed}.")
    seed = _first_seed(output) if seed is None else seed
    name = options.named_model(model)
    line = signature(
        "generate",
        model=name,
        **mark.parts,
        **settings,
        seed=str(seed),
        batch=batch,
        prompts=blake2b(json.dumps(texts).encode(), digest_size=6).hexdigest(),
    )
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
        for part in _write_texts(name, texts, done, mark, settings, seed, batch, line):
            if records is not None:
                records.append(part)
            elif as_json:
                print("\n".join(map(json.dumps, part)), flush=True)
            else:
                print("\n\n".join(record["text"] for record in part), flush=True)


class _Mark:
    """The spec and key of this run, or neither."""

    def __init__(self, path: Path | None, key: Path | None, watermark: bool, record_kl: bool):
        from powermark.watermark.embed import load_key_for
        from powermark.watermark.keys import HashKey, SecretKey
        from powermark.watermark.spec import WatermarkSpec

        self.record_kl = record_kl
        self.spec = None
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
        self.key = load_key_for(self.spec, key)
        fingerprint = self.key.fingerprint if isinstance(self.key, SecretKey) else None
        self.secret_hash_key = fingerprint is None and self.key != HashKey()
        self.parts = {
            "spec": self.spec.digest,
            "key": fingerprint,
            "record": "kl" if record_kl else None,
        }

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


def _write_texts(
    name: str,
    texts: list[str],
    done: int,
    mark: _Mark,
    settings: dict[str, Any],
    seed: int,
    batch: int,
    line: str,
) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of one batch after another, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    from powermark.detection.text import lost_in_round_trip
    from powermark.models import load_model

    model = load_model(name)
    config = mark.config(model, settings["temperature"])
    with Progress(
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        steps = -(-(len(texts) - done) // batch) * settings["n_tokens"]
        task = bar.add_task("writing", total=steps)
        for number, first in enumerate(range(done, len(texts), batch)):
            part = texts[first : first + batch]
            found = model.complete(
                part,
                **settings,
                seed=_batch_seed(seed, first),
                watermarking_config=config,
                on_step=lambda: bar.advance(task),
            )
            bar.update(task, completed=(number + 1) * settings["n_tokens"])
            rows = []
            for row, (prompt, text) in enumerate(zip(part, found, strict=True)):
                record: dict[str, Any] = {
                    "index": first + row,
                    "prompt": prompt,
                    "text": text.text,
                    "prompt_ids": text.prompt_ids,
                    "token_ids": text.token_ids,
                    "finished": text.finished,
                    "lost_ids": lost_in_round_trip(model.tokenizer, text.token_ids),
                    "seed": seed,
                }
                if config is not None and config.record is not None:
                    seen = slice(len(text.token_ids)), row
                    record["kl"] = config.record.kl[seen].tolist()
                    record["green_rate"] = config.record.green_rate[seen].tolist()
                rows.append({**record, "signature": line})
            yield rows


def _batch_seed(seed: int, first: int) -> int:
    """Return a batch's own seed: batches of one run and of neighbouring seeds share nothing."""
    digest = blake2b(f"{seed} {first}".encode(), digest_size=8, person=b"pm-batch").digest()
    return int.from_bytes(digest, "big") >> 1


def read_prompts(prompt: str | None, path: Path | None) -> list[str]:
    """Return the prompt, or those of a file."""
    from powermark.detection.text import valid

    if (prompt is None) == (path is None):
        raise InvalidInput("give either a prompt or --prompts FILE (- for stdin).")
    if prompt is not None:
        return [valid(prompt, "the prompt")]
    try:
        content = sys.stdin.read() if str(path) == "-" else Path(str(path)).read_text("utf-8-sig")
    except OSError as error:
        raise FileProblem(f"cannot read {str(path)!r}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileProblem(f"{str(path)!r} is not UTF-8 text.") from None
    lines = [(n, line) for n, line in enumerate(content.split("\n"), 1) if line.strip()]
    if not lines:
        raise InvalidInput(f"{str(path)!r} holds no prompts.")
    return [valid(_one(line.rstrip("\r"), number), f"line {number}") for number, line in lines]


def _one(line: str, number: int) -> str:
    """Return the prompt of a line: the line itself, or a JSON object's."""
    if not line.startswith("{"):
        return line
    try:
        found = json.loads(line).get("prompt")
    except (ValueError, RecursionError):
        raise InvalidInput(
            f"line {number} begins like JSON and is none.",
            hint='a prompt that begins with a brace is given as {"prompt": "..."}.',
        ) from None
    if not isinstance(found, str):
        raise InvalidInput(f'line {number} has no text "prompt".')
    return found


def _first_seed(path: Path | None) -> int:
    """Return the seed that an earlier run chose for this file, or a new one."""
    if path is not None and path.is_file():
        wrong = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)
        with suppress(*wrong), path.open("rb") as stream:
            return int(json.loads(stream.readline())["seed"])
    return secrets.randbits(31)
