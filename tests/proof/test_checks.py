"""The checks of faults and concurrency can fail: each is shown what it is there to find."""

import io
import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from powermark.files import make_folder
from powermark.interfaces.server.telemetry import Log
from powermark.signals.profile_file import save_profile
from proof import concurrency, damage, disk, faults, scenario, servers
from proof.inputs import _small_profile
from proof.shop import Shop

FELL = "Traceback (most recent call last):\nValueError: no"


def test_what_cannot_be_read_after_a_kill_is_lost(
    shop: Shop, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.scenario.profile_of", lambda _: ["profile"])  # misses its output
    monkeypatch.setattr(Shop, "command", lambda *_, **__: ["sh", "-c", f"echo '{FELL}'; exit 1"])
    found = faults.kill_profile(folder=folder, kills=1)
    assert found["lost"] > 0
    assert found["tracebacks"] == 3  # alone, killed and at the end
    assert found["said"] == "ValueError: no"
    del shop


def test_an_answer_that_is_an_error_is_lost() -> None:
    """At once: it is not asked for again."""
    asked = []

    class Broken(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_error(500)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Broken) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert servers.ask(server.server_port, "w3") == b""
        finally:
            server.shutdown()
            thread.join()
    assert asked == ["/v1/detect"]


def test_a_servers_error_counts_as_a_traceback() -> None:
    log = io.StringIO()
    Log(log)("request", status=500)
    assert scenario.outcome(1, 0, log.getvalue(), "fine")["tracebacks"] == 0
    Log(log).error(ValueError("a text"), id="1")
    found = scenario.outcome(1, 0, log.getvalue(), "fine")
    assert found["tracebacks"] == 1
    assert '"kind": "ValueError"' in found["said"]


@pytest.mark.parametrize(
    ("left", "second", "lost"), [("half", 0, 1), ("whole", 1, 1), ("whole", 0, 0)]
)
def test_half_a_key_or_a_second_failure_is_lost(
    folder: str, monkeypatch: pytest.MonkeyPatch, left: str, second: int, lost: int
) -> None:
    key = f"powermark-key-1:{'ab' * (32 if left == 'whole' else 3)}"
    script = f"""for file; do :; done; echo "powermark: cannot write"; umask 077
    case "$file" in */alone/*) exit 0;; esac
    [ -e "$file.tried" ] && {{ echo {key} > "$file"; exit {second}; }}; : > "$file.tried"; exit 2"""
    monkeypatch.setattr(Shop, "command", lambda _, *a, **__: ["sh", "-c", script, "sh", *a])
    assert disk.full(folder=folder, what="key")["lost"] == lost


@pytest.mark.parametrize(
    ("what", "check"),
    [("key", "powermark.watermark.spec.WatermarkSpec.check_key"),
     ("model", "powermark.watermark.spec.WatermarkSpec.check_tokenizer"),
     ("records", "powermark.generation.records.crc32")],
)  # fmt: skip
def test_damage_that_nobody_notices_is_lost(
    folder: str, monkeypatch: pytest.MonkeyPatch, what: str, check: str
) -> None:
    monkeypatch.setattr(check, lambda *_: 7)
    assert damage.tried(folder=folder, what=what, times=30)["lost"] > 0


@pytest.mark.parametrize("harm", ["", "other", "left", "missing"])
def test_a_scan_by_two_is_compared_with_one_alone(tmp_path: Path, harm: str) -> None:
    alone = {"summary.json": b"{}", "part-0-0-1.parquet": b"PAR1"}
    out = make_folder(tmp_path / "out")
    for name, content in alone.items():
        (out / name).write_bytes(content if harm != "other" else content + b" ")
    if harm == "left":
        (out / ".part-0-0-1.parquet.x.new").touch()
    if harm == "missing":
        (out / "part-0-0-1.parquet").unlink()
    kept_out = ["", "powermark: another process is writing to 'out'."]
    assert concurrency._good("scan", tmp_path, [0, 2], kept_out, alone) == (not harm)


@pytest.mark.parametrize("harm", ["", "other", "left", "half"])
def test_a_profile_by_two_is_the_one_that_was_told(tmp_path: Path, harm: str) -> None:
    profile = _small_profile()
    save_profile(profile, tmp_path / "p.npz")
    told = [json.dumps(profile.about)] * 2
    if harm == "other":
        told[1] = json.dumps({"digest": "another"})
    if harm == "left":
        (tmp_path / ".p.npz.x.new").touch()
    if harm == "half":
        (tmp_path / "p.npz").write_bytes((tmp_path / "p.npz").read_bytes()[:100])
    good = partial(concurrency._good, "profile", tmp_path, [0, 0], told, {})
    assert bool(scenario.readable(good)) == (not harm)
