"""The HTML report in a real browser: it opens, is silent on the console, asks nobody anything."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

from powermark import plan
from powermark.detection.detector import Detector
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from tests.detection.marked import marked_ids

pytestmark = pytest.mark.browser


@pytest.fixture
def report(tmp_path: Path) -> Path:
    spec = WatermarkSpec.from_plan(
        plan(n_tokens=100, alpha=0.01, power=0.95, edit_rate=0.05), vocab_size=1000
    )
    key, rng = SecretKey(bytes(range(32))), np.random.default_rng(0)
    ids = [*marked_ids(spec, key, 150, rng, rate=0.97), *[3] * 5]
    path = tmp_path / "report.html"
    path.write_text(Detector(spec, key).inspect(ids).html(), encoding="utf-8")
    return path


def test_the_report_opens_alone(report: Path, page: Page) -> None:
    page.goto(report.as_uri())
    assert page.inner_text("h1") == "watermarked"
    looks = {
        kind: page.locator(f".text .{kind}").first.evaluate(
            "e => [getComputedStyle(e).textDecorationLine, getComputedStyle(e).fontStyle]"
        )
        for kind in ("green", "red", "out")
    }
    assert page.locator("svg polyline").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    # told apart without colour: underlined, plain, in italics
    assert looks == {
        "green": ["underline", "normal"],
        "red": ["none", "normal"],
        "out": ["none", "italic"],
    }
