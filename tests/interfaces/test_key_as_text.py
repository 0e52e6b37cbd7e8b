"""A key file that is given where a text is wanted is refused, and none of its digits are shown."""

import io
from pathlib import Path

import pytest

from tests.conftest import Run


def hidden(secret: str, shown: str) -> bool:
    """Whether no four digits of a key stand together."""
    digits = secret.strip().rpartition(":")[2]
    return not any(digits[at : at + 4] in shown for at in range(0, len(digits), 4))


@pytest.mark.parametrize("options", [(), ("--tokens",), ("--tokens", "--json"), ("--html", "r")])
@pytest.mark.parametrize("kind", ["file", "stdin", "bom"])
def test_detect(
    run: Run,
    given: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    kind: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = Path(given[3]).read_text()
    Path("text.txt").write_bytes(b"\xef\xbb\xbf\n" + secret.encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(secret.encode())))
    source = {"file": given[3], "stdin": "-", "bom": "text.txt"}[kind]
    code, out, err = run("detect", *given, source, *options)
    assert (code, out) == (2, "")
    assert f"powermark: {source!r} is a key file, not a text.\n" in err
    assert "  hint: a key is given with --key" in err
    assert hidden(secret, err.replace(str(tmp_path), ""))
    assert not Path("r").exists()


@pytest.mark.parametrize("command", ["generate", "profile", "verify"])
def test_prompts(run: Run, given: tuple[str, ...], tmp_path: Path, command: str) -> None:
    output = ("-o", str(tmp_path / "p.npz")) if command == "profile" else given[:4]
    code, out, err = run(command, *given[4:], *output, "--prompts", given[3], "--json")
    assert (code, out) == (2, "")
    assert "is a key file, not a text." in err
    assert hidden(Path(given[3]).read_text(), err.replace(str(tmp_path), ""))


def test_text_about_keys_is_text(run: Run, given: tuple[str, ...], tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("powermark-key files are small; powermark-key-1: begins one")
    assert run("detect", *given, str(text))[0] == 0
