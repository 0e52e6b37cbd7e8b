"""Local and remote files, with retries; folders in which a file is whole or absent.

Transient failures are retried: a lost or refused connection, a time-out, a busy or stale network
file system, an overloaded server. Missing, forbidden and corrupt files are not.
"""

from __future__ import annotations

import errno
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from fsspec.core import url_to_fs
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from powermark.errors import FileProblem
from powermark.files import lock, make_folder, new_file

TRIES = 6
WAIT = 1.0  # seconds; the k-th wait is random, below 2^k of them: half a minute in all at most
_BUFFER = 2**18  # bytes read at once
_ERRNOS = {
    errno.EAGAIN,
    errno.EBUSY,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.EIO,
    errno.ENETDOWN,
    errno.ENETRESET,
    errno.ENETUNREACH,
    errno.ESTALE,
    errno.ETIMEDOUT,
}
_STATUSES = {408, 425, 429, 500, 502, 503, 504}  # of HTTP
_NAMES = {"ClientConnectionError", "ClientPayloadError"}  # of aiohttp, which may not be installed
_UPLOADS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "memory"}
_Result = TypeVar("_Result")


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed a little later."""
    cause = error.__cause__ or error
    if isinstance(cause, (ConnectionError, TimeoutError)):
        return True
    codes = {getattr(cause, name, None) for name in ("status", "code") if hasattr(cause, name)}
    return (
        getattr(cause, "errno", None) in _ERRNOS
        or not codes.isdisjoint(_STATUSES)
        or any(kind.__name__ in _NAMES for kind in type(cause).__mro__)
    )


def retry(call: Callable[..., _Result], *given: Any) -> _Result:
    """Return the result of a call, repeated while it fails for a transient reason."""
    retrying = Retrying(
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(WAIT, max=32.0 * WAIT),
        retry=retry_if_exception(is_transient),
        reraise=True,
    )
    try:
        return retrying(call, *given)
    except (OSError, ImportError):
        raise
    except Exception as error:  # each store has its own exceptions
        raise FileProblem(f"{type(error).__name__}: {error}") from error


class RetryingFile(io.RawIOBase):
    """A file that is reopened at the same position if reading fails."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._opened, self._at = opened, 0
        self._file: Any = None

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: Parquet needs to seek."""
        return True

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        """Set the position; the file itself seeks when it is read."""
        if whence == io.SEEK_END:
            place += retry(self._try, lambda file: file.seek(0, io.SEEK_END))
        self._at = place + (self._at if whence == io.SEEK_CUR else 0)
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the file."""

        def fill(file: Any) -> int:
            if file.tell() != self._at:
                file.seek(self._at)
            return int(file.readinto(buffer))

        count = retry(self._try, fill)
        self._at += count
        return count

    def close(self) -> None:
        """Close the file, if it is open."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
        super().close()

    def _try(self, step: Callable[[Any], int]) -> int:
        if self._file is None:
            self._file = self._opened()
        try:
            return step(self._file)
        except BaseException:
            file, self._file = self._file, None
            with suppress(Exception):  # the store may still be unreachable
                file.close()
            raise


def open_file(url: str) -> io.BufferedReader:
    """Open a local path or an fsspec URL for reading, with retries."""
    return io.BufferedReader(RetryingFile(partial(_open, url)), _BUFFER)


def _open(url: str) -> Any:
    if "://" not in url:
        return Path(url).open("rb", buffering=0)
    system, path = url_to_fs(url)
    return system.open(path, "rb")


class Folder:
    """A local folder, or the URL of one on any fsspec file system.

    A file appears under its name once it is whole: by a rename, or by a store's own upload.
    """

    def __init__(self, place: str) -> None:
        for local in ("file://", "local://"):  # URLs of local folders
            place = place.removeprefix(local)
        self.place = place.rstrip("/")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock a local folder against other processes."""
        if self._system is not None:
            yield
            return
        handle = os.open(make_folder(Path(self.place)), os.O_RDONLY)
        try:
            try:
                lock(handle)
            except BlockingIOError:
                raise FileProblem(f"another process is writing to {self.place!r}.") from None
            yield
        finally:
            os.close(handle)

    @property
    def _system(self) -> Any:
        """The file system of a URL; None for a local folder."""
        return url_to_fs(self.place)[0] if "://" in self.place else None

    def all_names(self) -> list[str]:
        """Return the names of all files, including hidden ones."""
        if self._system is None:
            return sorted(path.name for path in Path(self.place).iterdir())
        self._system.invalidate_cache()
        try:
            there = retry(self._system.exists, self.place)
            found = retry(self._system.ls, self.place, False) if there else []
        except OSError as error:
            raise FileProblem(f"cannot reach {self.place!r}: {error}.") from None
        return sorted(str(name).rsplit("/", 1)[-1] for name in found)

    def remove(self, name: str) -> None:
        """Remove a file."""
        if self._system is None:
            (Path(self.place) / name).unlink()
        else:
            retry(self._system.rm_file, f"{self.place}/{name}")

    def reading(self, name: str) -> io.BufferedReader:
        """Open a file for reading."""
        return open_file(f"{self.place}/{name}")

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self.reading(name) as stream:
            return stream.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""
        with self.writing(name) as stream:
            stream.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file for writing; it appears under its name once it is whole."""
        if self._system is None:
            with new_file(Path(self.place) / name) as stream:
                yield stream
            return
        try:
            with tempfile.NamedTemporaryFile(prefix="powermark-") as kept:
                yield kept.file
                kept.flush()
                retry(self._put, kept.name, name)
        except FileProblem:
            raise
        except OSError as error:
            raise FileProblem(f"cannot write {name!r} to {self.place!r}: {error}.") from None

    def _put(self, kept: str, name: str) -> None:
        """Upload a file; where uploads are visible while they run, under another name first."""
        target, system = f"{self.place}/{name}", self._system
        if self.place.partition("://")[0] in _UPLOADS:
            system.put_file(kept, target)
            return
        system.makedirs(self.place, exist_ok=True)
        hidden = f"{self.place}/.{name}.part"
        system.put_file(kept, hidden)
        if system.exists(target):
            system.rm_file(target)
        system.mv(hidden, target)
