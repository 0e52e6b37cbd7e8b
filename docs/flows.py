"""Which modules four commands pass through: ``python docs/flows.py [FOLDER]`` prints them.

A module is passed through when one of its functions runs. Modules are listed in the order of their
first function; those that every command uses (errors, checks, files, ...) are left out. Only the
command line is used, so the script measures any version of the code that PYTHONPATH points to;
FOLDER has files that this version can read, if it cannot read those of tests/golden/written.
"""

from __future__ import annotations

import inspect
import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

FILES = Path(__file__).parents[1] / "tests" / "golden" / "written"
MARK = ("--spec", "plain.json", "--key", "public.key", "--model", "model")
FLOWS: dict[str, tuple[str, ...]] = {
    "plan": (
        *("plan", "--n-tokens", "30", "--alpha", ".05", "--power", ".9"),
        *("--profile", "profile.npz", "--steer", "-o", "new.json"),
    ),
    "mark": ("generate", *MARK, "--n-tokens", "20", "--seed", "1", "w9 w8 w7"),
    "detect": ("detect", *MARK, "texts/plain.txt"),
    "scan": ("scan", *MARK, "texts", "-o", "scan", "--workers", "1"),
}
EVERYWHERE = {  # the last one is where fields was before 0.2
    f"powermark.{name}"
    for name in (
        *("errors", "checks", "files", "signature", "tables", "version", "pages", "fields"),
        "calibration.fields",
    )
}


class Flow(NamedTuple):
    """A command and the modules it passes through, without ``powermark.``."""

    name: str
    command: tuple[str, ...]
    modules: list[str]


def measure(name: str, files: Path = FILES) -> Flow:
    """Run the command of a flow on a copy of some files."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "files"
        shutil.copytree(files, folder)
        (folder / "public.key").chmod(0o600)
        # a plan could once not take the vocabulary from its profile
        for more in ((), ("--model", "model")):
            command = FLOWS[name] + more
            if (found := _traced(command, folder)) is not None:
                shown = [n.removeprefix("powermark.") for n in found if n not in EVERYWHERE]
                return Flow(name, command, shown)
    raise SystemExit(f"powermark {' '.join(FLOWS[name])} failed")


def measure_all(files: Path = FILES) -> list[Flow]:
    """Run the commands of all flows, several at a time."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(partial(measure, files=files), FLOWS))


def _traced(command: tuple[str, ...], folder: Path) -> list[str] | None:
    """Run a command under :func:`_watch` in a process of its own; None where it fails."""
    done = subprocess.run(
        [sys.executable, __file__, "--watch", *command],
        cwd=folder,
        env={**os.environ, "POWERMARK_CACHE": str(folder / "tables")},
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def _watch(command: list[str]) -> int:
    """Run the command line and print, as its last line, the modules whose functions ran."""
    found: dict[str, None] = {}
    importing = threading.local()  # modules that are being imported on this thread

    def seen(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event not in ("call", "return") or not str(name).startswith("powermark"):
            return
        code, depth = frame.f_code, getattr(importing, "depth", 0)
        if code.co_name == "<module>":
            importing.depth = depth + (1 if event == "call" else -1)
        elif event == "call" and not depth and code.co_flags & inspect.CO_OPTIMIZED:  # no class
            found.setdefault(name)

    sys.argv = ["powermark", *command]
    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        runpy.run_module("powermark", run_name="__main__")
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    finally:
        sys.setprofile(None)
    sys.stdout.write(f"\n{json.dumps(list(found))}\n")
    return code


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watch"]:
        sys.exit(_watch(sys.argv[2:]))
    for each in measure_all(*map(Path, sys.argv[1:2])):
        sys.stdout.write(f"{each.name}: {len(each.modules)} modules\n  {' '.join(each.modules)}\n")
