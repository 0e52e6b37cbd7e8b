"""What mkdocs is taught here: formulas as MathML, and docstrings without Sphinx's roles.

Browsers draw MathML themselves, so formulas need no script, no font and no other host.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
_ROLE = re.compile(r":(?:func|class|mod|meth|data):(?=<code>)")


def _mathml(found: re.Match[str]) -> str:
    return convert(unescape(found[3]), display="block" if found[2] == "[" else "inline")


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with its formulas drawn by the browser."""
    return _ROLE.sub("", _FORMULA.sub(_mathml, html))
