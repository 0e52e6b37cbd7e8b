"""The page in a real browser, used as a person would, by pointer and by keyboard.

Run with ``make browser``. With SCREENSHOTS set to a folder, every view is kept as a picture there,
light and dark and at the width of a phone.
"""

import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import uvicorn
from playwright.sync_api import Browser, Locator, Page, expect

from powermark.interfaces.server.access import Tokens, new_token
from powermark.interfaces.server.app import create_app
from powermark.interfaces.server.library import load_library
from powermark.interfaces.server.run import listen
from powermark.interfaces.server.service import new_service
from powermark.interfaces.server.telemetry import Log
from tests.interfaces.server import Ready, make_ready, text_of

SHOTS = os.environ.get("SCREENSHOTS")


class Site(NamedTuple):
    url: str
    ready: Ready


def running(ready: Ready, tokens: Tokens | None = None) -> Iterator[Site]:
    library = load_library(ready.folder, [ready.tokenizer])
    app = create_app(new_service(library, tokens=tokens, log=Log(io.StringIO())))
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield Site(f"http://127.0.0.1:{listener.getsockname()[1]}/", ready)
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    found = make_ready(tmp_path_factory.mktemp("page"))
    plain = np.random.default_rng(3).integers(0, 600, 100).tolist()
    (found.folder / "unmarked.txt").write_text(text_of(plain))
    return found


@pytest.fixture(scope="module")
def site(ready: Ready) -> Iterator[Site]:
    yield from running(ready)


def middle(element: Locator) -> tuple[float, float]:
    box = element.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def get(page: Page, name: str) -> Locator:
    return page.get_by_test_id(name)


def test_design_follows_its_controls(page: Page, site: Site) -> None:
    page.goto(f"{site.url}#/design?n_tokens=50&alpha=0.05&power=0.95&edit_rate=0")
    expect(get(page, "gamma")).to_have_text("0.9418")
    expect(get(page, "plan-kl")).to_have_text("0.0547")
    chosen = get(page, "chosen-frontier")
    chosen.wait_for()
    assert abs(float(chosen.get_attribute("data-x") or 0) - 0.0547) < 1e-4
    # the usual settings spend more, so they stand to the right of the plan
    for name in ("usual-0", "usual-1"):
        assert middle(get(page, name))[0] > middle(chosen)[0] + 50
    place = middle(get(page, "chosen-map"))
    assert place[0] > middle(get(page, "map-usual-1"))[0]
    assert "n_tokens=50" in page.url
    get(page, "power").fill("0.8")
    expect(get(page, "plan-power")).to_have_text("80.0 %")
    assert "power=0.8" in page.url
    slider = get(page, "n_tokens-slider")
    slider.focus()
    before = get(page, "n_tokens").input_value()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageUp")
    assert int(get(page, "n_tokens").input_value()) > int(before)
    page.reload()
    expect(get(page, "power")).to_have_value("0.8")
    get(page, "find").select_option("power")
    expect(get(page, "kl")).to_be_visible()
    get(page, "kl").fill("9")
    expect(get(page, "problem")).to_contain_text("kl must be below")


def test_designs_can_be_taken_along(page: Page, site: Site) -> None:
    page.goto(f"{site.url}#/design?n_tokens=50&alpha=0.05&power=0.95&edit_rate=0")
    expect(get(page, "gamma")).to_have_text("0.9418")
    clipboard = "navigator.clipboard.readText()"
    for name, wanted in (
        ("cli", "powermark plan --n-tokens 50"),
        ("python", "best = plan(n_tokens=50"),
    ):
        get(page, f"copy-{name}").click()
        expect(get(page, f"copy-{name}").locator("xpath=..")).to_contain_text("copied")
        assert wanted in page.evaluate(clipboard)
    get(page, "copy-spec").click()
    expect(get(page, "copy-spec").locator("xpath=..")).to_contain_text("copied")
    spec = json.loads(page.evaluate(clipboard))
    assert (spec["format"], spec["vocab_size"]) == ("powermark-spec", 600)


