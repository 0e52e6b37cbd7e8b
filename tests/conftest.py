from collections.abc import Callable
from pathlib import Path

import pytest

from powermark.interfaces.cli import main
from powermark.models import LanguageModel, load_model
from proof.tiny_model import save_tiny_model

VOCAB = 200
Run = Callable[..., tuple[int, str, str]]  # arguments of the command to code, stdout, stderr


@pytest.fixture(scope="session")
def writer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of 200 words that never ends a text by itself."""
    return save_tiny_model(
        tmp_path_factory.mktemp("writer"),
        ["<s>", "</s>", *(f"w{i}" for i in range(2, VOCAB))],
        seed=1,
        vocab_size=VOCAB,
        max_position_embeddings=512,
        eos_token_id=None,
        initializer_range=1.0,
    )


@pytest.fixture(scope="session")
def writer(writer_folder: Path) -> LanguageModel:
    return load_model(str(writer_folder))


@pytest.fixture
def prompts_file(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("".join(f"w{i} w{i + 1} w{i + 2}\n" for i in range(2, 40)))
    return path


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of six words that may end a text."""
    return save_tiny_model(
        tmp_path_factory.mktemp("model"),
        ["<s>", "</s>", "a", "b", "c", "d", "e", "f"],
        seed=0,
        vocab_size=10,
        max_position_embeddings=64,
        eos_token_id=1,
    )


@pytest.fixture(scope="module")
def tiny_model(tiny_folder: Path) -> LanguageModel:
    return load_model(str(tiny_folder))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        out, err = capsys.readouterr()
        code = stop.value.code
        assert isinstance(code, int)
        return code, out, err

    return call


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of models in a cache of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("POWERMARK_CACHE", str(folder))
    return folder / "models"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of our own: pip looks in this folder and nowhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder
