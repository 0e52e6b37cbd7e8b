"""Trouble that passes: a network or a store that does not answer now is asked again, later.

Only errors that say so count: a connection lost or refused, a time-out, a busy or stale network
file system, a server that is overloaded. A file that is missing, forbidden or broken stays so.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from powermark.errors import FileProblem

TRIES = 6
WAIT = 1.0  # seconds; the k-th wait is at random below 2^k of them, half a minute in all at most
_NUMBERS = {
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
_NAMES = {"ClientConnectionError", "ClientPayloadError"}  # of aiohttp, which need not be there
_Answer = TypeVar("_Answer")


def passing(error: BaseException) -> bool:
    """Whether the same call may well succeed a little later."""
    cause = error.__cause__ or error
    if isinstance(cause, (ConnectionError, TimeoutError)):
        return True
    codes = {getattr(cause, name, None) for name in ("status", "code") if hasattr(cause, name)}
    return (
        getattr(cause, "errno", None) in _NUMBERS
        or not codes.isdisjoint(_STATUSES)
        or any(kind.__name__ in _NAMES for kind in type(cause).__mro__)
    )


def patiently(call: Callable[..., _Answer], *given: Any) -> _Answer:
    """Return what a call gives, which is made again where it fails for a passing reason."""
    again = Retrying(
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(WAIT, max=32.0 * WAIT),
        retry=retry_if_exception(passing),
        reraise=True,
    )
    try:
        return again(call, *given)
    except (OSError, ImportError):
        raise
    except Exception as error:  # stores raise what they like
        raise FileProblem(f"{type(error).__name__}: {error}") from error


class PatientFile(io.RawIOBase):
    """A file that is opened again, and read on from the same place, where reading breaks off."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._opened, self._at = opened, 0
        self._file: Any = None

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """As Parquet needs it."""
        return True

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; the file follows when it is read."""
        if whence == io.SEEK_END:
            place += patiently(self._try, lambda file: file.seek(0, io.SEEK_END))
        self._at = place + (self._at if whence == io.SEEK_CUR else 0)
        return self._at

    def tell(self) -> int:
        """Return the place that is read next."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the file."""

        def fill(file: Any) -> int:
            if file.tell() != self._at:
                file.seek(self._at)
            return int(file.readinto(buffer))

        count = patiently(self._try, fill)
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
            with suppress(Exception):  # of a store that does not answer
                file.close()
            raise
