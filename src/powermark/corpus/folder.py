"""A folder of this machine, or the URL of one on any fsspec file system, for files that are whole.

A file appears under its name once all of it is there: by a rename, or by a store's own upload.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from powermark.corpus.patience import PatientFile, patiently
from powermark.errors import FileProblem
from powermark.files import lock, make_folder, new_file

_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "memory"}


class Folder:
    """Files by name; ``place`` is a path or a URL."""

    def __init__(self, place: str) -> None:
        for local in ("file://", "local://"):  # folders of this machine, whatever they are called
            place = place.removeprefix(local)
        self.place = place.rstrip("/")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of a folder of this machine."""
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
        """The file system of a URL; None for a folder of this machine."""
        if "://" not in self.place:
            return None
        from fsspec.core import url_to_fs

        return url_to_fs(self.place)[0]

    def all_names(self) -> list[str]:
        """Return the names of all files, hidden ones too."""
        if self._system is None:
            return sorted(path.name for path in Path(self.place).iterdir())
        self._system.invalidate_cache()
        try:
            there = patiently(self._system.exists, self.place)
            found = patiently(self._system.ls, self.place, False) if there else []
        except OSError as error:
            raise FileProblem(f"cannot reach {self.place!r}: {error}.") from None
        return sorted(str(name).rsplit("/", 1)[-1] for name in found)

    def remove(self, name: str) -> None:
        """Remove a file."""
        if self._system is None:
            (Path(self.place) / name).unlink()
        else:
            patiently(self._system.rm_file, f"{self.place}/{name}")

    def reading(self, name: str) -> io.BufferedReader:
        """Open a file for reading."""

        def opened() -> Any:
            if self._system is None:
                return (Path(self.place) / name).open("rb", buffering=0)
            return self._system.open(f"{self.place}/{name}", "rb")

        return io.BufferedReader(PatientFile(opened))

    def read(self, name: str) -> bytes:
        """Return the content of one of the folder's files."""
        with self.reading(name) as stream:
            return stream.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""
        with self.writing(name) as stream:
            stream.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file for writing that appears under its name once it is whole."""
        if self._system is None:
            with new_file(Path(self.place) / name) as stream:
                yield stream
            return
        try:
            with tempfile.NamedTemporaryFile(prefix="powermark-") as kept:
                yield kept.file
                kept.flush()
                patiently(self._put, kept.name, name)
        except FileProblem:
            raise
        except OSError as error:
            raise FileProblem(f"cannot write {name!r} to {self.place!r}: {error}.") from None

    def _put(self, kept: str, name: str) -> None:
        """Send a file; object stores show it once it is whole, others get it by another name."""
        target, system = f"{self.place}/{name}", self._system
        if self.place.partition("://")[0] in _STORES:
            system.put_file(kept, target)
            return
        system.makedirs(self.place, exist_ok=True)
        hidden = f"{self.place}/.{name}.part"
        system.put_file(kept, hidden)
        if system.exists(target):
            system.rm_file(target)
        system.mv(hidden, target)
