"""A server to ask, and tokens that let clients in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from powermark.interfaces.server.access import Tokens, new_token
from powermark.watermark.keys import PREFIX
from tests.conftest import Run
from tests.interfaces.server import Asked, Ready, asking, make_ready


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    return make_ready(tmp_path_factory.mktemp("server"))


@pytest.fixture
def local(ready: Ready) -> Iterator[Asked]:
    with asking(ready.library) as asked:
        yield asked


@pytest.fixture
def tokens(tmp_path: Path) -> tuple[Tokens, dict[str, str]]:
    path = tmp_path / "tokens.txt"
    secret = {scope: new_token(path, scope, scope) for scope in ("detect", "inspect")}
    assert path.stat().st_mode & 0o077 == 0
    assert not any(token in path.read_text() for token in secret.values())
    return Tokens.load(path), secret


@pytest.fixture(scope="module")
def words_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of 600 words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("words")
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(600)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def given(words_folder: Path, tmp_path: Path, run: Run) -> tuple[str, ...]:
    key = tmp_path / "k.key"  # always the same, so that no verdict is left to chance
    key.write_text(PREFIX + bytes(range(32)).hex())
    key.chmod(0o600)
    spec = str(tmp_path / "s.json")
    run(
        "plan", "--n-tokens", "80", "--alpha", ".01", "--power", ".95", "--edit-rate", ".05",
        "--model", str(words_folder), "-o", spec,
    )  # fmt: skip
    return ("--spec", spec, "--key", str(tmp_path / "k.key"), "--model", str(words_folder))
