from pathlib import Path

import pytest

from powermark.models import LanguageModel, load_model
from proof.tiny_model import save_tiny_model

VOCAB = 200


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
