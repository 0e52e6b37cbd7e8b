"""``powermark serve``: the page and the REST interface; ``powermark token``: who may use them."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from powermark.errors import InvalidInput, MissingExtra
from powermark.interfaces.cli import options

EXAMPLES = """\
Examples:

  powermark serve out

  powermark token tokens.txt alice

  powermark serve out --host 0.0.0.0 --tokens tokens.txt --model smollm2-135m
"""
_DEMOS = ("out", "powermark-demo")  # where `make demo` and `powermark demo` leave their files


def serve_command(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of specs, keys, profiles, texts; a demo's if left out."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address; beyond this machine needs --tokens.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="0 takes any free one.")] = 8000,
    tokens: Annotated[Path | None, typer.Option(help="File of `powermark token`.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Load this model, for the view Generate.")
    ] = None,
    tokenizer: Annotated[
        list[str] | None,
        typer.Option(help="Model whose tokenizer specs may be for; repeatable."),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="For detection; one a core.")] = None,
    rate: Annotated[float, typer.Option(help="Texts a second of one token.")] = 20.0,
    show: Annotated[bool, typer.Option("--open", help="Open a browser.")] = False,
) -> None:
    """Serve a page to design, detect and generate with, and the same as a REST interface.

    NAME.json in the folder is a spec, NAME.key its key. Keys never leave the server. Without
    --tokens only this machine is served.
    """
    try:
        from powermark.interfaces.server.access import Tokens
        from powermark.interfaces.server.app import create_app
        from powermark.interfaces.server.library import load_library
        from powermark.interfaces.server.limits import Limits
        from powermark.interfaces.server.run import check_exposure, listen, run
        from powermark.interfaces.server.service import new_service
    except ImportError as error:
        raise MissingExtra(
            f"the server needs {error.name}, which is not installed.",
            hint="pip install 'powermark[server]'",
        ) from None
    if rate <= 0 or (threads is not None and threads < 1):
        raise InvalidInput(f"--rate and --threads must be above 0; got {rate:g} and {threads}.")
    known = None if tokens is None else Tokens.load(tokens)
    check_exposure(host, has_tokens=known is not None)
    writer, tokenizers = _models(model, tokenizer or [])
    library = load_library(folder or _demo(), tokenizers)
    service = new_service(
        library, limits=Limits(rate=rate), tokens=known, threads=threads, model=writer
    )
    listener = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}/"
    loaded = f"{len(library.marks)} specs, {len(library.profiles)} profiles"
    typer.echo(f"powermark: {url} ({loaded}; stop with Ctrl-C)", err=True)
    if show:
        webbrowser.open(url)
    run(create_app(service), listener)


def token_command(
    path: Annotated[Path, typer.Argument(help="File of tokens; made if it is not there.")],
    name: Annotated[str, typer.Argument(help="Whom it is for; goes into the logs.")],
    scope: Annotated[
        str, typer.Option(help="detect: verdicts; inspect: every token's colour and exact p.")
    ] = "detect",
) -> None:
    """Add an access token for `powermark serve` and print it, once: the file has a digest."""
    from powermark.interfaces.server.access import new_token

    print(new_token(path, name, scope))


def _demo() -> Path | None:
    return next((Path(name) for name in _DEMOS if Path(name, "demo.json").exists()), None)


def _models(model: str | None, names: list[str]) -> tuple[Any, list[Any]]:
    """Return the model to write with, if any, and the tokenizers that specs may be for."""
    from powermark.models import load_model, load_tokenizer

    writer = None if model is None else load_model(model)
    tokenizers = [load_tokenizer(name) for name in names or [options.named_model(model)]]
    return writer, tokenizers
