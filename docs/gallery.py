"""What cog calls to make the gallery: every figure under docs, with its page and caption."""

from __future__ import annotations

import re
from pathlib import Path

import cog

from powermark.paper.report import CAPTIONS

DOCS = Path(__file__).parent
_SHOWN = re.compile(r"\[([^\]]+)\]\((figures/[^)]+\.(?:svg|png))\)")
_SCREENSHOT = re.compile(r"figures/serve-(\w+)-(\w+)\.png")
_LOOKS = ("light", "dark", "phone")
_FIRST = "figures/tradeoff.svg"  # above the list
_MODELS = {"smollm2": "SmolLM2-135M", "gemma3": "Gemma-3-270M"}


def figures() -> set[str]:
    """Return every figure, by its path from docs."""
    found = {*DOCS.glob("figures/*.*"), *DOCS.glob("reproduction/*/*.*")}
    return {path.relative_to(DOCS).as_posix() for path in found if path.suffix in (".svg", ".png")}


def gallery() -> None:
    """Write the pages' figures under their titles, then those of the reproduction by model."""
    seen = {_FIRST}
    for page in sorted(DOCS.glob("*.md")):
        if page.name in ("gallery.md", "index.md"):
            continue
        text = page.read_text(encoding="utf-8")
        words: dict[str, str] = {}
        for said, path in _SHOWN.findall(text):
            words.setdefault(path, said)
        new = sorted((path for path in words if path not in seen), key=_place)
        found = {path: _caption(path, words) for path in new}
        if found:
            title = text.splitlines()[0].removeprefix("# ")
            _write(title, f"From [{page.stem}]({page.name}).", found)
            seen |= found.keys()
    for folder, model in _MODELS.items():
        ours = sorted(path for path in figures() if path.startswith(f"reproduction/{folder}/"))
        told = {path: CAPTIONS[Path(path).stem].rstrip(".") for path in ours}
        _write(
            f"The paper, reproduced: {model}",
            "From [reproduction](reproduction.md); with every statement and table on "
            f"[a page of its own](reproduction/{folder}/reproduction.html).",
            told,
        )
        seen |= told.keys()
    if missing := sorted(figures() - seen):
        raise SystemExit(f"no page shows {', '.join(missing)}.")


def _place(path: str) -> tuple[str, int]:
    """Say where a screenshot belongs, view by view; other figures stay in their page's order."""
    screenshot = _SCREENSHOT.fullmatch(path)
    return ("", 0) if screenshot is None else (screenshot[1], _LOOKS.index(screenshot[2]))


def _caption(path: str, words: dict[str, str]) -> str:
    """Return what is seen: a page's words; of a screenshot the view, how, and what is in it."""
    screenshot = _SCREENSHOT.fullmatch(path)
    if screenshot is None:
        return words[path][:1].upper() + words[path][1:]
    view, look = screenshot.groups()
    views = [other for other in words if other.startswith(f"figures/serve-{view}-")]
    _, _, content = max((words[other] for other in views), key=len).partition(": ")
    return f"{view.capitalize()}, {look}" + (f": {content}" if content else "")


def _write(title: str, source: str, found: dict[str, str]) -> None:
    cog.outl(f"\n## {title}\n\n{source}")
    for path, words in found.items():
        cog.outl(f"\n![{words}]({path})\n\n*{words}*")
