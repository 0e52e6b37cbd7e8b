"""A server of a folder, and short ways to what its page shows."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

from powermark.interfaces.server.access import Tokens
from powermark.interfaces.server.app import create_app
from powermark.interfaces.server.library import load_library
from powermark.interfaces.server.service import new_service
from powermark.interfaces.server.telemetry import Log
from tests.interfaces.server import served


@contextmanager
def running(
    folder: Path, tokenizer: Any, *, tokens: Tokens | None = None, model: Any = None
) -> Iterator[str]:
    """Serve a folder and yield the page's address."""
    library = load_library(folder, [tokenizer])
    service = new_service(library, tokens=tokens, log=Log(io.StringIO()), model=model)
    with served(create_app(service)) as url:
        yield url


def get(page: Page, name: str) -> Locator:
    return page.get_by_test_id(name)


def middle(element: Locator) -> tuple[float, float]:
    box = element.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
