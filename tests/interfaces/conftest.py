"""A server to ask, and tokens that let clients in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from powermark.interfaces.server.access import Tokens, new_token
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
