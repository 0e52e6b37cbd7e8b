"""``powermark demo``: the whole story once, on the embedded model, each step a command to copy."""

from __future__ import annotations

import io
import shlex
import sys
from contextlib import redirect_stdout
from html import escape
from pathlib import Path
from string import Template
from typing import Annotated, TextIO

import typer

from powermark.files import make_folder, write_file
from powermark.interfaces.cli import options
from powermark.pages import page

EXAMPLES = """\
Examples:

  powermark demo -o out
"""
_PROMPT = "The city council met on Tuesday"
_REQUEST = "--n-tokens 100 --alpha .01 --power .95 --edit-rate .02"


def demo_command(
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder to write into.")] = Path(
        "powermark-demo"
    ),
    model: options.Model = None,
    prompts: Annotated[str, typer.Option(help="Prompts, as for profile.")] = "wikitext-2",
    texts: Annotated[int, typer.Option(help="Texts to profile with, and to verify with.")] = 36,
) -> None:
    """Make a key, profile, plan, marked text, detection and verification, and a page of it all."""
    make_folder(folder)
    name = options.named_model(model)
    files = ("demo.key", "demo.npz", "demo.json", "marked.txt", "report.html", "verify.html",
             "demo.verify.json")  # fmt: skip
    key, profile, spec, text, report, verified, result = (
        shlex.quote(str(folder / f)) for f in files
    )
    mark = f"--spec {spec} --key {key} --model {shlex.quote(name)}"
    prompted = f"--model {shlex.quote(name)} --prompts {shlex.quote(prompts)} --texts {texts}"
    keep = (folder / "demo.key").exists()  # a key is never overwritten
    steps = {
        "A secret key, once.": f"key {'fingerprint' if keep else 'new'} {key}",
        "What the model chooses from, on prompts like yours.": f"profile {prompted} -o {profile}",
        "What each way of planning promises, and what it would give.": (
            f"plan {_REQUEST} --profile {profile} --compare"
        ),
        "The plan, as a spec to deploy.": (
            f"plan {_REQUEST} --profile {profile} --model {shlex.quote(name)} --key {key} -o {spec}"
        ),
        "Marked text.": f'generate {mark} --n-tokens 120 --seed 1 "{_PROMPT}"',
        "The same without the mark.": (
            f"generate --no-watermark --model {shlex.quote(name)} --n-tokens 120 --seed 1 "
            f'"{_PROMPT}"'
        ),
        "Is it marked? The text is all the detector gets.": (
            f"detect {mark} {text} --html {report}"
        ),
        "Does the plan keep its promise on fresh texts?": (
            f"verify --spec {spec} --key {key} {prompted} --skip {texts} --profile {profile} "
            f"--html {verified} --result {result}"
        ),
    }
    sections = []
    for title, command in steps.items():
        typer.secho(f"\n{title}\n$ powermark {command}", err=True, bold=True)
        said = _say(command)
        if command.startswith("generate"):
            marked = "--no-watermark" not in command
            write_file(folder / ("marked.txt" if marked else "unmarked.txt"), said.encode())
            if marked:
                write_file(folder / "edited.txt", _edited(said).encode())
        shown = {"title": title, "line": f"powermark {command}", "said": said}
        sections.append(_SECTION.substitute({k: escape(v) for k, v in shown.items()}))
    links = [f'<li><a href="{name}">{name}</a></li>' for name in ("report.html", "verify.html")]
    shown_page = _PAGE.substitute(sections="".join(sections), links="".join(links))
    write_file(folder / "index.html", shown_page.encode())
    typer.echo(f"\npage: {folder / 'index.html'}", err=True)
    typer.echo(f"to try things: powermark serve {shlex.quote(str(folder))}", err=True)


def _edited(text: str) -> str:
    """Return a text in which every sixth word has changed places with the next."""
    words = text.split(" ")
    for place in range(5, len(words) - 1, 6):
        words[place], words[place + 1] = words[place + 1], words[place]
    return " ".join(words)


class _Tee(io.StringIO):
    """Shows what is written to it, and keeps it."""

    def __init__(self, shown: TextIO) -> None:
        super().__init__()
        self._shown = shown

    def write(self, text: str) -> int:
        self._shown.write(text)
        self._shown.flush()
        return super().write(text)


def _say(line: str) -> str:
    """Run a command in this process and return what it prints; its exit code is only shown."""
    from powermark.interfaces.cli import app

    with redirect_stdout(_Tee(sys.stdout)) as said:
        code = app(shlex.split(line), standalone_mode=False)
    if code:
        typer.echo(f"exit code {code}", err=True)
    return said.getvalue()


_SECTION = Template("<h2>$title</h2><p><code>$line</code></p><pre>$said</pre>")
_PAGE = page(
    "a demonstration",
    width=60,
    style="""\
h2 { font-size: 1.2rem; margin-top: 2rem }
pre { background: #f5f5f5; padding: .8rem; border-radius: 6px; overflow-x: auto;
  white-space: pre-wrap }
code { overflow-wrap: anywhere }
""",
    body="""\
<h1>From a key to a kept promise</h1>
<p>Every step is a command; below it is what it said.</p>
<ul>$links</ul>
$sections
""",
)
