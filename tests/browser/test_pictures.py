"""Every view in light, dark and at the width of a phone: nothing is wider than its window.

``make pictures`` keeps what is seen in docs/figures, of the demo's folder and the embedded model.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from powermark.models import load_model
from tests.browser.site import get, running
from tests.interfaces.server import make_ready

pytestmark = pytest.mark.browser
KEPT = os.environ.get("PICTURES")  # where to keep them; then DEMO is what to show
LOOKS = {"light": 1200, "dark": 1200, "phone": 390}
ENDS = {"design": "chosen-frontier", "detect": "evidence-line", "specs": "spec-demo"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if KEPT:
        model = load_model("smollm2-135m")
        with running(Path(os.environ["DEMO"]), model.tokenizer, model=model) as found:
            yield found
        return
    ready = make_ready(tmp_path_factory.mktemp("pictures"))
    with running(ready.folder, ready.tokenizer) as found:
        yield found


@pytest.mark.parametrize("look", LOOKS)
def test_every_view_fits(browser: Browser, url: str, look: str) -> None:
    context = browser.new_context(
        color_scheme="dark" if look == "dark" else "light",
        viewport={"width": LOOKS[look], "height": 844 if look == "phone" else 800},
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(60_000)
    for view, last in ENDS.items():
        page.goto(f"{url}#/{view}" + ("?example=marked" if view == "detect" else ""))
        get(page, last).wait_for(state="attached")
        _look_at(page, view, look)
    if KEPT:
        page.goto(f"{url}#/generate?n_tokens=120&seed=1")
        get(page, "write").click()
        expect(get(page, "status")).to_contain_text("Done.", timeout=600_000)
        _look_at(page, "generate", look)
    context.close()


def _look_at(page: Page, view: str, look: str) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if KEPT:
        path = Path(KEPT) / f"serve-{view}-{look}.png"
        page.screenshot(path=path, full_page=True)
        with Image.open(path) as picture:  # a third of the bytes, and nobody sees it
            picture.convert("RGB").quantize(160).save(path, optimize=True)
