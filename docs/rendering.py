"""What mkdocs is taught here: formulas as MathML, docstrings without Sphinx's roles, no other host.

Browsers draw MathML themselves, so formulas need no script and no font.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
_FOREIGN = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//')
_ROLE = re.compile(r":(?:func|class|mod|meth|data):<code>(?:~[\w.]*\.)?")


def _mathml(found: re.Match[str]) -> str:
    return convert(unescape(found[3]), display="block" if found[2] == "[" else "inline")


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with its formulas drawn by the browser."""
    return _ROLE.sub("<code>", _FORMULA.sub(_mathml, html))


def on_post_page(output: str, **_: Any) -> str:
    """Refuse a page that would ask another host for a script, a style, a font or a picture."""
    if found := _FOREIGN.search(output):
        raise PluginError(f"a page asks another host: {output[found.start() : found.end() + 60]!r}")
    return output
