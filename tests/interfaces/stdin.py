"""Bytes on stdin."""

import io

import pytest


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes, chunk: int = 40) -> None:
    """Let stdin give its bytes in small pieces."""

    class Pieces(io.BytesIO):
        def read1(self, _: int | None = -1) -> bytes:
            return self.read(chunk)

    class Stdin:
        buffer = Pieces(content)

    monkeypatch.setattr("sys.stdin", Stdin)
