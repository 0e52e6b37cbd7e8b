"""What cog calls to make the gallery: every picture in docs/figures, with its page and caption."""

from __future__ import annotations

import re
from pathlib import Path

import cog

DOCS = Path(__file__).parent
_SHOWN = re.compile(r"\[([^\]]+)\]\((figures/[^)]+\.(?:svg|png))\)")


def gallery() -> None:
    """Write every picture under the title of the page that shows it first, and its caption."""
    seen: set[str] = set()
    for page in sorted(DOCS.glob("*.md")):
        if page.name in ("gallery.md", "index.md"):
            continue
        text = page.read_text(encoding="utf-8")
        found = {path: words for words, path in _SHOWN.findall(text) if path not in seen}
        if not found:
            continue
        title = text.splitlines()[0].removeprefix("# ")
        cog.outl(f"\n## {title}\n\nFrom [{page.stem}]({page.name}).")
        for path, words in found.items():
            cog.outl(f"\n![{words}]({path})\n\n*{words}*")
        seen |= found.keys()
    pictures = (path for path in (DOCS / "figures").iterdir() if path.suffix in (".svg", ".png"))
    names = {f"figures/{path.name}" for path in pictures}
    missing = sorted(names - seen - {"figures/tradeoff.svg"})
    if missing:
        raise SystemExit(f"no page shows {', '.join(missing)}.")
