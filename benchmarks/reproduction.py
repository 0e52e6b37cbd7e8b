"""Kill the paper's experiments at random moments and compare with a run that was left alone.

``python -m benchmarks.reproduction --kills 20`` writes the texts of the smallest scale twice with
the default model. Promised: the records are the same, byte for byte.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def command(work: Path, given: argparse.Namespace) -> list[str]:
    """Return what writes all texts of the smallest scale into a folder."""
    parts = [sys.executable, "-m", "powermark", "reproduce", "table-cells", "--scale", "smoke"]
    parts += ["--work", str(work), "-o", str(work / "out")]
    for option in ("data", "model", "corpora"):
        if getattr(given, option):
            parts += [f"--{option}", getattr(given, option)]
    return parts


def records(work: Path) -> dict[str, bytes]:
    """Return every file of texts."""
    return {path.name: path.read_bytes() for path in work.glob("*.jsonl")}


def main() -> None:
    """Print how it went; fail where a byte differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    for option in ("data", "model", "corpora"):
        parser.add_argument(f"--{option}")
    given = parser.parse_args()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    rng = np.random.default_rng()
    with tempfile.TemporaryDirectory() as name:
        alone, killed = Path(name, "alone"), Path(name, "killed")
        start = time.perf_counter()
        subprocess.run(command(alone, given), check=True, **quiet)  # type: ignore[call-overload]
        took = time.perf_counter() - start
        begun = 0
        for _ in range(given.kills):
            child = subprocess.Popen(command(killed, given), **quiet)  # type: ignore[call-overload]
            time.sleep(rng.uniform(0.0, took / 4))
            begun += child.poll() is None
            child.send_signal(signal.SIGKILL)
            child.wait()
        subprocess.run(command(killed, given), check=True, **quiet)  # type: ignore[call-overload]
        want, found = records(alone), records(killed)
    same = want == found
    print(
        f"{sum(len(content.splitlines()) for content in want.values())} records in {len(want)} "
        f"files, {took:.0f} s; killed {given.kills} times, {begun} of them at work: "
        f"{'the same bytes' if same else 'ANOTHER RESULT'}"
    )
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()
