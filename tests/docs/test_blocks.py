"""The code blocks of README, tutorial and guides are run, and print what the pages show."""

from pathlib import Path

import blocks
import pytest

ROOT = Path(__file__).parents[2]

PAGES = ("README.md", "docs/tutorial.md", "docs/howto/plan.md", "docs/howto/rotate-keys.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs_and_prints_what_is_shown(page: str, tmp_path: Path) -> None:
    written = (ROOT / page).read_text(encoding="utf-8")
    assert blocks.differences(written, blocks.run_page(written, tmp_path)) == []


def test_a_page_that_is_wrong_is_found_out(tmp_path: Path) -> None:
    page = "```console\n$ echo 1\n2\n```\n\n```pycon\n>>> 1 + 1\n3\n```\n"
    found = blocks.run_page(page, tmp_path)
    assert blocks.differences(page, found)[2:] == [
        "@@ -1,2 +1,2 @@", " $ echo 1", "-2", "+1",
        "--- written", "+++ printed", "@@ -1,2 +1,2 @@", " >>> 1 + 1", "-3", "+2",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no extra 'cheese'"):
        blocks.run_page("```console\npip install '.[cheese]'\n```\n", tmp_path)
    with pytest.raises(ZeroDivisionError):
        blocks.run_page("```python\n1 / 0\n```\n", tmp_path)
    varying = "<!-- varies -->\n```console\n$ echo watermarked\n{}\n```\n"
    found = blocks.run_page(varying.format("watermarked\np 1"), tmp_path)
    assert blocks.differences(varying.format("watermarked\np 2"), found) == []
    assert blocks.differences(varying.format("inconclusive"), found) != []
    told = "```console\n$ echo spec: s.json (digest {})\n```\n"
    pages = [told.format(digest) for digest in ("0" * 32, "1" * 32, "2")]
    assert blocks.differences(pages[0], pages[1]) == []
    assert blocks.differences(pages[0], pages[2]) != []
