"""The ledger: each piece is found once, kept whole, and found anew where it must be."""

import time
from pathlib import Path

import pytest

from proof.ledger import Ledger, Piece

calls: list[int] = []


def square(*, value: int) -> dict[str, int]:
    calls.append(value)
    return {"square": value * value}


def square_or_fail(*, value: int) -> dict[str, int]:
    if value < 0:
        raise ValueError(f"no root of {value}")
    time.sleep(0.5)  # later than the failure
    return square(value=value)


def pieces(*values: int) -> list[Piece]:
    return [Piece(f"piece-{i}", square, {"value": value}) for i, value in enumerate(values)]


def test_what_is_kept_is_not_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls.clear()
    ledger = Ledger(tmp_path)
    found = ledger.run("part", pieces(2, 3))
    assert [entry.found["square"] for entry in found] == [4, 9]
    assert "part: 2 of 2, piece-1" in capsys.readouterr().err
    assert ledger.run("part", pieces(2, 3)) == found == ledger.entries("part")
    assert calls == [2, 3]
    (tmp_path / "part" / "piece-1.json").write_text('{"name": "piece-1", "sett')
    assert ledger.run("part", pieces(5, 3))[0].found == {"square": 25}
    assert calls == [2, 3, 5, 3]
    assert len(ledger.run("part", pieces(5))) == len(ledger.entries("part")) == 1


def test_many_hands_come_to_the_same(tmp_path: Path) -> None:
    alone = Ledger(tmp_path / "alone").run("part", pieces(1, 2, 3))
    together = Ledger(tmp_path / "together").run("part", pieces(1, 2, 3), workers=2)
    assert [entry.found for entry in together] == [entry.found for entry in alone]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_piece_that_fails_does_not_take_others_with_it(tmp_path: Path, workers: int) -> None:
    ledger = Ledger(tmp_path, "abc1234")
    values = [1, -4, *range(2, 12)]
    some = [Piece(f"piece-{i:02}", square_or_fail, {"value": v}) for i, v in enumerate(values)]
    with pytest.raises(ValueError, match="no root of -4"):
        ledger.run("part", some, workers)
    kept = ledger.entries("part")
    assert kept[0].found == {"square": 1}
    assert kept[0].commit == "abc1234"
    assert len(kept) < len(values) - 1  # what was not begun is left for the next time
