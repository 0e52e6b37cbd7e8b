"""The files of a corpus, and their division into portions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from fsspec.core import url_to_fs

from powermark.corpus.storage import retry
from powermark.errors import FileProblem, InvalidInput, MissingExtra

Kind = Literal["jsonl", "parquet", "csv", "text"]
STDIN = "-"
_KINDS: dict[str, Kind] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".csv": "csv",
    ".txt": "text",
    ".md": "text",
}
_CODECS = {".gz": "gzip", ".zst": "zstd"}
PORTION_BYTES = 64_000_000  # a portion ends with the file that reaches this size
_HINT = (
    f"files end in {', '.join(_KINDS)}, and may be compressed: {', '.join(_CODECS)}; give the "
    "`input_format` of others."
)


@dataclass(frozen=True, slots=True)
class Source:
    """A file: where it is, its format, and its size and version stamp, to notice changes."""

    url: str
    kind: Kind
    codec: str | None
    size: int
    stamp: str


Portion = tuple[Source, ...]  # files that one worker reads one after another


def find_sources(patterns: Sequence[str], kind: str | None = None) -> list[Source]:
    """Return the files of paths, folders, globs and fsspec URLs, in a fixed order.

    ``kind`` is the format of files whose names do not tell; standard input is JSONL by default.
    """
    if kind is not None and kind not in get_args(Kind):
        raise InvalidInput(f"input_format must be one of {get_args(Kind)}; got {kind!r}.")
    found = [source for pattern in patterns for source in _sources(pattern, kind)]
    if not found:
        raise InvalidInput(f"no documents in {', '.join(patterns)}.", hint=_HINT)
    return found


def portions(sources: Sequence[Source]) -> list[Portion]:
    """Return the files in portions of at least PORTION_BYTES, except the last."""
    found: list[list[Source]] = []
    size = PORTION_BYTES
    for source in sources:
        if size >= PORTION_BYTES:
            found.append([])
            size = 0
        found[-1].append(source)
        size += source.size
    return [tuple(portion) for portion in found]


def _sources(pattern: str, kind: str | None) -> Iterator[Source]:
    if pattern == STDIN:
        yield Source(STDIN, kind or "jsonl", None, 0, "")  # type: ignore[arg-type]  # checked
        return
    try:
        found = _remote if "://" in pattern else _local
        named, names = retry(found, pattern)
        for name, size, stamp in names:
            suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
            codec = _CODECS.get(suffixes[-1]) if suffixes else None
            ending = suffixes[-2:-1] if codec else suffixes[-1:]
            known = _KINDS.get(ending[0] if ending else "")
            if named and (known or kind) is None:
                raise InvalidInput(f"the format of {name!r} is unknown.", hint=_HINT)
            if known or (named and kind):
                yield Source(name, known or kind, codec, size, stamp)  # type: ignore[arg-type]
    except OSError as error:
        raise FileProblem(f"cannot read {pattern!r}: {error.strerror or error}.") from None


def _local(pattern: str) -> tuple[bool, list[tuple[str, int, str]]]:
    """Return whether the pattern is a file's own name, and the files it matches."""
    path = Path(pattern)
    if path.is_dir():
        named, files = False, sorted(each for each in path.rglob("*") if each.is_file())
    elif has_magic(pattern) and not path.exists():
        named, files = False, sorted(map(Path, glob(pattern, recursive=True)))  # noqa: PTH207  # Path.glob takes no absolute pattern
    else:
        named, files = True, [path]
    stats = [(str(file), file.stat()) for file in files]
    return named, [(name, stat.st_size, str(stat.st_mtime_ns)) for name, stat in stats]


def _remote(pattern: str) -> tuple[bool, list[tuple[str, int, str]]]:
    try:
        system, path = url_to_fs(pattern)
    except ImportError as error:
        raise MissingExtra(f"reading {pattern!r} needs a package: {error}.") from None
    if has_magic(path):
        named, files = False, sorted(system.glob(path))
    elif system.isdir(path):
        named, files = False, sorted(system.find(path))
    else:
        named, files = True, [path]
    infos: list[tuple[str, dict[str, Any]]] = [
        (system.unstrip_protocol(file), system.info(file)) for file in files
    ]
    return named, [(name, int(info.get("size") or 0), _stamp(info)) for name, info in infos]


def _stamp(info: dict[str, Any]) -> str:
    """Return a store's version of a file: the first of these entries that it has."""
    names = ("ETag", "etag", "mtime", "LastModified", "last_modified", "created")
    return next((str(info[name]) for name in names if info.get(name) is not None), "")
