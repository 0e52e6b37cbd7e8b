"""Generate in a real browser, with the embedded model."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from powermark import plan
from powermark.models import LanguageModel, load_model
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from tests.browser.site import get, running
from tests.interfaces.server import SECRET, write_key

pytestmark = pytest.mark.browser
PROMPT = "Our private harvest began"


@pytest.fixture(scope="module")
def smollm2() -> LanguageModel:
    return load_model("smollm2-135m")


@pytest.fixture(scope="module")
def url(smollm2: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("generate")
    WatermarkSpec.from_plan(
        plan(n_tokens=20, alpha=0.05, power=0.9999, gamma=0.5),
        vocab_size=smollm2.vocab_size,
        tokenizer_digest=smollm2.tokenizer_digest,
        key_fingerprint=SecretKey(bytes.fromhex(SECRET)).fingerprint,
    ).save(folder / "demo.json")
    write_key(folder / "demo.key")
    with running(folder, smollm2.tokenizer, model=smollm2) as found:
        yield found


def test_texts_are_written_by_pointer(page: Page, url: str) -> None:
    page.goto(f"{url}#/generate?prompt=planted&n_tokens=28&seed=3")
    expect(get(page, "prompt")).to_have_value("Why is the sky blue?")
    get(page, "style").select_option("raw")
    get(page, "prompt").fill(PROMPT)
    get(page, "write").click()
    expect(get(page, "status")).to_contain_text("Done.")
    greens = []
    for row in (0, 1):
        said = get(page, f"count-{row}").inner_text()
        green, scored = map(int, re.findall(r"\d+", said)[:2])
        assert get(page, f"text-{row}").locator(".green").count() == green
        line = get(page, f"live-{row}").get_attribute("points") or ""
        assert len(line.split()) == scored + 1
        greens.append(green)
    assert greens[0] > greens[1]
    assert "private" not in page.url
    assert "prompt" not in page.url
    get(page, "text-0").locator("xpath=..").get_by_role("button").click()
    expect(get(page, "verdict")).to_have_text("watermarked")
    page.go_back()
    expect(get(page, "prompt")).to_have_value(PROMPT)


def test_texts_are_written_and_stopped_by_keyboard(page: Page, url: str) -> None:
    page.goto(f"{url}#/generate?n_tokens=400")
    get(page, "prompt").focus()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(PROMPT)
    for _ in ("style", "n_tokens", "seed", "write"):
        page.keyboard.press("Tab")
    expect(get(page, "write")).to_be_focused()
    page.keyboard.press("Enter")
    expect(get(page, "text-0").locator("span").nth(3)).to_be_attached()
    page.keyboard.press("Enter")
    expect(get(page, "status")).to_have_text("Stopped.")
    expect(get(page, "write")).to_have_text("Write")
