"""The paper's experiments at the smallest scale, on the embedded model, as a user runs them."""

from pathlib import Path

from typer.testing import CliRunner

from powermark.evaluation.reproduction.targets import BY_FORMULA, BY_STUDY
from powermark.interfaces.cli import app


def test_everything_at_the_smallest_scale(tmp_path: Path) -> None:
    job = ["reproduce", "all", "--scale", "smoke", "--work", str(tmp_path / "work")]
    found = CliRunner().invoke(app, [*job, "-o", str(tmp_path / "out")])
    assert found.exit_code == 0, found.output
    written = {path.name for path in (tmp_path / "out").iterdir()}
    for name in (*BY_FORMULA, *BY_STUDY):
        assert any(file.startswith(name) and file.endswith(".csv") for file in written)
        assert f"{name}.svg" in written or name.startswith("table")
    page = (tmp_path / "out" / "reproduction.html").read_text()
    assert page.count("<tr>") > 15
    assert page.count("<img") == sum(file.endswith(".svg") for file in written)
    assert "wikitext-2" in page
    again = CliRunner().invoke(app, ["reproduce", "table-cells", *job[2:], "-o", str(tmp_path)])
    assert "texts, about" not in again.output  # what was written is used
    assert (tmp_path / "table-cells.csv").read_bytes() == (
        tmp_path / "out" / "table-cells.csv"
    ).read_bytes()
