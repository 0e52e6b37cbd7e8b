"""Atomic writes, and the cache directory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO

from platformdirs import user_cache_path

from powermark.errors import FileProblem

CACHE_ENVIRONMENT = "POWERMARK_CACHE"
KEY_START = b"powermark-"  # every key file starts with this, and no file written here does
_NEW = ".new"  # suffix of a file that is being written
_UMASK = os.umask(0o077)  # reading it means setting it, for all threads: done once, then restored
os.umask(_UMASK)


def cache_folder() -> Path:
    """Return the folder for models and tables: POWERMARK_CACHE, or the user's cache."""
    chosen = os.environ.get(CACHE_ENVIRONMENT)
    return Path(chosen) if chosen else user_cache_path("powermark")


def make_folder(path: Path) -> Path:
    """Create a folder and its parents, if they do not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileProblem(
            f"cannot make the folder {str(path)!r}: {error.strerror}.", hint="choose another name."
        ) from None
    return path


def read_file(path: str | Path, most: int) -> bytes:
    """Return the content of a file of at most ``most`` bytes."""
    with Path(path).open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise FileProblem(f"{str(path)!r} has more than {most} bytes, too many for such a file.")
    return content


def write_file(path: str | Path, content: bytes) -> None:
    """Write ``content`` atomically, as :func:`new_file` does."""
    with new_file(path) as stream:
        stream.write(content)


@contextmanager
def new_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary file beside ``path`` for writing, and rename it to ``path`` at the end.

    Links are followed. Key files, and anything but plain files, are never overwritten.
    """
    path = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    if path.exists() and (not path.is_file() or holds_key(path)):
        raise FileProblem(
            f"{str(path)!r} is not a file that may be overwritten.", hint="choose another name."
        )
    try:
        handle, temporary = tempfile.mkstemp(_NEW, f".{path.name}.", path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                with suppress(OSError):  # some file systems have no locks
                    lock(handle)
                yield stream
                stream.flush()
                os.fsync(handle)  # or a file could be empty after a power failure
                Path(temporary).chmod(0o666 & ~_UMASK)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except FileProblem:
        raise
    except OSError as error:
        raise FileProblem(
            f"cannot write {str(path)!r}: {error.strerror}.",
            hint="choose a folder that exists, has room and that you may write to.",
        ) from None


def sweep(path: Path) -> None:
    """Remove temporary files of killed processes; those being written are locked, and stay."""
    for left in path.parent.glob(f".{escape(path.name)}.*{_NEW}"):
        with suppress(OSError), left.open("rb") as stream:
            lock(stream.fileno())
            left.unlink()


def lock(file: int) -> None:
    """Lock an open file, where the system can; raise BlockingIOError if another process has."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def holds_key(path: Path) -> bool:
    """Whether a file starts like a key file, and must not be overwritten."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(KEY_START)) == KEY_START
    except OSError:
        return False
