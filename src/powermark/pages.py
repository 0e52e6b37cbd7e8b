"""Self-contained HTML pages: no script, style sheet or picture from elsewhere."""

from __future__ import annotations

from string import Template


def page(title: str, *, width: int, style: str, body: str) -> Template:
    """Return the template of a page, ``width`` rem wide, in the style of all reports.

    ``style`` is added to the common style; ``$names`` in ``body`` are filled in later.
    """
    return Template(f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>powermark: {title}</title>
<link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: {width}rem; margin: 2rem auto;
  padding: 0 1rem; color: #1b1b1b; background: #fff }}
h1 {{ font-size: 1.6rem }} footer {{ color: #555; font-size: .8rem; overflow-wrap: anywhere }}
{style}</style></head><body>
{body}</body></html>
""")
