"""Progress on stderr: a bar on a terminal, a line now and then elsewhere, nothing on stdout."""

import io
import re
import time
from collections.abc import Callable
from contextlib import redirect_stderr

import pytest

from powermark.interfaces.cli import terminal
from powermark.interfaces.cli.terminal import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def wait_for(found: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not found():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_terminal_gets_a_bar_with_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    with redirect_stderr(Terminal()) as err, progress("writing", 4) as advance:
        advance()
        advance()
        wait_for(lambda: "writing" in err.getvalue() and "50 %" in err.getvalue())
    assert capsys.readouterr() == ("", "")


def test_short_work_gets_no_bar() -> None:
    with redirect_stderr(Terminal()) as err, progress("planning", after=60.0) as advance:
        advance()
    assert err.getvalue() == ""
    with redirect_stderr(Terminal()) as err, progress("planning", after=0.01):
        wait_for(lambda: "planning" in err.getvalue())
    assert "%" not in err.getvalue()


def test_logs_get_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress("writing", 4):
        pass
    assert capsys.readouterr() == ("", "")  # it was over before the first line
    monkeypatch.setattr(terminal, "LINE_SECONDS", 0.01)
    with redirect_stderr(io.StringIO()) as err, progress("writing", 4) as advance:
        wait_for(
            lambda: bool(re.search(r"powermark: writing, \d+ s so far, 0 %\n", err.getvalue()))
        )
        advance()
        time.sleep(0.01)
        advance()
        wait_for(lambda: bool(re.search(r"so far, 50 %, about \d+ s left\n", err.getvalue())))
    with redirect_stderr(io.StringIO()) as err, progress("planning"):
        wait_for(lambda: bool(re.search(r"powermark: planning, \d+ s so far\n", err.getvalue())))
    assert "\x1b" not in err.getvalue()
    assert capsys.readouterr() == ("", "")


def test_times_in_words() -> None:
    found = [terminal._duration(seconds) for seconds in (45.2, 150.0, 7_500.0)]
    assert found == ["45 s", "2 min 30 s", "2 h 5 min"]
