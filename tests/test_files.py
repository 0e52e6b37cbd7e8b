import stat
from pathlib import Path

import pytest

from powermark.errors import FileProblem
from powermark.files import new_file, read_file, sweep, write_file
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


def test_what_a_killed_process_left_is_swept_and_what_is_being_written_is_not(
    tmp_path: Path,
) -> None:
    for name in (".p.npz.0123abcd.new", ".other.0123abcd.new", ".p.npz.mine", "p.npz"):
        (tmp_path / name).write_text("x")
    with new_file(tmp_path / "p.npz") as stream:
        stream.write(b"whole")
        sweep(tmp_path / "p.npz")
    assert (tmp_path / "p.npz").read_bytes() == b"whole"
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {".other.0123abcd.new", ".p.npz.mine", "p.npz"}


def test_files_are_written_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    write_file(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"


def test_modes_are_the_users_and_the_umask_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    monkeypatch.setattr("os.umask", lambda _: pytest.fail("it is the whole process's"))
    write_file(tmp_path / "x", b"new")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)


def test_files_that_are_too_large_are_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(11))
    assert read_file(path, 11) == bytes(11)
    with pytest.raises(FileProblem, match="has more than 10 bytes, too many for such a file"):
        read_file(path, 10)
