import json
from pathlib import Path

import pytest

from powermark.watermark.keys import PREFIX
from tests.interfaces.test_cli import Run, run

__all__ = ["run"]  # a fixture, used below by name


def test_keys_are_made_and_named_but_never_shown(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "k.key"
    code, made, _ = run("key", "new", str(path))
    assert code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert run("key", "fingerprint", str(path)) == (0, made, "")
    secret = path.read_text().strip().removeprefix(PREFIX)
    assert len(made.strip()) == 16
    assert made.strip() not in secret
    code, out, err = run("key", "new", str(path))
    assert (code, out) == (2, "")
    assert "exists already" in err


@pytest.fixture
def published_key(tmp_path: Path) -> str:
    path = tmp_path / "published.key"
    path.write_text(PREFIX + bytes(range(32)).hex())
    path.chmod(0o600)
    return str(path)


def test_green_ids_of_the_published_vectors(run: Run, published_key: str) -> None:
    options = ("--key", published_key, "--gamma", ".25", "--vocab-size", "50257")
    code, out, _ = run("greenlist", *options, "--context", "5,77", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["green"][:8] == [7, 15, 22, 23, 26, 28, 36, 43]
    assert sum(answer["green"]) == 318642913
    assert answer["key_fingerprint"] == "79f432ef11e07472"
    _, out, _ = run("greenlist", *options, "--context", "")
    assert out.split()[:4] == ["1", "2", "3", "5"]


def test_wrong_contexts_and_missing_keys(
    run: Run, published_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--gamma", ".25", "--vocab-size", "100", "--context")
    assert "must be token ids" in run("greenlist", "--key", published_key, *options, "a,b")[2]
    assert "must be in [0, 2^32)" in run("greenlist", "--key", published_key, *options, "-1")[2]
    monkeypatch.delenv("POWERMARK_KEY", raising=False)
    code, _, err = run("greenlist", *options, "5")
    assert code == 2
    assert "no key" in err
