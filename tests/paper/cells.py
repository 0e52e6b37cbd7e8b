"""Cells to run on a random model, and rows of cells with plain numbers."""

from pathlib import Path
from typing import Any

from powermark.models import LanguageModel
from powermark.paper.runner import Cell
from powermark.paper.workspace import Workspace
from powermark.watermark.keys import SecretKey

CORPORA = ("c4", "lfqa", "wikipedia")
KEY = SecretKey(bytes(range(32)))
CELLS = (
    Cell(corpus="c4", method="unmarked", texts=3),
    Cell(corpus="c4", method="grid", texts=4, gamma=0.5, delta=4.0),
    Cell(corpus="c4", method="opt", texts=3, gamma=0.5, rule="threshold", target=50.0),
    Cell(corpus="lfqa", method="dp", texts=3, gamma=0.4, delta=1.0, rule="dual ascent", target=0.3),
)


def workspace_of(writer: LanguageModel, data: Path, work: Path) -> Workspace:
    work.mkdir(exist_ok=True)
    return Workspace(writer, data, work, KEY)


def rows_of(tpr: float, kls: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {
            "corpus": corpus, "method": method, "cell": f"{corpus}{method}{i}", "gamma": 0.5,
            "delta": 1.0 + i, "target": 0.0, "texts": 50, "tpr": tpr, "tpr_low": tpr - 0.02,
            "tpr_high": tpr + 0.02, "tpr_z": tpr, "tpr_z_low": tpr - 0.02,
            "tpr_z_high": tpr + 0.02, "size": 0.04, "size_z": 0.06,
            "kl": kl * (1.0 + i), "kl_low": kl * (0.9 + i), "kl_high": kl * (1.1 + i),
            "green_rate": 0.6 + 0.1 * i,
        }
        for corpus in CORPORA
        for method, kl in kls.items()
        for i in range(3)
    ]  # fmt: skip
