"""Every other part of the proof at a tiny size."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proof import canary, concurrency, damage, disk, faults, fuzz, promise, servers
from proof.ledger import Ledger
from proof.scale import SCALES
from proof.shop import CANARY, Shop

TINY = SCALES["tiny"]
FELL = "Traceback (most recent call last):\nValueError: no"


def test_promise(tmp_path: Path, shop: Shop) -> None:
    model = str(shop.model)
    [entry] = promise.prove(Ledger(tmp_path / "ledger"), TINY, shop.data, tmp_path, model)
    assert {check["name"] for check in entry.found["checks"]} == {
        "gamma_prime",
        "kl",
        "power",
        "size",
    }
    assert entry.found["texts"] == TINY.promised_texts


@pytest.mark.parametrize("kill", [faults.kill_scan, faults.kill_profile])
def test_what_is_killed_loses_nothing(folder: str, kill: Callable[..., dict[str, Any]]) -> None:
    found = kill(folder=folder, kills=1)
    assert (found["trials"], found["lost"], found["tracebacks"]) == (1, 0, 0), found
    assert found["said"].endswith(" of 1 kills met it at work")


def test_what_cannot_be_read_after_a_kill_is_lost(
    shop: Shop, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.disk.profile_of", lambda _: ["profile"])  # misses its output
    monkeypatch.setattr(Shop, "command", lambda *_, **__: ["sh", "-c", f"echo '{FELL}'; exit 1"])
    found = faults.kill_profile(folder=folder, kills=1)
    assert found["lost"] > 0
    assert found["tracebacks"] == 3  # alone, killed and at the end
    assert found["said"] == "ValueError: no"
    del shop


def test_a_killed_server_loses_nothing(folder: str) -> None:
    found = servers.kill(folder=folder, kills=1)
    assert (found["lost"], found["tracebacks"]) == (0, 0)


def test_a_server_whose_clock_jumps_answers_the_same(folder: str) -> None:
    found = servers.clock_jumps(folder=folder)
    assert (found["trials"], found["lost"], found["tracebacks"]) == (50, 0, 0), found


@pytest.mark.parametrize("what", ["spec", "key"])
def test_a_full_disk_loses_nothing(folder: str, what: str) -> None:
    found = disk.full(folder=folder, what=what)
    assert (found["lost"], found["tracebacks"]) == (0, 0), found
    assert found["said"].startswith("powermark: cannot")


def test_a_full_output_is_said(folder: str) -> None:
    found = disk.full_output(folder=folder)
    assert (found["lost"], found["tracebacks"]) == (0, 0), found


@pytest.mark.parametrize("what", ["spec", "key", "cache", "records", "scan"])
def test_damage_is_noticed(folder: str, what: str) -> None:
    found = damage.tried(folder=folder, what=what, times=30)
    assert (found["lost"], found["tracebacks"]) == (0, 0), found
    assert found["trials"] >= 20


@pytest.mark.parametrize("target", fuzz.SHARES)
def test_fuzz(folder: str, target: str) -> None:
    found = fuzz.block(folder=folder, target=target, seed=0, inputs=20)
    assert found["broken"] == []
    assert found["tried"] >= 20
    assert 0 < found["accepted"] + 1 <= found["tried"] + 1


def test_fuzz_tells_a_traceback(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proof.inputs.load_key", lambda _: os.environ["NO_SUCH_KEY"])
    found = fuzz.block(folder=folder, target="key", seed=0, inputs=5)
    assert found["tracebacks"] == found["tried"]
    assert "KeyError" in found["broken"][0]["said"]


@pytest.mark.parametrize(
    ("target", "use"), [("spec", "proof.inputs.verify"), ("profile", "proof.inputs.plan")]
)
def test_what_is_accepted_is_used(
    folder: str, monkeypatch: pytest.MonkeyPatch, target: str, use: str
) -> None:
    monkeypatch.setattr(use, lambda *_, **__: os.environ["NO_SUCH_KEY"])
    found = fuzz.block(folder=folder, target=target, seed=0, inputs=100)
    assert 0 < found["tracebacks"] < found["tried"]


@pytest.mark.parametrize("what", ["key", "table"])
def test_pairs(folder: str, what: str) -> None:
    found = concurrency.pair(folder=folder, what=what, rounds=1)
    assert (found["lost"], found["tracebacks"]) == (0, 0), found


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


@pytest.mark.parametrize("kind", ["log", "npz", "parquet", "html", "json"])
def test_the_search_for_the_canary_can_fail(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Blind to one kind of file, it says how much it misses."""
    read = canary.contents
    monkeypatch.setattr(canary, "contents", lambda p: [] if p.suffix == f".{kind}" else read(p))
    there, seen = canary.planted()
    assert 0 < there - seen < there


def test_tiny_is_smaller() -> None:
    full, tiny = SCALES["full"], TINY
    for field in dataclasses.fields(full):
        more, less = getattr(full, field.name), getattr(tiny, field.name)
        if isinstance(more, int) and field.name != "compat_human":
            assert less < more
