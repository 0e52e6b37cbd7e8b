"""The page in a real browser, used as a person would, by pointer and by keyboard."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from powermark import Lengths, WatermarkSpec, plan
from powermark.interfaces.server.access import Tokens, new_token
from tests.browser.site import get, middle, running
from tests.interfaces.server import Ready, make_ready, text_of

pytestmark = pytest.mark.browser


class Site(NamedTuple):
    url: str
    ready: Ready


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    """A small shelf, and a spec that `powermark demo` made and verified on the embedded model."""
    found = make_ready(tmp_path_factory.mktemp("page"))
    plain = np.random.default_rng(3).integers(0, 600, 100).tolist()
    (found.folder / "examples" / "unmarked.txt").write_text(text_of(plain))
    for name in ("verified.json", "verified.verify.json"):
        shutil.copy(Path(__file__).with_name(name), found.folder)
    covered = plan(alpha=0.05, coverage=0.8, lengths=Lengths.of([50, 80]), edit_rate=0.02)
    WatermarkSpec.from_plan(covered, vocab_size=600).save(found.folder / "answers.json")
    seen = {"value": 0.79, "low": 0.6, "high": 0.9, "texts": 40}
    check = {"name": "coverage", "promised": 0.8, "measured": seen, "holds": None}
    result = {"checks": [{**check, "texts_needed": 1234}], "texts": 40, "notes": []}
    about = {"model": "a model", "sampling": "temperature 0.7", "key": "ab12"}
    (found.folder / "answers.verify.json").write_text(json.dumps({**result, "about": about}))
    return found


@pytest.fixture(scope="module")
def site(ready: Ready) -> Iterator[Site]:
    with running(ready.folder, ready.tokenizer) as url:
        yield Site(url, ready)


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


def test_a_busy_server_is_asked_again(page: Page, site: Site) -> None:
    busy = {"error": {"code": "busy", "message": "too many steered plans."}}
    answers = iter([429])

    def answer(route: Route) -> None:
        if (status := next(answers, None)) is None:
            route.continue_()
        else:
            route.fulfill(status=status, json=busy, headers={"Retry-After": "1"})

    page.route("**/v1/plan", answer)
    page.goto(f"{site.url}#/design?n_tokens=50&alpha=0.05&power=0.95&edit_rate=0")
    expect(get(page, "gamma")).to_have_text("0.9418")
    assert next(answers, None) is None


def test_a_design_like_a_reference(page: Page, site: Site) -> None:
    page.goto(f"{site.url}#/design?n_tokens=50&alpha=0.05&power=0.5&edit_rate=0")
    expect(get(page, "profile")).to_have_value("plug-in")
    expect(get(page, "plan")).to_contain_text("assumes that every next-token distribution is very")
    expect(get(page, "entropy")).to_be_hidden()
    page.locator("summary").click()
    get(page, "profile").select_option("like:prose")
    expect(get(page, "plan")).to_contain_text("planned on the reference prose profile")
    assert "profile=like" in page.url
    get(page, "entropy").fill("2")
    expect(get(page, "plan")).to_contain_text("brought to a mean entropy of 2 nats")
    get(page, "chosen-map").wait_for()
    get(page, "copy-cli").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.endswith("--like prose --entropy 2")
    get(page, "copy-python").click()
    expect(page.get_by_text("copied").last).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert 'signal=reference_profile("prose", entropy=2)' in copied
    page.reload()
    expect(get(page, "entropy")).to_have_value("2")


def test_a_served_profile_is_the_default(page: Page, site: Site) -> None:
    def with_profile(route: Route) -> None:
        answer = route.fetch()
        loaded = answer.json()
        loaded["profiles"] = [{"name": "mine", "model": "m", "vocab_size": 600}]
        route.fulfill(response=answer, json=loaded)

    page.route("**/v1/specs", with_profile)
    page.goto(f"{site.url}#/design")
    expect(get(page, "profile")).to_have_value("mine")
    expect(get(page, "problem")).to_contain_text("no profile has this name")


def test_a_design_is_made_by_keyboard_alone(page: Page, site: Site) -> None:
    page.goto(f"{site.url}#/design")
    expect(get(page, "gamma")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(get(page, "find")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(get(page, "find")).to_have_value("power")
    page.keyboard.press("Tab")
    page.keyboard.insert_text("60")
    page.keyboard.press("Tab")
    late = "dispatchEvent(new HashChangeEvent('hashchange', {newURL: 'http://localhost/#main'}))"
    page.evaluate(late)  # of the skip link; a busy browser sends it when fields have changed
    get(page, "find").dispatch_event("change")  # a browser may send it when the focus has moved on
    expect(get(page, "n_tokens-slider")).to_be_focused()
    expect(get(page, "plan")).to_contain_text("of 60 counted tokens")
    assert "find=power" in page.url


def test_a_design_is_made_by_pointer_alone(page: Page, site: Site) -> None:
    page.goto(f"{site.url}#/design")
    expect(get(page, "gamma")).to_be_visible()
    slider = get(page, "n_tokens-slider").bounding_box()
    assert slider is not None
    page.mouse.click(slider["x"] + slider["width"] * 0.95, slider["y"] + slider["height"] / 2)
    assert int(get(page, "n_tokens").input_value()) > 1_000
    page.get_by_text("Model and context").click()
    get(page, "context_width").fill("4")
    expect(page).to_have_url(re.compile("context_width=4"))
    expect(get(page, "plan")).to_contain_text("h:4")


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
    assert (states["green"].count(), states["out"].count()) == (117, 3)  # the first, two contexts
    look = "e => [getComputedStyle(e).textDecorationLine, getComputedStyle(e).fontStyle]"
    assert states["green"].first.evaluate(look) == ["underline", "normal"]
    assert states["out"].first.evaluate(look) == ["none", "italic"]
    tokens.nth(7).hover()
    expect(get(page, "readout")).to_contain_text("Token 8 of 120")
    goal, line = get(page, "goal"), get(page, "evidence-line")
    box = line.bounding_box()
    assert box is not None
    assert box["y"] < middle(goal)[1]  # it crossed the line
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


def test_a_report_that_cannot_be_saved_says_why(page: Page, site: Site) -> None:
    page.goto(f"{site.url}#/detect?example=marked")
    expect(get(page, "verdict")).to_have_text("watermarked")
    said = {"error": {"code": "too-large", "message": "the report is too large."}}
    page.route("**/v1/report", lambda route: route.fulfill(status=413, json=said))
    get(page, "save-html").click()
    expect(get(page, "problem")).to_have_text("the report is too large.")
    expect(get(page, "problem")).to_be_in_viewport()
    expect(get(page, "verdict")).to_have_text("watermarked")  # what was found stays


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


def test_specs_are_looked_at_by_pointer_and_keyboard(page: Page, site: Site) -> None:
    page.goto(site.url)
    get(page, "nav-specs").click()
    expect(get(page, "spec-demo")).to_contain_text("Planned for 80 counted tokens at level 0.01")
    assert get(page, "nav-generate").count() == 0
    rows = get(page, "spec-verified").locator("tbody tr")
    assert rows.count() == 5
    expect(rows.nth(0)).to_have_text(re.compile(r"green rate.*0\.9969.*0\.9968.*kept"))
    expect(rows.nth(2)).to_have_text(re.compile(r"power.*0\.9957.*0\.847 to 1.*kept"))
    expect(get(page, "spec-verified")).to_contain_text("on 36 texts with the mark")
    expect(get(page, "spec-verified")).to_contain_text("4 of 36 marked texts had fewer than 100")
    answers = get(page, "spec-answers")
    expect(answers).to_contain_text("Planned to find 8")
    expect(answers).to_contain_text("of all answers at level 0.05, 80")
    expect(answers).to_contain_text("not enough texts: 1,234 needed")
    expect(answers).to_contain_text("model: a model · sampling: temperature 0.7")
    get(page, "spec-demo").get_by_role("link", name="Examine a text").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Examine a text")
    expect(get(page, "spec")).to_have_value("demo")
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
    """With the scope detect there is a verdict, and nothing that would be refused."""
    token = new_token(tmp_path / "t", "alice", "detect")
    known, model = Tokens.load(tmp_path / "t"), SimpleNamespace(name="a model", chats=False)
    with running(ready.folder, ready.tokenizer, tokens=known, model=model) as url:
        page.goto(f"{url}#/detect?detector=evalue")
        get(page, "token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-problem")).to_have_text("That token is not known here.")
        get(page, "token").fill(token)
        page.keyboard.press("Enter")
        get(page, "example-marked").click()
        expect(get(page, "verdict")).to_have_text("watermarked")
        assert get(page, "tokens").count() == 0
        expect(get(page, "detection")).to_contain_text("need the scope inspect")
        for name in ("nav-generate", "detector"):
            assert get(page, name).count() == 0
        assert token not in page.url


def test_the_interface_is_described(page: Page, site: Site) -> None:
    page.goto(f"{site.url}docs")
    expect(page.locator('[data-path="/v1/detect/batch"]')).to_be_visible()
