"""Commands that are killed while a model writes."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from powermark.models import LanguageModel

_SCRIPT = """
import os, signal, sys
from powermark.interfaces.cli import main
from powermark.models import LanguageModel

complete, begun = LanguageModel.complete, []

def dies(self, *given, **named):
    begun.append(None)
    if len(begun) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return complete(self, *given, **named)

LanguageModel.complete = dies
main(sys.argv[2:])
"""


def kill_in_batch(number: int, *arguments: str) -> None:
    """Run a command in another process, which gets SIGKILL when it begins this batch."""
    command = [sys.executable, "-c", _SCRIPT, str(number), *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@contextmanager
def counted_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield a list that gets the number of texts of each batch that a model writes."""
    sizes: list[int] = []
    complete = LanguageModel.complete

    def counted(self: LanguageModel, prompts: list[str], **named: Any) -> Any:
        sizes.append(len(prompts))
        return complete(self, prompts, **named)

    with monkeypatch.context() as patch:
        patch.setattr(LanguageModel, "complete", counted)
        yield sizes
