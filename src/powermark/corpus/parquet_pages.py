"""Sizes of the pages of a Parquet file, read from their headers before a page is decompressed.

A page is decompressed whole, and Arrow believes whatever size its header states. A header is a
struct in Thrift's compact encoding:
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from powermark.errors import FileProblem

_BYTES = (512, 65_536, 2**23)  # to read of a header, which statistics may lengthen
_DAMAGED = "the header of a page is damaged"
_DEEP = 8  # structs and lists within one another
_INTEGERS, _BINARY, _STRUCT = (4, 5, 6), 8, 12
_NO_BYTES, _ONE_BYTE, _EIGHT_BYTES = (1, 2), 3, 7


class Page(NamedTuple):
    """Bytes decompressed, bytes in the file, and values (0 for a dictionary)."""

    size: int
    stored: int
    values: int


def pages(stream: Any, start: int, length: int) -> Iterator[Page]:
    """Yield the pages of a column chunk that begins at ``start``."""
    at = start
    while at < start + length:
        fields, header = _header(stream, at)
        about = fields.get(5) or fields.get(8)  # a data page, of either version
        values: Any = about.get(1) if isinstance(about, dict) else 0
        found = Page(fields.get(2, -1), fields.get(3, -1), values)
        if any(not isinstance(number, int) or number < 0 for number in found):
            raise FileProblem(_DAMAGED)
        yield found
        at += header + found.stored


def _header(stream: Any, at: int) -> tuple[dict[int, Any], int]:
    """Return a header's fields by number, and its length."""
    for most in _BYTES:
        stream.seek(at)
        content = stream.read(most)
        try:
            return _struct(content, 0, _DEEP)
        except IndexError:  # it is longer
            continue
    raise FileProblem(_DAMAGED)


def _struct(content: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Read numbers and structs; skip other fields."""
    if depth == 0:
        raise FileProblem(_DAMAGED)
    found: dict[int, Any] = {}
    number = 0
    while head := content[at]:
        at, kind = at + 1, head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(content, at)
        found[number], at = _value(content, at, kind, depth)
    return found, at + 1


def _value(content: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _NO_BYTES:
        return None, at
    if kind == _ONE_BYTE:
        return None, at + 1
    if kind in _INTEGERS:
        return _integer(content, at)
    if kind == _EIGHT_BYTES:
        return None, at + 8
    if kind == _BINARY:
        size, at = _varint(content, at)
        return None, at + size
    if kind == _STRUCT:
        return _struct(content, at, depth - 1)
    raise FileProblem(_DAMAGED)  # headers have no lists


def _integer(content: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(content, at)
    return value >> 1 ^ -(value & 1), at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while content[at] & 128:
        value |= (content[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return value | content[at] << shift, at + 1
