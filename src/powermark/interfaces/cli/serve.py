"""``powermark serve``: the web page and REST interface; ``powermark token``: access to them."""

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
_DEMOS = ("out", "powermark-demo")  # folders of `make demo` and `powermark demo`


def serve_command(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of specs, keys and profiles; a demo's by default."),
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(help="Folder of texts that every client gets; FOLDER/examples if it exists."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address; other machines need --tokens.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port; 0 for any free one.")] = 8000,
    tokens: Annotated[Path | None, typer.Option(help="File of access tokens.")] = None,
    model: Annotated[str | None, typer.Option(help="Model for the view Generate.")] = None,
    tokenizer: Annotated[
        list[str] | None,
        typer.Option(help="Model or tokenizer.json that specs may be for; repeatable."),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads for detection; one a core.")] = None,
    rate: Annotated[float, typer.Option(help="Texts a second for each token.")] = 20.0,
    connections: Annotated[
        int, typer.Option(help="Open connections, at most half from one address.")
    ] = 1_000,
    show: Annotated[bool, typer.Option("--open", help="Open a browser.")] = False,
) -> None:
    """Serve a web page for designing, detecting and generating, and a REST interface.

    NAME.json in the folder is a spec, NAME.key its key. Keys never leave the server. Without
    --tokens it serves only this machine.
    """
    try:
        from powermark.interfaces.server.access import Tokens
        from powermark.interfaces.server.app import create_app
        from powermark.interfaces.server.library import load_library
        from powermark.interfaces.server.limits import Limits
        from powermark.interfaces.server.run import check_exposure, connections_for, listen, run
        from powermark.interfaces.server.service import new_service
    except ImportError as error:
        raise MissingExtra(
            f"the server needs {error.name}, which is not installed.",
            hint="pip install 'powermark[server]'",
        ) from None
    if rate <= 0 or (threads is not None and threads < 1):
        raise InvalidInput(f"--rate and --threads must be above 0; got {rate:g} and {threads}.")
    if connections < 10:
        raise InvalidInput(f"--connections must be at least 10; got {connections}.")
    known = None if tokens is None else Tokens.load(tokens)
    check_exposure(host, has_tokens=known is not None)
    writer, tokenizers = _models(model, tokenizer or [])
    library = load_library(folder or _demo(), tokenizers, examples)
    most = connections_for(connections)
    limits = Limits(rate=rate, connections=most, waiting=max(1, most // 5))
    service = new_service(library, limits=limits, tokens=known, threads=threads, model=writer)
    listener = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}/"
    loaded = f"{len(library.marks)} specs, {len(library.profiles)} profiles"
    typer.echo(f"powermark: {url} ({loaded}; stop with Ctrl-C)", err=True)
    if show:
        webbrowser.open(url)
    service.start()
    try:
        run(create_app(service), listener, limits, service.log)
    finally:
        service.close()


def token_command(
    path: Annotated[Path, typer.Argument(help="File of tokens; created if missing.")],
    name: Annotated[str, typer.Argument(help="Name of the client, for the logs.")],
    scope: Annotated[
        str, typer.Option(help="detect: verdicts; inspect: every token's colour and exact p.")
    ] = "detect",
) -> None:
    """Add an access token for `powermark serve` and print it; the file stores only a digest."""
    from powermark.interfaces.server.access import new_token

    print(new_token(path, name, scope))


def _demo() -> Path | None:
    return next((Path(name) for name in _DEMOS if Path(name, "demo.json").exists()), None)


def _models(model: str | None, names: list[str]) -> tuple[Any, list[Any]]:
    """Return the model for generating, if any, and the tokenizers that specs may be for."""
    from powermark.models import load_model, load_tokenizer

    writer = None if model is None else load_model(model)
    tokenizers = [load_tokenizer(name) for name in names or [options.named_model(model)]]
    return writer, tokenizers
