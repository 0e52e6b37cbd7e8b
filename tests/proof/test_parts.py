"""Every other part of the proof at a tiny size."""

import dataclasses
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from proof import attacks, bombs, concurrency, damage, disk, drafts, faults, fuzz, promise, servers
from proof.faces import ADDRESSES
from proof.ledger import Ledger
from proof.loopback import is_own, loopback_only
from proof.scale import SCALES
from proof.shop import Shop

TINY = SCALES["tiny"]


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


def test_each_plan_has_a_key_of_its_own(shop: Shop, tmp_path: Path) -> None:
    """And the texts without a mark are written once for plans of one length and temperature."""
    assert len({promise.seed_of(asked) for asked in promise.PLANS}) == len(promise.PLANS)
    two = dataclasses.replace(TINY, plans=2)
    promise.prove(Ledger(tmp_path / "ledger"), two, shop.data, tmp_path, str(shop.model))
    kept = [path.read_text() for path in (tmp_path / "promise").glob("*.jsonl")]
    keys = sorted(re.findall(r"key:(\w+)", text)[0] for text in kept)
    assert len(keys) == len({*keys}) == 3


@pytest.mark.parametrize("kill", [faults.kill_scan, faults.kill_profile])
def test_what_is_killed_loses_nothing(folder: str, kill: Callable[..., dict[str, Any]]) -> None:
    found = kill(folder=folder, kills=1)
    assert (found["trials"], found["lost"], found["tracebacks"]) == (1, 0, 0), found
    assert found["said"].endswith(" of 1 kills met it at work")


def test_a_small_scan_keeps_what_it_has_done(folder: str) -> None:
    found = faults.kill_small_scan(folder=folder, kills=2)
    assert (found["lost"], found["tracebacks"]) == (0, 0), found
    assert re.fullmatch(r"2 kills; \d+ of 20000 documents were left", found["said"])


@pytest.mark.parametrize("kind", drafts.KINDS)
def test_drafts_do_not_weaken_a_mark(kind: str) -> None:
    found = drafts.tried(kind=kind, texts=6)
    assert (found["trials"], found["lost"]) == (24, 0), found
    assert json.dumps(found)  # which the ledger keeps


@pytest.mark.parametrize("what", bombs.BOMBS)
def test_bombs_are_refused(folder: str, what: str) -> None:
    """With exit code 2 and a sentence, below a gigabyte of memory."""
    found = bombs.tried(folder=folder, what=what)
    assert (found["code"], found["lost"], found["tracebacks"]) == (2, 0, 0), found
    assert 0 < found["megabytes"] <= bombs.MOST


def test_a_killed_server_loses_nothing(folder: str) -> None:
    found = servers.kill(folder=folder, kills=1)
    assert (found["lost"], found["tracebacks"]) == (0, 0)


def test_a_server_whose_clock_jumps_answers_the_same(folder: str) -> None:
    found = servers.clock_jumps(folder=folder)
    assert (found["trials"], found["lost"], found["tracebacks"]) == (50, 0, 0), found


@pytest.mark.parametrize("attack", [attacks.idle, attacks.slow])
def test_a_crowd_keeps_nobody_out(folder: str, attack: Callable[..., dict[str, Any]]) -> None:
    found = attack(folder=folder, connections=TINY.connections)
    assert (found["trials"], found["lost"], found["tracebacks"]) == (50, 0, 0), found


def test_marks_hold_nobody_up(folder: str) -> None:
    found = attacks.marks(folder=folder)
    assert (found["trials"], found["lost"], found["tracebacks"]) == (50, 0, 0), found


def test_secrets_are_not_served(folder: str) -> None:
    found = attacks.secrets(folder=folder)
    assert (found["trials"], found["lost"], found["tracebacks"]) == (6, 0, 0), found


@pytest.mark.parametrize("what", ["spec", "key"])
def test_a_full_disk_loses_nothing(folder: str, what: str) -> None:
    found = disk.full(folder=folder, what=what)
    assert (found["lost"], found["tracebacks"]) == (0, 0), found
    assert found["said"].startswith("powermark: cannot")


def test_a_full_output_is_said(folder: str) -> None:
    found = disk.full_output(folder=folder)
    assert (found["lost"], found["tracebacks"]) == (0, 0), found


@pytest.mark.parametrize("what", ["spec", "key", "cache", "records", "scan", "model"])
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


def test_the_fuzz_reaches_no_other_host() -> None:
    with loopback_only(), socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
        socket.create_connection(("localhost", port)).close()
        for host in ("192.0.2.1", "example.org", b"example.org"):
            with pytest.raises(OSError, match="no other host is"):
                socket.create_connection((host, port), timeout=1)  # type: ignore[arg-type]
        with socket.socket() as plain, pytest.raises(OSError, match="no other host is reached"):
            plain.connect_ex(("192.0.2.1", port))
    assert all(is_own(urlsplit(url).hostname) for url in ADDRESSES[1:3])


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


@pytest.mark.parametrize("what", ["key", "table", "scan"])
def test_pairs(folder: str, what: str) -> None:
    found = concurrency.pair(folder=folder, what=what, rounds=1)
    assert (found["lost"], found["tracebacks"]) == (0, 0), found


def test_tiny_is_smaller() -> None:
    full, tiny = SCALES["full"], TINY
    for field in dataclasses.fields(full):
        more, less = getattr(full, field.name), getattr(tiny, field.name)
        if isinstance(more, int) and field.name != "compat_human":
            assert less < more
