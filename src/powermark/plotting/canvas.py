"""The common look of all figures: matplotlib imported late, colours for colour-blind readers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from powermark.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#009e73", "#a8579b", "#666666"
SKY, YELLOW, BLACK = "#56b4e9", "#b8860b", "#000000"
FORMATS = ("svg", "png", "pdf")


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, without a window system."""
    try:
        import matplotlib
        from matplotlib.figure import Figure as NewFigure
    except ImportError:
        raise MissingExtra(
            "drawing needs matplotlib, which is not installed.",
            hint="pip install 'powermark[plot]'",
        ) from None
    matplotlib.rcParams.update(
        {
            "axes.spines.right": False,
            "axes.spines.top": False,
            "font.size": 10,
            "svg.hashsalt": "powermark",  # equal data, equal file
        }
    )
    return NewFigure(figsize=(width, height), layout="constrained")


def render(figure: Figure, path: Path) -> bytes:
    """Return the figure as bytes, in the format of ``path``'s suffix."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise InvalidInput(
            f"a plot must end in .svg, .png or .pdf; got {path.name!r}.",
            hint="for example --plot curve.svg",
        )
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()
