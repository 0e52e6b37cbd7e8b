"""``powermark detect``: is it marked? One text or many, whole or as it streams in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import InvalidInput, PowermarkError
from powermark.files import write_file
from powermark.interfaces.cli import options
from powermark.interfaces.cli.texts import (
    SUFFIXES_HINT,
    Text,
    is_folder,
    parse_ids,
    read_texts,
    stream_pieces,
)

if TYPE_CHECKING:
    from powermark.detection.detection import Detector
    from powermark.watermark.spec import WatermarkSpec

EXAMPLES = """\
Examples:

  powermark detect --spec s.json --key k.key essay.txt --html report.html

  powermark detect --spec s.json --key k.key --field token_ids out.jsonl --json

  some-llm | powermark detect --spec s.json --key k.key --stream
"""


def detect_command(
    spec: Annotated[Path, typer.Option(help="Watermark spec.")],
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files, folders, .jsonl; - or nothing for stdin.")
    ] = None,
    key: options.Key = None,
    keys: Annotated[
        Path | None, typer.Option(help="Folder of *.key files to try, all of them.")
    ] = None,
    model: options.Model = None,
    field: Annotated[str, typer.Option(help="JSONL field with the text or its ids.")] = "text",
    prompt: Annotated[str | None, typer.Option(help="Text that stood before.")] = None,
    prompt_field: Annotated[str | None, typer.Option(help="JSONL field of the prompt.")] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Files hold token ids, not text.")] = False,
    alpha: Annotated[float | None, typer.Option(help="Level; the plan's if left out.")] = None,
    detector: Annotated[
        str | None,
        typer.Option(help="count, winmax, winmax-c or evalue; the plan's if left out."),
    ] = None,
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Undo look-alike and invisible characters.")
    ] = False,
    tokens: Annotated[bool, typer.Option("--tokens", help="Show the text's colours.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a report, of one text.")] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Read stdin as it comes; stop when it is enough.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 0 if a mark was found and 1 if not.")
    ] = False,
) -> None:
    """Look for a mark and say how sure that is. Exit code 2 where a text could not be read."""
    from powermark.detection.detection import Detector
    from powermark.watermark.embed import load_keys_for
    from powermark.watermark.spec import WatermarkSpec

    sources = paths or [Path("-")]
    many = len(sources) > 1 or sources[0].suffix.lower() == ".jsonl" or is_folder(sources[0])
    if html is not None and many:
        raise InvalidInput("--html is for one text.")
    if stream and (paths or html or tokens or prompt is not None or detector is not None):
        raise InvalidInput("--stream reads stdin and takes no files, prompt, detector or report.")
    mark = WatermarkSpec.load(spec)
    ring = load_keys_for(mark, key, keys)
    reads_ids = ids or field == "token_ids"
    texts_too = not reads_ids or prompt is not None or prompt_field in ("prompt", "text")
    tokenizer = None
    if texts_too or model is not None or tokens or html is not None:
        tokenizer = options.named_tokenizer(model)
    elif mark.tokenizer_digest is not None:
        typer.echo("note: without --model special tokens count like any other.", err=True)
    found = Detector(
        mark,
        ring,
        tokenizer=tokenizer,
        alpha=alpha,
        detector=detector,  # type: ignore[arg-type]  # the detector checks it
        normalise_text=normalise,
    )
    if stream:
        code = _stream(mark, ring, found, tokenizer, ids, as_json)
        raise typer.Exit(code if exit_code else 0)
    marked = failed = any_text = False
    for text in read_texts(sources, field=field, prompt_field=prompt_field, ids=ids):
        any_text = True
        try:
            if isinstance(text, PowermarkError):
                raise text
            if prompt is not None:
                text = text._replace(prompt=prompt)
            marked |= _one(
                found, tokenizer, text, tokens=tokens, html=html, as_json=as_json, many=many
            )
        except PowermarkError as error:
            failed = True
            source = f"{text.source}: " if isinstance(text, Text) and many else ""
            typer.echo(f"powermark: {source}{error}", err=True)
            if error.hint is not None:
                typer.echo(f"  hint: {error.hint}", err=True)
    if not any_text:
        raise InvalidInput(f"no texts in {', '.join(map(str, sources))}.", hint=SUFFIXES_HINT)
    if failed:
        raise typer.Exit(2)
    if exit_code and not marked:
        raise typer.Exit(1)


def _one(
    detector: Detector,
    tokenizer: Any,
    text: Text,
    *,
    tokens: bool,
    html: Path | None,
    as_json: bool,
    many: bool,
) -> bool:
    """Detect in one text and print or write what was asked for."""
    from powermark.detection.report import evidence_path, html_report, pieces, words_of
    from powermark.interfaces.detections import answer, inspection

    found, scores = detector.inspect(text.content, prompt=text.prompt)
    shown = []
    if tokens or html is not None:
        shown = pieces(scores, words_of(detector, tokenizer, text.content))
    if as_json:
        more = inspection(found, scores, shown) if tokens else {}
        print(json.dumps(answer(found, text.source) | more, allow_nan=False), flush=True)
    elif many:
        count = f"{found.green}/{found.scored} green"
        print(f"{found.verdict:<18}  p {found.p:<9.3g}  {count:<16}  {text.source}", flush=True)
    else:
        print(found)
    if tokens and not as_json:
        _print_tokens(shown)
    if html is not None:
        write_file(html, html_report(found, shown, evidence_path(scores, found)).encode())
    return found.verdict == "watermarked"


def _print_tokens(shown: list[Any]) -> None:
    from rich.console import Console
    from rich.text import Text as Styled

    styles = {"green": "underline green", "red": "red"}
    line = Styled()
    for piece in shown:
        line.append(piece.text, style=styles.get(piece.state, "dim italic"))
    Console().print(line)


def _stream(
    spec: WatermarkSpec, ring: Any, detector: Detector, tokenizer: Any, ids: bool, as_json: bool
) -> int:
    """Feed stdin as it comes; return 0 as soon as there is enough evidence, 1 at the end."""
    from powermark.detection.evalue import StreamDetector

    if isinstance(ring, dict):
        raise InvalidInput("--stream takes one --key.")
    special = () if tokenizer is None else tokenizer.all_special_ids
    evidence = StreamDetector(spec, ring, alpha=detector.alpha, special_ids=special)
    for piece in stream_pieces():
        evidence.feed(parse_ids(piece, "stdin") if ids else detector.ids_of(piece))
        if evidence.detected:
            break
    state = {
        "detected": evidence.detected,
        "detected_at": evidence.detected_at,
        "tokens": evidence.tokens,
        "scored": evidence.scored,
        "green": evidence.green,
        "log_e": evidence.max_log_e,
        "alpha": evidence.alpha,
    }
    if as_json:
        print(json.dumps(state))
    else:
        verdict = "watermarked" if evidence.detected else "not enough evidence"
        print(
            f"{verdict} after {evidence.tokens} tokens, {evidence.green} of {evidence.scored} "
            f"counted ones green; evidence {evidence.max_log_e:.2f} nats"
        )
    return 0 if evidence.detected else 1
