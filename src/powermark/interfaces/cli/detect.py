"""``powermark detect``: is it marked? One text or many, whole or as it streams in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powermark.errors import InvalidInput, PowermarkError
from powermark.files import write_file
from powermark.interfaces.cli import options
from powermark.interfaces.cli.terminal import complain, visible
from powermark.interfaces.cli.texts import (
    SUFFIXES_HINT,
    Text,
    has_rows,
    is_folder,
    parse_ids,
    read_texts,
    stream_pieces,
)

if TYPE_CHECKING:
    from powermark.detection.detector import Detection, Detector
    from powermark.detection.inspection import Piece
    from powermark.detection.stream import StreamDetector

EXAMPLES = """\
Examples:

  powermark detect --spec s.json --key k.key essay.txt --html report.html

  powermark detect --spec s.json --key k.key --field token_ids out.jsonl --json

  some-llm | powermark detect --spec s.json --key k.key --stream
"""


@dataclass(frozen=True, slots=True)
class _Input:
    """Where the texts come from."""

    paths: list[Path]
    field: str
    ids: bool
    prompt: str | None
    prompt_field: str | None

    @property
    def many(self) -> bool:
        """Whether there may be more than one text."""
        first = self.paths[0]
        return len(self.paths) > 1 or has_rows(first) or is_folder(first)

    @property
    def has_text(self) -> bool:
        """Whether any text or prompt is to be tokenised."""
        only_ids = self.ids or self.field == "token_ids"
        return not only_ids or self.prompt is not None or self.prompt_field in ("prompt", "text")

    def texts(self) -> Iterator[Text | PowermarkError]:
        """Yield every text with its prompt; in place of an unreadable one, the error."""
        found = read_texts(
            self.paths, field=self.field, prompt_field=self.prompt_field, ids=self.ids
        )
        for text in found:
            if self.prompt is not None and isinstance(text, Text):
                yield text._replace(prompt=self.prompt)
            else:
                yield text


@dataclass(frozen=True, slots=True)
class _Output:
    """How results are shown; ``many`` as one line each."""

    many: bool
    tokens: bool
    html: Path | None
    as_json: bool

    @property
    def inspects(self) -> bool:
        """Whether the state of every token is shown."""
        return self.tokens or self.html is not None

    def show(self, detector: Detector, text: Text) -> bool:
        """Look for the mark in a text and show the result; return whether it is marked."""
        if not self.inspects:
            found = detector.detect(text.content, prompt=text.prompt)
            self._print(found, text.source, found.to_dict())
            return found.verdict == "watermarked"
        seen = detector.inspect(text.content, prompt=text.prompt)
        found = seen.detection
        self._print(found, text.source, (seen if self.tokens else found).to_dict())
        if self.tokens and not self.as_json:
            _print_tokens(seen.pieces)
        if self.html is not None:
            write_file(self.html, seen.html().encode())
        return found.verdict == "watermarked"

    def _print(self, found: Detection, source: str, answer: dict[str, Any]) -> None:
        if self.as_json:
            print(json.dumps({"source": source, **answer}, allow_nan=False), flush=True)
        elif self.many:
            row = f"p {found.p:<9.3g}  {f'{found.green}/{found.scored} green':<16}"
            print(f"{found.verdict:<18}  {row}  {visible(source)}", flush=True)
        else:
            print(visible(str(found)))


def detect_command(
    spec: Annotated[list[Path], typer.Option(help="Watermark spec.")],
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files, folders, .jsonl, .csv, .parquet; - or nothing for stdin."),
    ] = None,
    key: options.Key = None,
    keys: Annotated[
        Path | None, typer.Option(help="Folder of *.key files to try, all of them.")
    ] = None,
    model: options.Tokenizer = None,
    field: Annotated[str, typer.Option(help="Field or column with the text or its ids.")] = "text",
    prompt: Annotated[str | None, typer.Option(help="Text that stood before.")] = None,
    prompt_field: Annotated[str | None, typer.Option(help="JSONL field of the prompt.")] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Files hold token ids, not text.")] = False,
    alpha: Annotated[float | None, typer.Option(help="Level; the plan's if left out.")] = None,
    detector: Annotated[
        list[str] | None,
        typer.Option(
            help="count, winmax, winmax-c or evalue; the plan's if left out. p is multiplied by "
            "the number of those given."
        ),
    ] = None,
    looks: Annotated[
        int,
        typer.Option(
            help="How many times you look at each text, with other specs, parts of it or "
            "settings: p is multiplied by it."
        ),
    ] = 1,
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
    given = _Input(paths or [Path("-")], field, ids, prompt, prompt_field)
    output = _Output(given.many, tokens, html, as_json)
    if html is not None and given.many:
        raise InvalidInput("--html is for one text.")
    if stream and (paths or output.inspects or prompt is not None or detector or looks != 1):
        raise InvalidInput(
            "--stream reads stdin and takes no files, prompt, detector, looks or report."
        )
    if len(spec) > 1:
        raise InvalidInput(
            f"detect looks for one mark; got {len(spec)} specs.",
            hint=f"look for each in turn, with --looks {len(spec)}; or use `powermark scan`.",
        )
    found = _detector(
        spec[0],
        (key, keys),
        given.has_text or output.inspects,
        model,
        alpha=alpha,
        detector=detector,
        looks=looks,
        normalise_text=normalise,
    )
    marked = _stream(found, ids, as_json) if stream else _all(found, given, output)
    if exit_code and not marked:
        raise typer.Exit(1)


def _detector(
    path: Path,
    keys: tuple[Path | None, Path | None],
    needs_tokenizer: bool,
    model: str | None,
    **settings: Any,
) -> Detector:
    """Load spec, keys (a file or a folder) and, where it is needed, the model's tokenizer."""
    from powermark.detection.detector import Detector
    from powermark.models import load_tokenizer
    from powermark.models.catalog import DEFAULT_MODEL
    from powermark.watermark.spec import WatermarkSpec
    from powermark.watermark.watermark import load_keys_for

    spec = WatermarkSpec.load(path)
    ring, tokenizer = load_keys_for(spec, *keys), None
    if needs_tokenizer or model is not None:
        tokenizer = load_tokenizer(model or DEFAULT_MODEL)
    elif spec.tokenizer_digest is not None:
        typer.echo("note: without --model special tokens count like any other.", err=True)
    return Detector(spec, ring, tokenizer=tokenizer, **settings)


