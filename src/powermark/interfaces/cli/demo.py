"""``powermark demo``: every step once, on the embedded model, each as a command to copy."""

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
_PROMPT = "Why is the sky blue?"
_SAMPLING = "--temperature .7 --top-p .95"
_TOKENS = 200  # of an answer at most
_ONE_LENGTH = "--n-tokens 100 --alpha .01 --power .9 --edit-rate .02"
_REQUEST = "--alpha .01 --coverage .8 --edit-rate .02"


def demo_command(
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder to write into.")] = Path(
        "powermark-demo"
    ),
    model: options.Model = None,
    prompts: Annotated[str, typer.Option(help="Prompts, as for profile.")] = "questions",
    texts: Annotated[int, typer.Option(help="Texts to profile with, and to verify with.")] = 36,
) -> None:
    """Make a key, profile, plan and marked text; detect, verify, and write a page about it."""
    make_folder(folder)
    name = options.named_model(model)
    examples = make_folder(folder / "examples")  # the texts that `powermark serve` shows
    files = ("demo.key", "demo.npz", "demo.json", "examples/marked.txt", "report.html",
             "verify.html", "demo.verify.json")  # fmt: skip
    key, profile, spec, text, report, verified, result = (
        shlex.quote(str(folder / f)) for f in files
    )
    mark = f"--spec {spec} --key {key} --model {shlex.quote(name)}"
    prompted = f"--model {shlex.quote(name)} --prompts {shlex.quote(prompts)} --texts {texts}"
    keep = (folder / "demo.key").exists()  # a key is never overwritten
    steps = {
        "A secret key, once.": f"key {'fingerprint' if keep else 'new'} {key}",
        "A profile of the model, on prompts and settings like yours.": (
            f"profile {prompted} {_SAMPLING} --n-tokens {_TOKENS} -o {profile}"
        ),
        "What each planning method promises for one length, and what it would give.": (
            f"plan {_ONE_LENGTH} --profile {profile} --compare"
        ),
        "The plan for answers of any length, as a spec to deploy.": (
            f"plan {_REQUEST} --profile {profile} --key {key} -o {spec}"
        ),
        "Marked text.": f'generate {mark} --n-tokens {_TOKENS} --seed 1 "{_PROMPT}"',
        "The same without the mark.": (
            f"generate --no-watermark --model {shlex.quote(name)} {_SAMPLING} --n-tokens {_TOKENS} "
            f'--seed 1 "{_PROMPT}"'
        ),
        "Is it marked? The detector gets only the text.": (f"detect {mark} {text} --html {report}"),
        "Does the plan keep its promise? A preview; verify writes more texts by default.": (
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
            write_file(examples / ("marked.txt" if marked else "unmarked.txt"), said.encode())
            if marked:
                write_file(examples / "edited.txt", _edited(said).encode())
        shown = {"title": title, "line": f"powermark {command}", "said": said}
        sections.append(_SECTION.substitute({k: escape(v) for k, v in shown.items()}))
    links = [f'<li><a href="{name}">{name}</a></li>' for name in ("report.html", "verify.html")]
    shown_page = _PAGE.substitute(sections="".join(sections), links="".join(links))
    write_file(folder / "index.html", shown_page.encode())
    typer.echo(f"\npage: {folder / 'index.html'}", err=True)
    typer.echo(f"to try things: powermark serve {shlex.quote(str(folder))}", err=True)


def _edited(text: str) -> str:
    """Return a text with every sixth word and the next one swapped."""
    words = text.split(" ")
    for place in range(5, len(words) - 1, 6):
        words[place], words[place + 1] = words[place + 1], words[place]
    return " ".join(words)


class _Tee(io.StringIO):
    """Forwards what is written, and keeps it."""

    def __init__(self, shown: TextIO) -> None:
        super().__init__()
        self._shown = shown

    def write(self, text: str) -> int:
        self._shown.write(text)
        self._shown.flush()
        return super().write(text)


def _say(line: str) -> str:
    """Run a command in this process and return its output; report its exit code."""
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
<p>Every step is a command, with its output below.</p>
<ul>$links</ul>
$sections
""",
)
