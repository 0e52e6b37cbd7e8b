"""The ``powermark`` command: result on stdout, talk on stderr.

Exit codes: 0 success, 2 wrong or impossible input, 1 a broken promise or anything else.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

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
    """Take the options that stand before a subcommand."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every foreseen error is one sentence on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        # a terminal that lacks a character shows its code
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        try:
            app(arguments)
        finally:
            sys.stdout.flush()
    except PowermarkError as error:
        print(f"powermark: {error}", file=sys.stderr)
        if error.hint is not None:
            print(f"  hint: {error.hint}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left is not tried again at the end
        print(f"powermark: cannot write the result: {error.strerror}.", file=sys.stderr)
        sys.exit(2)
