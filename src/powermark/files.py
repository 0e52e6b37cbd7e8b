"""Files that nobody ever sees half of, and the folder for what can be made again."""

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
KEY_START = b"powermark-"  # how every key file begins, and no file that is written here
_NEW = ".new"  # how a file ends that is being written
_UMASK = os.umask(0o077)  # it can only be read by setting it, for all threads: once, and back
os.umask(_UMASK)


def cache_folder() -> Path:
    """Return the folder for models and tables: POWERMARK_CACHE, or the user's cache."""
    chosen = os.environ.get(CACHE_ENVIRONMENT)
    return Path(chosen) if chosen else user_cache_path("powermark")


def make_folder(path: Path) -> Path:
    """Make a folder, and those above it, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileProblem(
            f"cannot make the folder {str(path)!r}: {error.strerror}.", hint="choose another name."
        ) from None
    return path


def write_file(path: str | Path, content: bytes) -> None:
    """Write ``content`` whole or not at all, as :func:`new_file` does."""
    with new_file(path) as stream:
        stream.write(content)


@contextmanager
def new_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary name beside ``path`` for writing, and rename it into place at the end.

    A link is followed. What is no plain file, or holds a key, is left alone.
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
                os.fsync(handle)  # renamed first, a file could come back empty after a power cut
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
    """Remove what killed processes left of a file; what one is writing now is locked, and stays."""
    for left in path.parent.glob(f".{escape(path.name)}.*{_NEW}"):
        with suppress(OSError), left.open("rb") as stream:
            lock(stream.fileno())
            left.unlink()


def lock(file: int) -> None:
    """Keep other processes out of an open file, where the system can; they get BlockingIOError."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def holds_key(path: Path) -> bool:
    """Whether a file begins as a key file does: it must not be written to."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(KEY_START)) == KEY_START
    except OSError:
        return False