def _all(detector: Detector, given: _Input, output: _Output) -> bool:
    """Show the result of every text; return whether any is marked. An error is exit code 2."""
    text, marked, failed = None, False, False
    for text in given.texts():
        try:
            if isinstance(text, PowermarkError):
                raise text
            marked |= output.show(detector, text)
        except PowermarkError as error:
            failed = True
            complain(error, f"{text.source}: " if isinstance(text, Text) and given.many else "")
    if text is None:
        raise InvalidInput(f"no texts in {', '.join(map(str, given.paths))}.", hint=SUFFIXES_HINT)
    if failed:
        raise typer.Exit(2)
    return marked


def _print_tokens(shown: list[Piece]) -> None:
    from rich.console import Console
    from rich.text import Text as Styled

    from powermark.detection.inspection import SHOWN

    styles = {"green": "underline green", "red": "red"}
    line = Styled()
    for piece in shown[:SHOWN]:
        line.append(visible(piece.text), style=styles.get(piece.state, "dim italic"))
    Console().print(line)
    if len(shown) > SHOWN:
        print(f"{len(shown) - SHOWN} more tokens are not shown.")


def _stream(detector: Detector, ids: bool, as_json: bool) -> bool:
    """Read stdin as it comes, until there is enough evidence; return whether there is."""
    from powermark.detection.detection import unplanned_test
    from powermark.detection.stream import StreamDetector

    if len(detector.watermarks) > 1:
        raise InvalidInput("--stream takes one --key.")
    for note in unplanned_test(detector.spec, ("evalue",)):
        typer.echo(f"note: {note}", err=True)
    evidence = StreamDetector(
        next(iter(detector.watermarks.values())),
        alpha=detector.alpha,
        special_ids=detector.special_ids,
        copied=not ids,
    )
    for piece in stream_pieces():
        evidence.feed(parse_ids(piece, "stdin") if ids else detector.ids_of(piece))
        if evidence.detected:
            break
    _print_stream(evidence, as_json)
    return evidence.detected


def _print_stream(evidence: StreamDetector, as_json: bool) -> None:
    if as_json:
        state = {
            "detected": evidence.detected,
            "detected_at": evidence.detected_at,
            "tokens": evidence.tokens,
            "scored": evidence.scored,
            "green": evidence.green,
            "log_e": evidence.max_log_e,
            "alpha": evidence.alpha,
        }
        print(json.dumps(state))
        return
    verdict = "watermarked" if evidence.detected else "not enough evidence"
    print(
        f"{verdict} after {evidence.tokens} tokens, {evidence.green} of {evidence.scored} "
        f"counted ones green; evidence {evidence.max_log_e:.2f} nats"
    )
