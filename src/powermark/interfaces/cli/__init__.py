"""The ``powermark`` command: one module a subcommand; results on stdout, messages on stderr.

    plan.py, power.py, curve.py, profile.py     design a mark
    key.py, spec.py, greenlist.py               keys, specs and green lists
    generate.py, detect.py, scan.py             write marked text, look for marks
    verify.py, audit.py, reproduce.py, demo.py  measure
    serve.py                                    serve, token: the web server and its tokens

    options.py     options that several commands share
    texts.py       texts from files, folders, tables and stdin
    files.py       a plan's JSON, rows as CSV
    terminal.py    errors, control characters and progress on stderr

Exit codes: 0 success, 2 invalid or infeasible input, 1 a broken promise or any other failure, 3 too
few texts for ``verify`` to decide.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Annotated, Any

import typer

from powermark.errors import PowermarkError
from powermark.interfaces.cli import (
    audit,
    curve,
    demo,
    detect,
    generate,
    greenlist,
    key,
    plan,
    power,
    profile,
    reproduce,
    scan,
    serve,
    spec,
    verify,
)
from powermark.interfaces.cli.terminal import complain
from powermark.version import __version__

app = typer.Typer(
    name="powermark",
    help="Power-calibrated LLM text watermarking: design a mark from length, level and power.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("plan", epilog=plan.EXAMPLES)(plan.plan_command)
app.command("power", epilog=power.EXAMPLES)(power.power_command)
app.command("curve", epilog=curve.EXAMPLES)(curve.curve_command)
app.command("profile", epilog=profile.EXAMPLES)(profile.profile_command)
app.add_typer(key.app, name="key")
app.add_typer(spec.app, name="spec")
app.command("generate", epilog=generate.EXAMPLES)(generate.generate_command)
app.command("detect", epilog=detect.EXAMPLES)(detect.detect_command)
app.command("scan", epilog=scan.EXAMPLES)(scan.scan_command)
app.command("verify", epilog=verify.EXAMPLES)(verify.verify_command)
app.command("audit", epilog=audit.EXAMPLES)(audit.audit_command)
app.command("greenlist", epilog=greenlist.EXAMPLES)(greenlist.greenlist_command)
app.command("serve", epilog=serve.EXAMPLES)(serve.serve_command)
app.command("token")(serve.token_command)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo_command)
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.reproduce_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"powermark {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options before the subcommand."""


def _options(arguments: list[str]) -> dict[str, str]:
    """Return the options of the command that is run, by the name of their argument."""
    command: Any = typer.main.get_command(app)
    for word in arguments:
        command = getattr(command, "commands", {}).get(word, command)
    return {parameter.name: parameter.opts[-1] for parameter in command.params}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; an expected error is one sentence on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # show the codes of characters it cannot encode
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app(arguments)
        finally:
            sys.stdout.flush()
    except PowermarkError as error:
        complain(error, options=_options(sys.argv[1:] if arguments is None else arguments))
        sys.exit(2)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the exit would flush, and fail, again
        print(f"powermark: cannot write the result: {error.strerror}.", file=sys.stderr)
        sys.exit(2)
