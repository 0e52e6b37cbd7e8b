"""The commands around profiles on a random model: comparison, experiments, the whole story."""

import io
import json
import shlex
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from powermark.evaluation.experiments import prediction
from powermark.interfaces.cli import demo
from tests.evaluation.conftest import prompts_file, writer_folder
from tests.interfaces.test_cli import Run, run

__all__ = ["prompts_file", "run", "writer_folder"]  # fixtures


@pytest.fixture
def named(writer_folder: Path, prompts_file: Path) -> tuple[str, ...]:
    return "--model", str(writer_folder), "--prompts", str(prompts_file)


def test_comparisons(run: Run, named: tuple[str, ...], tmp_path: Path) -> None:
    profile = str(tmp_path / "p.npz")
    run("profile", *named, "-o", profile, "--texts", "12", "--n-tokens", "30")
    request = ("plan", "--n-tokens", "30", "--alpha", ".05", "--power", ".8")
    code, out, _ = run(*request, "--profile", profile, "--compare")
    assert code == 0
    assert out.splitlines()[-1].startswith("profile")
    rows = json.loads(run(*request, "--profile", profile, "--compare", "--json")[1])
    assert len(rows) == 5
    assert rows[-1]["promised"]["power"] >= 0.8
    assert "--compare needs --profile" in run(*request, "--compare")[2]
    for option in (("--checkpoint", "20"), ("--delta-cap", "5"), ("--kl-cap", ".2")):
        assert "are for --steer" in run(*request, *option)[2]
    cold = ("profile", *named, "-o", profile, "--temperature", "0")
    assert "--temperature must be above 0" in run(*cold)[2]
    for folder in (".", "", str(tmp_path)):
        assert "is a folder" in run("profile", *named, "-o", folder)[2]
    code, out, _ = run(*request, "--profile", profile, "--precision", "1e-6")
    assert "12 texts leave the power uncertain" in out


def test_experiments_as_tables(
    run: Run, writer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "CORPORA", ("c4",))
    monkeypatch.setattr(prediction, "TEMPERATURES", (1.0,))
    monkeypatch.setattr(prediction, "SETTINGS", {0.5: (1.0, 2.0, 6.0)})
    rows = [json.dumps({"text": f"w{i % 190 + 2} w3"}) for i in range(300)]
    (tmp_path / "c4.jsonl").write_text("\n".join(rows))
    job = ("reproduce", "table-prediction", "-o", str(tmp_path), "--model", str(writer_folder))
    code, out, err = run(*job, "--data", str(tmp_path), "--work", str(tmp_path / "w"))
    assert code == 0
    assert "powermark|texts|" in err
    table = Path(out.strip()).read_text().splitlines()
    assert table[0].startswith("corpus,temperature,gamma,delta,texts,rate_measured")
    assert len(table) == 4
    assert "this experiment needs --data" in run(*job)[2]


def test_the_whole_story(run: Run, named: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "with blank"
    job = ("demo", "-o", str(folder), *named, "--texts", "12")
    code, out, err = run(*job)
    assert code == 0, err
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "demo.key", "demo.npz", "demo.json", "marked.txt", "edited.txt", "unmarked.txt",
        "report.html", "verify.html", "demo.verify.json", "index.html",
    }  # fmt: skip
    page = (folder / "index.html").read_text()
    assert page.count("<h2>") == 8
    assert 'href="verify.html"' in page
    assert "The promise" in out
    secret = (folder / "demo.key").read_text()
    assert secret not in page
    plain = folder / "plain.txt"
    plain.write_text(" ".join(f"w{i}" for i in range(2, 150)))
    mark = f"--spec '{folder}/demo.json' --key '{folder}/demo.key' {shlex.join(named[:2])}"
    with redirect_stderr(io.StringIO()) as talk:  # a step that fails is shown
        demo._say(f"detect {mark} '{plain}' --exit-code")
    assert "exit code 1" in talk.getvalue()
