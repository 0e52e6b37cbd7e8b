"""The page is made from the ledger, says what is broken, and names what was not run."""

from pathlib import Path

import pytest

from proof.__main__ import main
from proof.ledger import Ledger, Piece
from proof.page import PARTS, write_page


def keep(ledger: Ledger, part: str, name: str, found: object, **settings: object) -> None:
    ledger.run(part, [Piece(name, lambda **_: found, dict(settings))])


def sizes(rejected: int) -> list[dict[str, object]]:
    row = {"source": "c4", "length": 200, "detector": "count", "texts": [100] * 60}
    return [{**row, "rejected": [[rejected, 1, 0, 0]] * 60}]


def filled(folder: Path, *, rejected: int = 5, lost: int = 0) -> Ledger:
    ledger = Ledger(folder)
    mark = {"scheme": "pm1", "context_width": 4, "gamma": 0.5}
    keep(ledger, "size", "a", sizes(rejected), **mark)
    measured = {"value": 0.95, "low": 0.9, "high": 0.99, "texts": 200}
    unknown = {"value": None, "low": None, "high": None, "texts": 0}
    checks = [
        {"name": "power", "promised": 0.95, "measured": measured, "holds": True},
        {"name": "size", "promised": 0.05, "measured": unknown, "holds": None},
    ]
    keep(ledger, "promise", "n50", {"checks": checks}, model="m", texts=200, profiled=192)
    scenario = {"trials": 20, "lost": lost, "tracebacks": 0, "said": "powermark: a | b"}
    keep(ledger, "faults", "kill-scan", scenario)
    keep(ledger, "concurrency", "table", {**scenario, "lost": 0})
    fuzz = {"tried": 1000, "accepted": 10, "tracebacks": 0, "broken": []}
    keep(ledger, "fuzz", "spec-000000", fuzz, target="spec")
    secrets = {"files": 7, "bytes": 9, "forms": 30, "hits": 0, "where": [], "planted": 30}
    keep(ledger, "secrets", "canary", {**secrets, "found": 30})
    return ledger


def test_a_whole_proof(tmp_path: Path) -> None:
    assert write_page(filled(tmp_path / "ledger"), tmp_path, {"machine": "here"}) == []
    page = (tmp_path / "proof.md").read_text()
    assert page.count("| holds |") == len(PARTS)
    assert "not run" not in page
    assert "powermark: a \\| b" in page
    assert "0 hits" in page
    names = {path.name for path in (tmp_path / "proof").iterdir()}
    assert names == {"size.csv", "sizes.svg", "keys.svg", "promise.csv", "promises.svg"}
    rows = (tmp_path / "proof" / "size.csv").read_text().splitlines()
    assert len(rows) == 5


def test_what_is_broken_is_said(tmp_path: Path) -> None:
    broken = write_page(filled(tmp_path / "ledger", rejected=20, lost=1), tmp_path, {})
    assert broken == [
        "size: c4 pm1 h=4 gamma=0.5 count n=200 alpha=0.05: 0.2",
        "faults: kill-scan",
    ]
    assert "**1 broken**" in (tmp_path / "proof.md").read_text()


def test_parts_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["--work", str(tmp_path / "work"), "--docs", str(tmp_path / "docs")]
    options = [*places, "--scale", "tiny", "--workers", "1"]
    (tmp_path / "docs").mkdir()
    assert main(["secrets", *options]) == 0
    assert "secrets is done" in capsys.readouterr().err
    assert (tmp_path / "docs" / "proof.md").read_text().count("not run") == 5
    with pytest.raises(SystemExit):
        main(["sizes"])
    assert main(["promise", *options, "--model", str(tmp_path), "--data", str(tmp_path)]) == 2
    assert "cannot load the model" in capsys.readouterr().err
