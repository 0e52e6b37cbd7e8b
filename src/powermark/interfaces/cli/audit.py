"""``powermark audit``: how often a key calls your own unmarked text marked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import InvalidInput, PowermarkError
from powermark.interfaces.cli import options
from powermark.interfaces.cli.texts import SUFFIXES_HINT, read_texts

if TYPE_CHECKING:
    from powermark.evaluation.audit import Audit

EXAMPLES = """\
Examples:

  powermark audit --spec s.json --key k.key human.jsonl --fresh-keys 50
"""


def audit_command(
    spec: Annotated[Path, typer.Option(help="Watermark spec.")],
    paths: Annotated[list[Path], typer.Argument(help="Files of unmarked text, folders, .jsonl.")],
    key: options.Key = None,
    model: options.Model = None,
    field: Annotated[str, typer.Option(help="JSONL field with the text or its ids.")] = "text",
    lengths: Annotated[str, typer.Option(help="Counted tokens.")] = "50,100,200,400",
    alphas: Annotated[str, typer.Option(help="Levels.")] = ".05,.01",
    fresh_keys: Annotated[int, typer.Option(help="Other keys to compare with.")] = 20,
    context_width: Annotated[
        int | None, typer.Option(help="Look at another context width than the spec's.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses the fresh keys.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Measure the false-positive rate of a spec and key on text without the mark."""
    import numpy as np

    from powermark.detection.detection import Detector
    from powermark.evaluation.audit import audit
    from powermark.watermark.embed import load_key_for
    from powermark.watermark.spec import WatermarkSpec

    for name, value in (("--seed", seed), ("--fresh-keys", fresh_keys)):
        if value < 0:
            raise InvalidInput(f"{name} must be 0 or more; got {value}.")
    mark = WatermarkSpec.load(spec)
    secret = load_key_for(mark, key)
    tokenizer = options.named_tokenizer(model)
    reader = Detector(mark, secret, tokenizer=tokenizer, alpha=0.5)
    if context_width is not None:
        mark = dataclasses.replace(mark, context_width=context_width)
    names, texts = [], []
    for text in read_texts(paths, field=field, prompt_field=None, ids=False):
        if isinstance(text, PowermarkError):
            raise text
        names.append(text.source)
        texts.append(reader.ids_of(text.content))
    if not texts:
        raise InvalidInput(f"no texts in {', '.join(map(str, paths))}.", hint=SUFFIXES_HINT)
    found = audit(
        mark,
        secret,
        texts,
        rng=np.random.default_rng(seed),
        lengths=_numbers("--lengths", lengths, int),
        alphas=_numbers("--alphas", alphas, float),
        fresh_keys=fresh_keys,
        special_ids=tokenizer.all_special_ids,
    )
    if as_json:
        answer = {**found.to_dict(), "rejected": [names[i] for i in found.rejected]}
        print(json.dumps(answer, indent=2, allow_nan=False))
    else:
        _print(found, names, tokenizer)


def _numbers(name: str, text: str, kind: Any) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"{name} must be numbers between commas; got {text!r}.") from None


def _print(found: Audit, names: list[str], tokenizer: Any) -> None:
    print(f"context width {found.context_width}")
    print(f"{'length':>7}{'alpha':>8}{'size':>8}{'texts':>7}  {'this key (95 % interval)':<28}"
          f"{'keys':>5}{'mean':>8}{'median':>8}{'worst':>8}{'by chance':>11}")  # fmt: skip
    for row in found.rows:
        rate = f"{row.rate:.4f} ({row.low:.4f} to {row.high:.4f})"
        print(f"{row.length:>7}{row.alpha:>8g}{row.size:>8.4f}{row.texts:>7}  {rate:<28}"
              f"{row.keys:>5}{row.mean_rate:>8.4f}{row.median_rate:>8.4f}{row.worst_rate:>8.4f}"
              f"{row.chance_worst_rate:>11.4f}")  # fmt: skip
    print("n-grams that the most texts share:")
    for gram, texts, green in found.shared:
        colour = "green" if green else "red"
        print(f"  {texts:>6} texts  {colour:<6}{tokenizer.decode(list(gram))!r}")
    if found.rejected:
        some = ", ".join(names[i] for i in found.rejected[:10])
        more = len(found.rejected) - 10
        print(f"called marked by this key: {some}{f' and {more} more' if more > 0 else ''}")
    print(found.signature)
