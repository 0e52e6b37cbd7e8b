"""The search for the canary finds it, says what it misses, and is made anew when it must be."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proof import canary
from proof.ledger import Ledger
from proof.shop import CANARY, Shop


def test_the_canary_is_found_where_it_is(tmp_path: Path, shop: Shop) -> None:
    ledger = Ledger(tmp_path / "ledger")
    work = tmp_path / "work"
    work.mkdir()
    (work / "log").write_text("nothing")
    [entry] = canary.prove(ledger, work, shop.folder)
    assert (entry.found["hits"], entry.found["files"]) == (0, 1)
    assert entry.found["found"] == entry.found["planted"] > 3 * entry.found["forms"]
    (work / "leak").write_text(f"key {CANARY.hex()}")
    np.savez_compressed(work / "leak.npz", key=np.frombuffer(CANARY, np.uint8))
    (work / shop.key.name).write_text(CANARY.hex())
    [entry] = canary.prove(ledger, work, shop.folder)
    assert {where.split(":")[0] for where in entry.found["where"]} == {"leak", "leak.npz"}


def test_a_folder_that_has_changed_is_searched_anew_and_one_that_has_not_is_not(
    tmp_path: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    searched: list[dict[str, Any]] = []

    def search(**settings: Any) -> dict[str, int]:
        searched.append(settings)
        return {"hits": 0}

    monkeypatch.setattr(canary, "search", search)
    (tmp_path / "log").write_text("nothing")
    canary.prove(ledger, tmp_path, shop.folder)
    canary.prove(ledger, tmp_path, shop.folder)  # its own entry is there now, and newer
    assert len(searched) == 1
    later = searched[0]["newest"] + 10**9
    os.utime(tmp_path / "log", ns=(later, later))
    canary.prove(ledger, tmp_path, shop.folder)
    assert [settings["newest"] for settings in searched] == [later - 10**9, later]


def test_a_text_in_a_damaged_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b'{"text": "a\\q"}{"text":"b\nc"}\xff')
    assert canary.contents(tmp_path / "damaged")[1] == b'"a\\q"b\nc'


@pytest.mark.parametrize("kind", ["log", "npz", "parquet", "html", "json", "compact"])
def test_the_search_for_the_canary_can_fail(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Blind to one kind of file, it says how much it misses."""
    read = canary.contents
    monkeypatch.setattr(canary, "contents", lambda p: [] if p.suffix == f".{kind}" else read(p))
    there, seen = canary.planted()
    assert 0 < there - seen < there
