"""``powermark audit``: how often a key calls your own unmarked text marked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import InvalidInput, PowermarkError
from powermark.interfaces.cli import options
from powermark.interfaces.cli.terminal import progress, visible
from powermark.interfaces.cli.texts import SUFFIXES_HINT, has_rows, is_folder, read_texts

if TYPE_CHECKING:
    from powermark.measuring.audit import Audit

EXAMPLES = """\
Examples:

  powermark audit --spec s.json --key k.key human.jsonl --fresh-keys 50

  powermark audit --spec s.json --key k.key --templates --detectors count,winmax-c --lengths 200
"""


def audit_command(
    spec: Annotated[Path, typer.Option(help="Watermark spec.")],
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of unmarked text, folders, .jsonl, .csv, .parquet."),
    ] = None,
    key: options.Key = None,
    model: options.Tokenizer = None,
    field: Annotated[str, typer.Option(help="Field or column with the text or its ids.")] = "text",
    lengths: Annotated[str, typer.Option(help="Counted tokens.")] = "50,100,200,400",
    alphas: Annotated[str, typer.Option(help="Levels.")] = ".05,.01",
    fresh_keys: Annotated[int, typer.Option(help="Other keys to compare with.")] = 20,
    context_width: Annotated[
        int | None, typer.Option(help="Context width to audit. Default: the spec's.")
    ] = None,
    detectors: Annotated[
        str | None,
        typer.Option(
            help="Some of count, evalue, winmax, winmax-c. Default: count and the plan's."
        ),
    ] = None,
    templates: Annotated[
        bool, typer.Option("--templates", help="Add JSON, logs, tables, licences, code, base64.")
    ] = False,
    texts: Annotated[int, typer.Option(help="Texts of each kind of template.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the fresh keys and the templates.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Measure the false-positive rate of a spec and key on text without the mark.

    Each JSONL, CSV or Parquet file, folder and template is a kind of text. Each of several kinds
    has its own rows.
    """
    import numpy as np

    from powermark.measuring.audit import audit
    from powermark.measuring.templates import KINDS, templated
    from powermark.watermark.watermark import Watermark

    for name, value, least in (
        ("--seed", seed, 0), ("--fresh-keys", fresh_keys, 0), ("--texts", texts, 1)
    ):  # fmt: skip
        if value < least:
            raise InvalidInput(f"{name} must be {least} or more; got {value}.")
    if not paths and not templates:
        raise InvalidInput("an audit needs files of unmarked text, or --templates.")
    mark = Watermark.load(spec, key)
    tokenizer = options.named_tokenizer(model)
    reader = mark.detector(tokenizer, alpha=0.5)
    if context_width is not None:
        mark = Watermark(dataclasses.replace(mark.spec, context_width=context_width), mark.key)
    names, kinds, ids = [], [], []
    with progress("reading") as advance:
        for path in paths or []:
            place = path if is_folder(path) or has_rows(path) else path.parent
            for text in read_texts([path], field=field, prompt_field=None, ids=False):
                if isinstance(text, PowermarkError):
                    raise text
                names.append(text.source)
                kinds.append(str(place))
                ids.append(reader.ids_of(text.content))
                advance()
    if paths and not ids:
        raise InvalidInput(f"no texts in {', '.join(map(str, paths))}.", hint=SUFFIXES_HINT)
    planned = list(dict.fromkeys(["count", mark.spec.planned_detector]))
    rng = np.random.default_rng(seed)
    for kind in KINDS if templates else ():
        for number, content in enumerate(templated(kind, texts, rng)):
            names.append(f"{kind}:{number}")
            kinds.append(kind)
            ids.append(reader.ids_of(content))
    with progress("auditing keys", 1 + fresh_keys) as advance:
        found = audit(
            mark,
            ids,
            rng=np.random.default_rng(seed),
            lengths=_numbers("--lengths", lengths, int),
            alphas=_numbers("--alphas", alphas, float),
            fresh_keys=fresh_keys,
            special_ids=tokenizer.all_special_ids,
            kinds=kinds,
            detectors=detectors.split(",") if detectors else planned,
            on_key=advance,
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
        raise InvalidInput(f"{name} must be comma-separated numbers; got {text!r}.") from None


def _print(found: Audit, names: list[str], tokenizer: Any) -> None:
    print(f"context width {found.context_width}")
    kinds, detectors = ({getattr(row, name) for row in found.rows} for name in ("kind", "detector"))
    wide = max(map(len, kinds)) + 2 if len(kinds) > 1 else 0
    named = 10 if len(detectors) > 1 else 0
    print(f"{'kind':<{wide}.{wide}}{'detector':<{named}.{named}}{'length':>7}{'alpha':>8}{'size':>8}"
          f"{'texts':>7}  {'this key (95 % interval)':<28}{'keys':>5}{'mean':>8}{'median':>8}"
          f"{'worst':>8}{'by chance':>11}")  # fmt: skip
    for row in found.rows:
        rate = f"{row.rate:.4f} ({row.low:.4f} to {row.high:.4f})"
        print(f"{row.kind:<{wide}.{wide}}{row.detector:<{named}.{named}}{row.length:>7}"
              f"{row.alpha:>8g}{row.size:>8.4f}{row.texts:>7}  {rate:<28}"
              f"{row.keys:>5}{row.mean_rate:>8.4f}{row.median_rate:>8.4f}{row.worst_rate:>8.4f}"
              f"{row.chance_worst_rate:>11.4f}")  # fmt: skip
    print("n-grams that the most texts share:")
    for gram, texts, green in found.shared:
        colour = "green" if green else "red"
        print(f"  {texts:>6} texts  {colour:<6}{tokenizer.decode(list(gram))!r}")
    if found.rejected:
        some = visible(", ".join(names[i] for i in found.rejected[:10]))
        more = len(found.rejected) - 10
        print(f"called marked by this key: {some}{f' and {more} more' if more > 0 else ''}")
    print(found.signature)
