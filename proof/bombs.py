"""Faults of readers: small files that would swell to gigabytes in memory.

Each is handed to the command that reads it, in a process of its own. Something is lost where that
process ends with another exit code than 2, without a sentence, or with a peak of resident memory
above a gigabyte.
"""

from __future__ import annotations

import gzip
import os
import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from proof.scenario import last_words, outcome
from proof.shop import Shop

MOST = 1_000  # MB that a process may hold
_MEGABYTE = 2**20
_REPORT = """
import atexit
@atexit.register
def report():
    with open("/proc/self/status") as stream:
        print(*(line for line in stream if "VmHWM" in line))
"""


def tried(*, folder: str, what: str) -> dict[str, Any]:
    """Make a bomb and let it be read."""
    shop = Shop(Path(folder))
    place = shop.place(f"bomb-{what}-{time.time_ns()}")
    file = BOMBS[what](place)
    command = shop.command(*_command(shop, place, file, what), before=_REPORT)
    code, peak, said = _watched(shop, command, place / "log")
    file.unlink()
    words = last_words(said).replace(f"{place}/", "")
    good = code == 2 and words.startswith("powermark: ") and 0 < peak <= MOST
    written = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    found = outcome(1, int(not good or written > 16 * _MEGABYTE), said, f"{peak} MB; {words}")
    return {**found, "megabytes": peak, "code": code}


def _command(shop: Shop, place: Path, file: Path, what: str) -> list[str]:
    """Return what reads a file of this kind, or the command that the bomb's name begins with."""
    if file.suffix == ".npz":
        settings = ["--n-tokens", "50", "--alpha", ".05", "--power", ".9"]
        return ["plan", *settings, "--profile", str(file)]
    if file.suffix == ".json":
        return ["spec", "show", str(file)]
    if file.suffix == ".key":
        return ["key", "fingerprint", str(file)]
    field = ["--field", "token_ids"] if "ids" in file.name else ["--model", str(shop.model)]
    command = what.partition("-")[0]
    if command in ("detect", "audit"):
        return [command, *shop.mark, *field, str(file)]
    return ["scan", *shop.mark, *field, str(file), "--workers", "2", "-o", str(place / "out")]


def _watched(shop: Shop, command: list[str], log: Path) -> tuple[int, int, str]:
    """Run a child to its end; return its exit code, its peak in MB, and what it printed."""
    code, said = shop.run(command, log)
    peak = re.search(r"VmHWM:\s+(\d+) kB", said)
    return code, int(peak[1]) // 1024 if peak else 0, said


def _gz(path: Path, *parts: tuple[bytes, int]) -> Path:
    """Write contents, each so many times, without ever having them in memory."""
    with path.open("wb") as stream:
        for content, times in parts:
            member = gzip.compress(content)
            for _ in range(times):
                stream.write(member)
    return path


def _columns(place: Path) -> Path:
    return _gz(place / "columns.csv.gz", (b"ab," * _MEGABYTE, 400))


def _lines(place: Path) -> Path:
    """One row, in which every field is a line end."""
    return _gz(place / "lines.csv.gz", (b'text\n"', 1), (b'\n","' * _MEGABYTE, 300))


def _field(place: Path) -> Path:
    return _gz(place / "field.csv.gz", (b'text\n"', 1), (b"x" * _MEGABYTE, 2_000))


def _wide_rows(place: Path) -> Path:
    """Rows of as many columns as may be read, none of which is a text."""
    row = "éé,".encode() * 5_000_000 + b"\n"
    return _gz(place / "rows.csv.gz", (b"text\n", 1), (row, 3))


def _line(place: Path) -> Path:
    return _gz(place / "line.jsonl.gz", (b'{"text": "', 1), (b"x" * _MEGABYTE, 500))


def _nested(place: Path) -> Path:
    return _gz(place / "nested.jsonl.gz", (b'{"text": [' + b"[]," * 5_000_000 + b"[]]}\n", 2))


def _texts_as_ids(place: Path) -> Path:
    """A list that an array of texts would hold in 8 GB."""
    line = b'{"token_ids": ["' + b"x" * 2_000 + b'"' + b',""' * 1_000_000 + b"]}\n"
    return _gz(place / "ids.jsonl.gz", (line, 20))


