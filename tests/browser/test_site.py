"""The documentation in a real Chromium; the page fixture fails if another host is asked."""

import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

ROOT = Path(__file__).parents[2]
PAGES = ("index", "tutorial", "explanation/statistics", "explanation/peers", "reference/planning")


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    subprocess.run(["mkdocs", "build", "--quiet"], cwd=ROOT, check=True)
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = partial(quiet, directory=str(ROOT / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(page: Page, site: str, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site}/{name}.html")
    expect(page.locator("h1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_formulas_are_drawn(page: Page, site: str) -> None:
    page.goto(f"{site}/explanation/statistics.html")
    fraction = page.locator("math mfrac").first
    box = fraction.bounding_box()
    assert box is not None
    assert box["height"] > 20  # a numerator above a denominator, not a line of text


def test_every_picture_of_the_gallery_is_there(page: Page, site: str) -> None:
    page.goto(f"{site}/gallery.html")
    widths = page.eval_on_selector_all("article img", "all => all.map(one => one.naturalWidth)")
    assert len(widths) > 5
    assert min(widths) > 0


def test_search_finds_a_page(page: Page, site: str) -> None:
    page.goto(f"{site}/index.html")
    page.locator("input.md-search__input").click()
    page.keyboard.type("Clopper", delay=50)
    expect(page.locator(".md-search-result__item").first).to_be_visible()
