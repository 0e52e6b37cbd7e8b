"""``powermark reproduce``: the paper's figures and tables, data first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from powermark.errors import InvalidInput
from powermark.files import write_file
from powermark.interfaces.cli.files import csv_bytes

EXAMPLES = """\
Examples:

  powermark reproduce fig-roots -o figures

  powermark reproduce table-hypergeometric
"""
_TARGETS = ("fig-roots", "table-hypergeometric")


def reproduce_command(
    target: Annotated[str, typer.Argument(help="fig-roots or table-hypergeometric.")],
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder to write into.")] = Path(),
) -> None:
    """Write the data of a figure or table of the paper as CSV, and the figure as SVG."""
    if target == "fig-roots":
        from powermark.evaluation.figures.canvas import render
        from powermark.evaluation.figures.roots import draw_roots, panel_a, panel_b

        a, b = panel_a(), panel_b()
        files = {"fig-roots-a.csv": csv_bytes(a), "fig-roots-b.csv": csv_bytes(b)}
        files["fig-roots.svg"] = render(draw_roots(a, b), Path("fig-roots.svg"))
    elif target == "table-hypergeometric":
        from powermark.evaluation.figures.hypergeometric import hypergeometric_table

        files = {"table-hypergeometric.csv": csv_bytes(hypergeometric_table())}
    else:
        raise InvalidInput(f"target must be one of {', '.join(_TARGETS)}; got {target!r}.")
    for name, content in files.items():
        write_file(folder / name, content)
        print(folder / name)