def _ids(place: Path) -> Path:
    """Five million token ids on one line."""
    path = place / "ids.jsonl"
    path.write_bytes(b'{"token_ids": [' + b"7," * 5_000_000 + b"7]}\n")
    return path


def _plain_field(place: Path) -> Path:
    """A field without an end, in a file that is not compressed."""
    path = place / "field.csv"
    path.write_bytes(b'text\n"' + b"x " * 20_000_000)
    return path


def _text(place: Path) -> Path:
    return _gz(place / "text.txt.gz", (b"x" * _MEGABYTE, 4_000))


def _parquet(path: Path, column: Any, name: str = "text", **settings: Any) -> Path:
    pq.write_table(pa.table({name: column}), path, compression="zstd", **settings)
    return path


def _one_text(place: Path) -> Path:
    return _parquet(place / "text.parquet", ["x" * 400_000_000], use_dictionary=False)


def _swelling_text(place: Path) -> Path:
    """Some kilobytes of Parquet: a text of 40 million characters in a page that may be read."""
    return _parquet(place / "text.parquet", ["x " * 20_000_000])


def _long_texts(place: Path) -> Path:
    """Texts just below the largest page, each in a page of its own."""
    path, text = place / "texts.parquet", pa.table({"text": ["x" * 190_000_000]})
    with pq.ParquetWriter(path, text.schema, compression="zstd", use_dictionary=False) as writer:
        for _ in range(8):
            writer.write_table(text)
    return path


def _repeated_text(place: Path) -> Path:
    """A dictionary with one text, which 1,000 rows refer to."""
    text = pa.array(["x" * 20_000_000])
    rows = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000, np.int32)), text)
    settings: dict[str, Any] = {"dictionary_pagesize_limit": 2**30, "write_statistics": False}
    return _parquet(place / "repeated.parquet", rows, **settings)


def _one_list(place: Path) -> Path:
    ids = pa.array(np.zeros(100_000_000, np.int32))
    row = pa.ListArray.from_arrays(pa.array([0, len(ids)], pa.int32()), ids)
    return _parquet(place / "ids.parquet", row, "token_ids")


def _profile(place: Path) -> Path:
    """An array of two gigabytes of zeros."""
    path = place / "p.npz"
    np.savez_compressed(path, about=np.array("{}"))
    header = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
    shape = b"{'descr': '<f4', 'fortran_order': False, 'shape': (5000000, 100), }"
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("head.npy", "w", force_zip64=True) as member,
    ):
        member.write(header + shape.ljust(117) + b"\n")
        for _ in range(2_000):
            member.write(bytes(1_000_000))
    return path


def _sparse(path: Path, size: int = 4 * 2**30) -> Path:
    path.touch(0o600)
    os.truncate(path, size)
    return path


def _rejects(place: Path) -> Path:
    """Two million bad rows beside a good one; the file breaks off."""
    rows = b"a,b\n" * _MEGABYTE
    path = _gz(place / "rejects.csv.gz", (b"text\nw1 w2\n", 1), (rows, 2))
    os.truncate(path, path.stat().st_size - 20)
    return path


BOMBS: dict[str, Callable[[Path], Path]] = {
    "csv-columns": _columns,
    "csv-lines": _lines,
    "csv-field": _field,
    "csv-rows": _wide_rows,
    "csv-rejects": _rejects,
    "jsonl-line": _line,
    "jsonl-nested": _nested,
    "jsonl-texts-as-ids": _texts_as_ids,
    "text": _text,
    "parquet-text": _one_text,
    "parquet-texts": _long_texts,
    "parquet-repeated": _repeated_text,
    "parquet-list": _one_list,
    "detect-text": lambda place: _sparse(place / "text.txt"),
    "detect-jsonl-line": lambda place: _sparse(place / "line.jsonl", 2**30),
    "detect-jsonl-ids": _ids,
    "detect-csv-field": _plain_field,
    "detect-parquet-text": _swelling_text,
    "audit-text": lambda place: _sparse(place / "text.txt"),
    "audit-jsonl-line": lambda place: _sparse(place / "line.jsonl", 2**30),
    "audit-parquet-text": _swelling_text,
    "profile": _profile,
    "spec": lambda place: _sparse(place / "spec.json"),
    "key": lambda place: _sparse(place / "k.key"),
}
