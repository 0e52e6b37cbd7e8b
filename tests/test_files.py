from pathlib import Path

import pytest

from powermark.errors import FileProblem
from powermark.files import write_file
from powermark.watermark.keys import load_key, new_key


def test_links_are_followed_and_keys_are_spared(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write_file(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    key = new_key(tmp_path / "k.key")
    with pytest.raises(FileProblem, match="not a file that may be overwritten"):
        write_file(tmp_path / "k.key", b"spec")
    assert load_key(tmp_path / "k.key") == key


def test_a_file_that_cannot_be_read_is_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        write_file(path, b"new")
    assert path.read_bytes() == b"new"
