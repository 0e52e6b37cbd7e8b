"""``powermark generate``: marked text from a real model, one prompt or a file of them."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import FileProblem, InvalidInput
from powermark.interfaces.cli import options
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

    The embedded model is fetched and converted on first use. With -o a record is appended for each
    prompt, and the same command goes on after an interruption.
    """
    texts = _prompts(prompt, prompts)
    if batch < 1:
        raise InvalidInput(f"--batch must be at least 1; got {batch}.")
    mark = _Mark(spec, key, watermark, record_kl)
    settings: dict[str, Any] = {
        "n_tokens": n_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
    }
    if seed is None:
        seed = _seed_of(output) if output is not None and output.exists() else secrets.randbits(31)
    name = model or _default_model()
    line = signature(
        "generate",
        model=name,
        **mark.parts,
        **settings,
        seed=seed,
        batch=batch,
        prompts=blake2b(json.dumps(texts).encode(), digest_size=6).hexdigest(),
    )
    done = 0 if output is None else _resume(output, line, batch, len(texts))
    if done == len(texts):
        typer.echo(f"{output} is complete already.", err=True)
        return
    records = _write_texts(name, texts, done, mark, settings, seed, batch, line)
    for part in records:
        lines = [json.dumps(record, ensure_ascii=False) for record in part]
        if output is not None:
            _append(output, lines)
        elif as_json:
            print("\n".join(lines), flush=True)
        else:
            print("\n\n".join(r["prompt"] + r["text"] for r in part), flush=True)


class _Mark:
    """The spec and key of this run, or neither."""

    def __init__(self, path: Path | None, key: Path | None, watermark: bool, record_kl: bool):
        from powermark.watermark.embed import load_key_for
        from powermark.watermark.keys import SecretKey
        from powermark.watermark.spec import WatermarkSpec

        self.record_kl = record_kl
        self.spec = None
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
        self.parts = {"spec": self.spec.digest, "key": fingerprint}

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


def _default_model() -> str:
    from powermark.models.catalog import DEFAULT_MODEL

    return DEFAULT_MODEL


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
                seed=seed + first,
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
                    "seed": seed,
                }
                if config is not None and config.record is not None:
                    record["kl"] = config.record.kl[: len(text.token_ids), row].tolist()
                rows.append({**record, "signature": line})
            yield rows


def _prompts(prompt: str | None, path: Path | None) -> list[str]:
    if (prompt is None) == (path is None):
        raise InvalidInput("give either a prompt or --prompts FILE (- for stdin).")
    if prompt is not None:
        return [prompt]
    try:
        text = sys.stdin.read() if str(path) == "-" else Path(str(path)).read_text(encoding="utf-8")
    except OSError as error:
        raise FileProblem(f"cannot read {str(path)!r}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileProblem(f"{str(path)!r} is not UTF-8 text.") from None
    found = [_one(line, number) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not found:
        raise InvalidInput(f"{str(path)!r} holds no prompts.")
    return found


def _one(line: str, number: int) -> str:
    """Return the prompt of a line: the line itself, or a JSON object's."""
    if not line.startswith("{"):
        return line
    try:
        found = json.loads(line).get("prompt")
    except ValueError:
        return line
    if not isinstance(found, str):
        raise InvalidInput(f'line {number} has no text "prompt".')
    return found


def _seed_of(path: Path) -> int:
    """Return the seed that an earlier run chose."""
    with path.open("rb") as stream:
        first = stream.readline()
    try:
        return int(json.loads(first)["seed"])
    except (ValueError, KeyError, TypeError):
        return secrets.randbits(31)


def _resume(path: Path, line: str, batch: int, total: int) -> int:
    """Return how many prompts a file has already; cuts off an unfinished batch at its end."""
    if not path.exists():
        return 0
    try:
        content = path.read_bytes()
        rows = content.split(b"\n")[:-1]  # what follows the last line end is half a record
        for row in rows:
            if json.loads(row).get("signature") != line:
                raise ValueError
        kept = len(rows) if len(rows) == total else len(rows) // batch * batch
        whole = b"".join(row + b"\n" for row in rows[:kept])
        if whole != content:
            os.truncate(path, len(whole))
        return kept
    except OSError as error:
        raise FileProblem(f"cannot go on with {str(path)!r}: {error.strerror}.") from None
    except (ValueError, AttributeError):
        raise FileProblem(
            f"{str(path)!r} holds something else than texts of these settings and is left alone.",
            hint="choose another name, or repeat the settings that it was made with.",
        ) from None


def _append(path: Path, lines: list[str]) -> None:
    """Add a batch in one write, on disk before the next is begun."""
    try:
        with path.open("ab") as stream:
            stream.write(("\n".join(lines) + "\n").encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise FileProblem(
            f"cannot write {str(path)!r}: {error.strerror}.",
            hint="make room and run the same command again; finished batches are kept.",
        ) from None
