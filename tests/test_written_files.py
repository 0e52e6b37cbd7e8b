"""Files written before the packages were regrouped are read and resumed with the same results.

``tests/golden/written/README.md`` says which command wrote each. Interrupted jobs resume only in
the version that began them, so the commands run in a process of their own with that version.
"""

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from powermark import Watermark, WatermarkSpec, load_profile
from powermark.models import load_tokenizer
from tests.golden.written.write import (
    DETECTIONS,
    MODEL,
    PLANS,
    POWER,
    PROFILE,
    SCAN,
    STAMP,
    VERIFY,
)

WRITTEN = Path(__file__).parent / "golden" / "written"
RESULTS: dict[str, Any] = json.loads((WRITTEN / "written.json").read_text(encoding="utf-8"))
SPECS = sorted({*PLANS, "by-hand"})
SENTENCES = {"notes", "warnings"}  # worded anew from time to time
VERDICTS = {"holds", "texts_needed", "outcome"}  # some took fewer texts when it was recorded
COMMANDS = """
import contextlib, io, json, runpy, sys
import powermark.version
powermark.version.__version__ = sys.argv[1]
results = []
for command in json.load(sys.stdin):
    sys.argv = ["powermark", *command]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            runpy.run_module("powermark", run_name="__main__")
            code = 0
        except SystemExit as error:
            code = error.code or 0
    results.append([code, out.getvalue()])
print(json.dumps(results))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the files, with what git does not keep: a private key, a time of modification."""
    copy = tmp_path / "written"
    shutil.copytree(WRITTEN, copy)
    (copy / "public.key").chmod(0o600)
    os.utime(copy / "corpus.jsonl.zst", (STAMP, STAMP))
    return copy


