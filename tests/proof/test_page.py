"""The page is made from the ledger, says what is broken, and names what was not run."""

import re
from pathlib import Path

import pytest

from proof import concurrency, faults
from proof.__main__ import main
from proof.about import about, commit_here
from proof.ledger import Ledger, Piece
from proof.page import PARTS, write_page
from proof.plain import DONE, LOST
from proof.scale import SCALES
from proof.size import DATASETS


def keep(ledger: Ledger, part: str, name: str, found: object, **settings: object) -> None:
    ledger.run(part, [Piece(name, lambda **_: found, dict(settings))])


def sizes(rejected: int) -> list[dict[str, object]]:
    row = {"source": "c4", "n_tokens": 200, "detector": "count", "texts": [100] * 60}
    short = {**row, "n_tokens": 400, "texts": [*[3] * 59, 0], "rejected": [[0, 0, 0, 0]] * 60}
    return [{**row, "rejected": [[rejected, 1, 0, 0]] * 60}, short]


def random_tokens(scheme: str) -> Piece:
    row = {"source": "simulated", "n_tokens": 50, "detector": "count", "texts": [40] * 60}
    found = [{**row, "rejected": [[2, 0, 0, 0]] * 60}]
    mark = {"scheme": scheme, "context_width": 1, "gamma": 0.25, "human": False}
    return Piece(f"{scheme}-simulated", lambda **_: found, {**mark, "texts": 40, "keys": 60})


def filled(folder: Path, *, rejected: int = 5, lost: int = 0) -> Ledger:
    ledger = Ledger(folder, "abc1234")
    mark = {"scheme": "pm1", "context_width": 4, "gamma": 0.5, "human": True}
    human = Piece("a", lambda **_: sizes(rejected), mark)
    ledger.run("size", [human, random_tokens("pm1"), random_tokens("hf-lefthash")])
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
    assert {path.name for path in (tmp_path / "proof").iterdir()} == {"size.csv", "promise.csv"}
    pictures = {f"proof-{name}.svg" for name in ("sizes", "keys", "promises")}
    assert {path.name for path in (tmp_path / "figures").iterdir()} == pictures
    assert all(f"](figures/{name})" in page for name in pictures)  # as the gallery looks for them
    rows = (tmp_path / "proof" / "size.csv").read_text().splitlines()
    assert len(rows) == 13
    assert "| c4 | 400 | pm1 | 4 | none: not compared |" in page
    assert "2,400 simulated texts a cell where pm1 has 2,400" in page
    assert "- found: 8 pieces at abc1234\n" in page
    assert rows[0].split(",")[5] == "n_tokens"
    assert "1 plans, 2 checks, 1 unknown | holds |" in page


def test_a_newcomer_is_told_what_was_done(tmp_path: Path) -> None:
    write_page(filled(tmp_path / "ledger"), tmp_path, {})
    page = (tmp_path / "proof.md").read_text()
    for part, claim in PARTS.items():
        assert f"## {part}\n\nThe claim: {claim}. Alone: `python -m proof {part}`.\n" in page
    assert all(LOST[part] in page for part in ("faults", "concurrency"))
    assert f"| kill-scan | {DONE['kill-scan']} | 20 | 0 | 0 |" in page


def test_every_scenario_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    monkeypatch.setattr(Ledger, "run", lambda _, __, pieces: names.extend(p.name for p in pieces))
    for part in (faults, concurrency):
        part.prove(Ledger(Path()), SCALES["tiny"], Path())
    assert names == [*DONE]


def test_what_no_check_can_tell_does_not_hold(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    unknown = {"value": None, "low": None, "high": None, "texts": 0}
    check = {"name": "size", "promised": 0.05, "measured": unknown, "holds": None}
    keep(ledger, "promise", "n50", {"checks": [check]}, model="m", texts=2, profiled=12)
    assert write_page(ledger, tmp_path, {}) == []
    page = (tmp_path / "proof.md").read_text()
    assert "1 plans, 1 checks, 1 unknown | unknown |" in page
    assert "| holds |" not in page


def test_pieces_of_several_commits_are_told_apart(tmp_path: Path) -> None:
    filled(tmp_path / "ledger")
    later = Ledger(tmp_path / "ledger", "def5678")
    found = {"trials": 1, "lost": 0, "tracebacks": 0, "said": "the same"}
    keep(later, "concurrency", "key", found)
    write_page(later, tmp_path, {})
    page = (tmp_path / "proof.md").read_text()
    assert "- found: 7 pieces at abc1234, 1 pieces at def5678\n" in page


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
    full = Ledger(tmp_path / "work" / "ledger-full")
    keep(full, "secrets", "of a full proof", {})
    assert main(["secrets", *options]) == 0
    assert [entry.name for entry in full.entries("secrets")] == ["of a full proof"]
    assert (tmp_path / "work" / "ledger-tiny" / "secrets" / "canary.json").exists()
    assert "secrets is done" in capsys.readouterr().err
    page = (tmp_path / "docs" / "proof.md").read_text()
    assert page.count("not run") == 5
    assert "`python -m proof secrets --work work --docs docs --scale tiny --workers 1`" in page
    assert (tmp_path / "work" / f"shop-{SCALES['tiny'].documents}").is_dir()
    with pytest.raises(SystemExit):
        main(["sizes"])


def test_what_is_missing_is_said_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--work", str(tmp_path / "work"), "--scale", "tiny", "--data", str(tmp_path)]
    (tmp_path / "c4.jsonl").touch()
    assert main(options) == 2
    assert "proof: no lfqa.jsonl, wikipedia.jsonl in" in capsys.readouterr().err
    assert not (tmp_path / "work").exists()
    for name in DATASETS:
        (tmp_path / f"{name}.jsonl").touch()
    assert main(["promise", *options, "--model", str(tmp_path)]) == 2
    assert "cannot load the model" in capsys.readouterr().err


def test_a_small_proof_leaves_the_page_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("proof.canary.prove", lambda *_: [])
    monkeypatch.setattr("proof.__main__.open_shop", lambda *_: None)
    assert main(["secrets", "--work", "work", "--scale", "tiny"]) == 0
    assert (tmp_path / "work" / "proof.md").exists()
    assert not (tmp_path / "docs").exists()
    assert main(["secrets", "--work", "work"]) == 0
    assert (tmp_path / "docs" / "proof.md").exists()


def test_where_a_proof_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"unknown|[0-9a-f]{7,}\+?", commit_here())
    told = about(["size", "--data", "/somewhere/data"], "full", "abc1234")
    assert "commit abc1234" in told["version"]
    assert told["command"] == "`python -m proof size --data data`"
    assert about([], "full", "")["command"] == "`python -m proof`"
    monkeypatch.setenv("PATH", "")
    assert commit_here() == "unknown"
