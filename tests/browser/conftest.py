"""A Chromium, and a page that fails its test if it complains or asks another host for anything."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
expect.set_options(timeout=180_000)  # a machine may be busy


@pytest.fixture(
    scope="module"
)  # playwright's event loop is in the way of tests that have their own
def browser() -> Iterator[Browser]:
    """Debian's Chromium; where there is none, tests are skipped and say so."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: `make chromium`, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    said: list[str] = []
    asked: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    found = context.new_page()
    found.set_default_timeout(180_000)
    found.on("console", lambda message: said.append(message.text))
    found.on("pageerror", lambda error: said.append(str(error)))
    found.on("request", lambda request: asked.append(request.url))
    yield found
    context.close()
    own = ("http://127.0.0.1:", "data:", "blob:http://127.0.0.1:", "file:")
    assert [url for url in asked if not url.startswith(own)] == []
    assert [line for line in said if "the server responded with a status of 4" not in line] == []