def test_a_text_is_examined_by_pointer(page: Page, site: Site) -> None:
    page.goto(f"{site.url}#/detect")
    get(page, "example-marked").click()
    expect(get(page, "verdict")).to_have_text("watermarked")
    tokens = get(page, "tokens").locator("span")
    assert tokens.count() == 120
    states = {kind: get(page, "tokens").locator(f".{kind}") for kind in ("green", "out")}
    assert (states["green"].count(), states["out"].count()) == (118, 2)
    look = "e => [getComputedStyle(e).textDecorationLine, getComputedStyle(e).fontStyle]"
    assert states["green"].first.evaluate(look) == ["underline", "normal"]
    assert states["out"].first.evaluate(look) == ["none", "italic"]
    tokens.nth(7).hover()
    expect(get(page, "readout")).to_contain_text("Token 8 of 120")
    goal, line = get(page, "goal"), get(page, "evidence-line")
    assert (line.bounding_box() or {})["y"] < middle(goal)[1]  # it crossed the line
    with page.expect_download() as saved:
        get(page, "save-html").click()
    assert "watermarked" in Path(saved.value.path()).read_text()
    with page.expect_download() as saved:
        get(page, "save-json").click()
    assert json.loads(Path(saved.value.path()).read_text())["verdict"] == "watermarked"
    assert "example=marked" in page.url
    assert "w17" not in page.url
    get(page, "example-unmarked").click()
    expect(get(page, "verdict")).to_have_text("no watermark found")


def test_a_text_is_examined_by_keyboard(page: Page, site: Site) -> None:
    page.goto(f"{site.url}#/detect")
    get(page, "text").focus()
    page.keyboard.insert_text('w1 w2 w3 <script>alert("x")</script>')
    get(page, "examine").focus()
    page.keyboard.press("Enter")
    expect(get(page, "verdict")).to_have_text("inconclusive")
    expect(get(page, "tokens")).to_contain_text("<script>")
    get(page, "tokens").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(get(page, "readout")).to_contain_text("Token 2 of")
    page.keyboard.press("ArrowLeft")
    expect(get(page, "readout")).to_contain_text("Token 1 of")
    get(page, "text").fill("")
    get(page, "examine").click()
    expect(get(page, "problem")).to_contain_text("no text yet")


def test_files_are_read_here(page: Page, site: Site, tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text_of(site.ready.marked))
    page.goto(f"{site.url}#/detect")
    get(page, "file").set_input_files(path)
    expect(get(page, "verdict")).to_have_text("watermarked")


def test_specs_and_views(page: Page, site: Site) -> None:
    page.goto(f"{site.url}#/specs")
    expect(get(page, "spec-demo")).to_contain_text("Planned for 80 counted tokens at level 0.01")
    assert get(page, "nav-generate").count() == 0
    get(page, "nav-detect").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Examine a text")
    assert get(page, "nav-detect").get_attribute("aria-current") == "page"
    page.go_back()
    expect(page.locator("h1")).to_have_text("Loaded specs")


def test_every_control_has_a_name(page: Page, site: Site) -> None:
    for view in ("design", "detect", "specs"):
        page.goto(f"{site.url}#/{view}")
        page.locator("h1").wait_for()
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("input, select, textarea, button, a")]
            .filter(e => !(e.labels?.length || e.ariaLabel || e.getAttribute("aria-label")
                           || e.textContent.trim())).map(e => e.outerHTML)"""
        )
        assert nameless == []


def test_a_token_is_asked_for(page: Page, ready: Ready, tmp_path: Path) -> None:
    token = new_token(tmp_path / "t", "alice", "detect")
    for site in running(ready, Tokens.load(tmp_path / "t")):
        page.goto(f"{site.url}#/detect")
        get(page, "token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-problem")).to_have_text("That token is not known here.")
        get(page, "token").fill(token)
        page.keyboard.press("Enter")
        get(page, "example-marked").click()
        expect(get(page, "verdict")).to_have_text("watermarked")
        assert get(page, "tokens").count() == 0
        expect(get(page, "detection")).to_contain_text("need the scope inspect")


def test_the_interface_is_described(page: Page, site: Site) -> None:
    page.goto(f"{site.url}docs")
    expect(page.locator('[data-path="/v1/detect/batch"]')).to_be_visible()


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_every_view_fits(browser: Browser, site: Site, look: str) -> None:
    """No view is wider than its window; kept as pictures where that is asked for."""
    phone = look == "phone"
    page = browser.new_context(
        color_scheme="dark" if look == "dark" else "light",
        viewport={"width": 390 if phone else 1280, "height": 844 if phone else 900},
    ).new_page()
    page.set_default_timeout(60_000)
    ends = {"design": "chosen-frontier", "detect": "evidence-line", "specs": "spec-demo"}
    for view, last in ends.items():
        page.goto(f"{site.url}#/{view}" + ("?example=marked" if view == "detect" else ""))
        get(page, last).wait_for(state="attached")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if SHOTS:
            page.screenshot(path=Path(SHOTS) / f"serve-{view}-{look}.png", full_page=True)
    page.context.close()