def run(folder: Path, *commands: tuple[str, ...]) -> Iterator[Any]:
    """Run commands in the folder, with its null tables, and yield the JSON that each prints."""
    found = subprocess.run(
        [sys.executable, "-c", COMMANDS, RESULTS["version"]],
        input=json.dumps(commands),
        cwd=folder,
        env={**os.environ, "POWERMARK_CACHE": str(folder / "tables")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    for command, (code, out) in zip(commands, json.loads(found.stdout), strict=True):
        # verify says that a promise is broken, or has too few texts
        assert code in (0, 1, 3), (command, found.stderr)
        yield json.loads(out)


def same(found: Any, recorded: Any, near: tuple[float, float] = (1e-9, 1e-300)) -> None:
    """Check that a result has every field it had, with the same value.

    ``near`` is the relative and the absolute tolerance of floats.
    """
    if isinstance(recorded, dict):
        for name in recorded.keys() - SENTENCES - VERDICTS:
            same(found[name], recorded[name], near)
    elif isinstance(recorded, list):
        assert len(found) == len(recorded)
        for one, other in zip(found, recorded, strict=True):
            same(one, other, near)
    elif isinstance(recorded, float):
        assert found == pytest.approx(recorded, rel=near[0], abs=near[1])
    else:
        assert found == recorded


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_is_read_and_written_as_it_was(name: str) -> None:
    content = json.loads((WRITTEN / f"{name}.json").read_text(encoding="utf-8"))
    spec = WatermarkSpec.load(WRITTEN / f"{name}.json")
    assert spec.digest == content["digest"]
    assert spec.to_dict() == content


def test_a_profile_is_read_and_predicts_what_it_did() -> None:
    profile = load_profile(WRITTEN / "profile.npz")
    assert profile.about["digest"] == RESULTS["profile"]["digest"]
    assert float(profile.green_rate(0.4, 1.5)) == pytest.approx(RESULTS["power"]["gamma_prime"])
    assert float(profile.kl(0.4, 1.5)) == pytest.approx(RESULTS["power"]["kl"])


def test_a_text_is_detected_with_spec_and_key(folder: Path) -> None:
    mark = Watermark.load(folder / "plain.json", folder / "public.key")
    tokenizer = load_tokenizer(str(folder / "model"))
    for name in ("plain", "unmarked"):
        text = (folder / "texts" / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")
        same(mark.detect(text, tokenizer=tokenizer).to_dict(), shown(name))


def shown(name: str) -> dict[str, Any]:
    """Return a recorded detection, without the command line's own fields and the version."""
    return {
        k: v for k, v in RESULTS["detections"][name].items() if k not in ("source", "signature")
    }


def test_plans_and_powers_are_the_same(folder: Path) -> None:
    """Steered plans and plans for windows are left out: planning them again is not reading them."""
    names = ("plain", "evalue")
    power, *plans = run(folder, POWER, *(("plan", *PLANS[name], "--json") for name in names))
    same(power, RESULTS["power"])
    for name, found in zip(names, plans, strict=True):
        same(found, quantities(RESULTS["plans"][name]))


@pytest.mark.parametrize("name", PLANS)
def test_the_plan_in_a_spec_says_what_it_said(name: str) -> None:
    found = WatermarkSpec.load(WRITTEN / f"{name}.json").plan
    assert found is not None
    same(found.to_dict(), quantities(RESULTS["plans"][name]))


def quantities(recorded: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a plan; a plan for windows named those of its detector apart."""
    names = ("gamma", "delta", "n_tokens", "alpha", "gamma_prime", "kl", "context_width")
    tested = ("power", "attacked_power", "size")
    return {name: recorded[name] for name in names} | {
        name: recorded.get(f"window_{name}", recorded[name]) for name in tested
    }


def test_detections_are_the_same_and_use_the_null_tables(folder: Path) -> None:
    tables = folder / "tables" / "null"
    kept = {path: path.stat().st_mtime_ns for path in tables.iterdir()}
    assert len(kept) == 2
    found = run(folder, *(("detect", *asked, *MODEL, "--json") for asked in DETECTIONS.values()))
    same(dict(zip(DETECTIONS, found, strict=True)), RESULTS["detections"])
    assert {path: path.stat().st_mtime_ns for path in tables.iterdir()} == kept


def test_a_damaged_null_table_is_replaced_by_the_same(folder: Path) -> None:
    [table] = (folder / "tables" / "null").glob("winmax-c-*")
    written = table.read_bytes()
    table.write_bytes(written[:-8] + bytes(8))
    [found] = run(folder, ("detect", *DETECTIONS["winmax-c"], *MODEL, "--json"))
    same(found, RESULTS["detections"]["winmax-c"])
    assert table.read_bytes() == written


def test_a_scan_is_resumed(folder: Path) -> None:
    [found] = run(folder, (*SCAN, "-o", "cut-scan"))
    same(found, json.loads((folder / "scanned" / "summary.json").read_text(encoding="utf-8")))
    assert found["this_run"]["documents"] == 34  # of 170: 128 and four batches of two are done
    for path in (folder / "scanned").iterdir():
        resumed = folder / "cut-scan" / path.name
        if path.suffix == ".parquet":
            same(pq.read_table(resumed).to_pylist(), pq.read_table(path).to_pylist())
        else:
            assert resumed.read_bytes() == path.read_bytes()
    assert not list((folder / "cut-scan").glob("kept-*"))


def test_recordings_are_resumed(folder: Path) -> None:
    """A profile and the texts of a verification; of each the first of three batches is used.

    Processors round the model's float32 arithmetic differently, hence the tolerance.
    """
    begun = (folder / "cut.jsonl").read_bytes().splitlines()[:4]
    first = arrays(folder / "cut.npz.part")["head"]
    about, verification = run(folder, (*PROFILE, "-o", "cut.npz"), (*VERIFY, "-o", "cut.jsonl"))
    assert not (folder / "cut.npz.part").exists()
    assert about["steps"] == RESULTS["profile"]["steps"] == 3 * len(first)
    resumed, whole = arrays(folder / "cut.npz"), arrays(folder / "profile.npz")
    np.testing.assert_array_equal(resumed["head"][: len(first)], first)
    assert resumed.keys() == whole.keys()
    for name, values in whole.items():
        np.testing.assert_allclose(resumed[name], values, rtol=1e-4, atol=1e-6, err_msg=name)
    recorded = copy.deepcopy(RESULTS["verify"])
    for check in recorded["checks"]:
        if check["name"] == "kl":
            del check["measured"]  # it was the mean of all tokens; now of those that count
    same(verification, recorded, near=(1e-4, 1e-6))
    lines = (folder / "cut.jsonl").read_bytes().splitlines()
    assert lines[:4] == begun
    verified = (folder / "verified.jsonl").read_bytes().splitlines()
    same(records(lines), records(verified), near=(1e-4, 1e-6))


def arrays(path: Path) -> dict[str, Any]:
    """Return the arrays of a profile."""
    with np.load(path) as found:
        return {name: found[name] for name in found.files if name != "about"}


def records(lines: list[bytes]) -> list[Any]:
    """Return what lines hold, without their checksums."""
    return [{k: v for k, v in json.loads(line).items() if k != "crc32"} for line in lines]
