import io
import json
from pathlib import Path
from unittest.mock import patch

import pytest

from powermark.watermark.keys import PREFIX
from tests.conftest import Run


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


def test_green_ids_of_a_spec_and_of_other_tools(
    run: Run, published_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POWERMARK_KEY", raising=False)
    spec = str(tmp_path / "s.json")
    code, digest, _ = run(
        "spec", "new", spec, "--gamma", ".25", "--delta", "2", "--vocab-size", "50257",
        "--context-width", "2",
    )  # fmt: skip
    assert (code, len(digest.strip())) == (0, 32)
    _, out, _ = run(
        "greenlist", "--spec", spec, "--key", published_key, "--context", "9,9,5,77", "--json"
    )
    answer = json.loads(out)
    assert (answer["context"], sum(answer["green"])) == ([5, 77], 318642913)
    assert (
        "--context must have 2 ids"
        in run("greenlist", "--spec", spec, "--key", published_key, "--context", "5")[2]
    )
    other = ("greenlist", "--scheme", "hf-lefthash", "--gamma", ".25", "--vocab-size", "50257")
    _, out, _ = run(*other, "--context", "262", "--json")
    answer = json.loads(out)
    assert (sum(answer["green"]), answer["key_fingerprint"]) == (315858811, None)
    assert "give --spec, or --gamma" in run("greenlist", "--context", "1")[2]
    assert "scheme must be one of" in run(*other, "--scheme", "x", "--context", "1")[2]


def test_specs_are_shown(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "s.json")
    new = ("spec", "new", path, "--gamma", ".25", "--delta", "2", "--vocab-size", "50257")
    run(*new, "--scheme", "kgw-minhash")
    code, out, _ = run("spec", "show", path)
    assert code == 0
    assert "before temperature" in out
    assert "context_width  4" in out
    assert "chosen by hand" in out
    assert json.loads(run("spec", "show", path, "--json")[1])["scheme"] == "kgw-minhash"
    run(*new, "--delta-place", "before_temperature")
    assert "before temperature" in run("spec", "show", path)[1]
    run("plan", "--n-tokens", "50", "--alpha", ".05", "--power", ".9", "--vocab-size", "999",
        "-o", path)  # fmt: skip
    assert "powermark|plan|" in run("spec", "show", path)[1]
    assert "name a --model, or give --vocab-size" in run(*new[:-2])[2]


def test_a_plan_needs_a_file_for_its_spec(run: Run, tmp_path: Path) -> None:
    base = ("plan", "--n-tokens", "50", "--alpha", ".05", "--power", ".9")
    assert "say -o FILE too" in run(*base, "--model", "smollm2-135m")[2]
    said = run(*base, "-o", str(tmp_path / "s.json"))[2]
    assert "needs to know the vocabulary" in said
    assert "give --profile; or name a --model, or give --vocab-size." in said
    nowhere = str(tmp_path / "none" / "s.json")
    assert "cannot write" in run(*base, "--vocab-size", "9", "-o", nowhere)[2]


def test_another_tools_key_is_imported_from_stdin(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kgw.key"
    monkeypatch.setattr("sys.stdin", io.StringIO("not a number\n"))
    assert "must be a whole number" in run("key", "import", str(path))[2]
    odd = io.TextIOWrapper(io.BytesIO(b"\xae"), encoding="utf-8")
    with patch("sys.stdin", odd):
        assert "must be a whole number" in run("key", "import", str(path))[2]
    monkeypatch.setattr("sys.stdin", io.StringIO("987654321\n"))
    assert run("key", "import", str(path))[:2] == (0, "HashKey(secret)\n")
    options = ("--gamma", ".25", "--vocab-size", "1000", "--context", "5")
    ours = run("greenlist", "--scheme", "hf-lefthash", "--key", str(path), *options)[1]
    assert ours != run("greenlist", "--scheme", "hf-lefthash", *options)[1]
