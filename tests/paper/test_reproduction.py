"""Every figure and table at the smallest scale, as a user runs it, on a small model."""

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from powermark.errors import InvalidInput
from powermark.interfaces.cli import app
from powermark.interfaces.cli.reproduce import Place, _workspace
from powermark.paper.report import BY_FORMULA, BY_STUDY
from powermark.paper.workspace import Workspace, in_turn


def test_everything_at_the_smallest_scale(tmp_path: Path, writer_folder: Path) -> None:
    words = np.random.default_rng(0).integers(2, 200, (60, 60))
    rows = [json.dumps({"text": " ".join(f"w{word}" for word in row)}) for row in words]
    (tmp_path / "c4.jsonl").write_text("\n".join(rows))
    job = ["--scale", "smoke", "--data", str(tmp_path), "--work", str(tmp_path / "work")]
    job += ["--model", str(writer_folder)]
    found = CliRunner().invoke(app, ["reproduce", "all", *job, "-o", str(tmp_path / "out")])
    assert found.exit_code == 0, found.output
    written = {path.name for path in (tmp_path / "out").iterdir()}
    for name in (*BY_FORMULA, *BY_STUDY):
        assert any(file.startswith(name) and file.endswith(".csv") for file in written)
        assert f"{name}.svg" in written or name.startswith("table")
    page = (tmp_path / "out" / "reproduction.html").read_text()
    statements = page.partition("</table>")[0]
    assert statements.count("<tr>") > 20
    assert statements.count("<tr>") == (tmp_path / "out" / "claims.csv").read_text().count("\n")
    assert page.count("</table>") == 5  # statements, and the small tables
    assert "powermark reproduce all --scale smoke --model" in page
    assert page.count("<img") == sum(file.endswith(".svg") for file in written)
    kept = CliRunner().invoke(app, ["reproduce", "records", *job, "-o", str(tmp_path / "out")])
    assert kept.exit_code == 0, kept.output
    table = parquet.read_table(tmp_path / "out" / "records-final.parquet")
    assert {"token_ids", "kl", "colours", "seed", "signature", "cell"} <= set(table.column_names)
    again = CliRunner().invoke(app, ["reproduce", "table-cells", *job, "-o", str(tmp_path)])
    assert "texts, about" not in again.output  # what was written is used
    assert (tmp_path / "table-cells.csv").read_bytes() == (
        tmp_path / "out" / "table-cells.csv"
    ).read_bytes()


def test_the_engine_option(tmp_path: Path, writer_folder: Path) -> None:
    def workspace(engine: str) -> Workspace:
        place = Place(tmp_path, tmp_path / "work", str(writer_folder), engine, 2, None)
        return _workspace(place)

    assert workspace("local").spread is in_turn
    assert workspace("ray").spread is not in_turn  # no cluster before there is work
    with pytest.raises(InvalidInput, match="--engine must be local or ray; got 'slurm'"):
        workspace("slurm")
