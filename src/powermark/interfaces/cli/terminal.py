"""Errors, control characters and progress on stderr."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from powermark.errors import PowermarkError

if TYPE_CHECKING:
    from rich.progress import Progress

LINE_SECONDS = 30.0  # between lines about progress, where stderr is no terminal
_PERIOD = 600.0  # seconds whose speed estimates the time left

# all but tabs and line ends, and the characters that reverse the direction of writing
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# library errors write the names of arguments in backquotes, or begin with one
_ARGUMENT = re.compile("`([a-z_]+)`|^([a-z_]+)(?= must )")


def visible(text: str) -> str:
    r"""Replace control characters by their codes.

    >>> print(visible("\x1b[2J"))
    \x1b[2J
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def with_options(sentence: str, options: Mapping[str, str]) -> str:
    """Write arguments as options: those in backquotes, and one that a sentence begins with.

    >>> with_options("missing: `n_tokens`.", {"n_tokens": "--n-tokens"})
    'missing: --n-tokens.'
    """

    def option(found: re.Match[str]) -> str:
        return options.get(found[1] or found[2], found[0])

    return _ARGUMENT.sub(option, sentence)


def complain(
    error: PowermarkError, source: str = "", options: Mapping[str, str] | None = None
) -> None:
    """Print an error and its hint on stderr; ``options`` are the command's, by argument."""
    said = with_options(str(error), options or {})
    print(visible(f"powermark: {source}{said}"), file=sys.stderr)
    if error.hint is not None:
        print(visible(f"  hint: {with_options(error.hint, options or {})}"), file=sys.stderr)


@contextmanager
def progress(
    label: str, steps: int | None = None, *, after: float = 0.0
) -> Iterator[Callable[[], None]]:
    """Show progress and the time left on stderr; yield a function that advances it by one step.

    A terminal gets a bar, and anything else a line every LINE_SECONDS.

    Parameters
    ----------
    steps
        None if their number is unknown; then only the time is shown.
    after
        Seconds before a terminal gets the bar.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeftColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *([] if steps is None else [TextColumn("{task.percentage:>3.0f} %"), TimeLeftColumn()]),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=_PERIOD,
    )
    task = bar.add_task(label, total=steps)
    show = _show if sys.stderr.isatty() else _log
    over = Event()
    shown = Thread(target=show, args=(bar, after, over), daemon=True)
    shown.start()
    try:
        yield lambda: bar.advance(task)
    finally:
        over.set()
        shown.join()


def _show(bar: Progress, after: float, over: Event) -> None:
    """Show the bar until the work is over, if that takes longer than ``after`` seconds."""
    if not over.wait(after):
        with bar:
            over.wait()


def _log(bar: Progress, _: float, over: Event) -> None:
    """Print a line every LINE_SECONDS until the work is over."""
    while not over.wait(LINE_SECONDS):
        [task] = bar.tasks
        parts = [f"{task.description}, {_duration(task.elapsed or 0.0)} so far"]
        if task.total is not None:
            parts.append(f"{task.percentage:.0f} %")
        if task.time_remaining is not None:
            parts.append(f"about {_duration(task.time_remaining)} left")
        print(f"powermark: {', '.join(parts)}", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    """Write a time.

    >>> _duration(45), _duration(150), _duration(7_500)
    ('45 s', '2 min 30 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60} min"
