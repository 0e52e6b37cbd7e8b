"""The commands around profiles on a random model: comparison, experiments, the whole story."""

import io
import json
import shlex
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from powermark.interfaces.cli import demo
from powermark.paper import experiments_plans
from powermark.signals.profile_file import load_profile
from tests.conftest import Run
from tests.killing import counted_batches, kill_in_batch


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
    sources = [
        json.loads(run(*request, "--profile", profile, "--json", *option)[1])["profile"]["source"]
        for option in ((), ("--from", "text"), ("--from", "ids"))
    ]
    assert sources == ["text", "text", "ids"]
    for option in (("--checkpoint", "20"), ("--delta-cap", "5"), ("--kl-cap", ".2")):
        assert "--checkpoint, --delta-cap and --kl-cap need --steer." in run(*request, *option)[2]
    code, out, _ = run("profile", "--show", profile, "--gamma", ".9", "--delta", "3")
    assert code == 0
    assert "assumptions at gamma 0.9, delta 3, on " in out
    assert "\nlag 1 " in out
    shown = json.loads(run("profile", "--show", profile, "--json")[1])
    assert shown["texts"] == 12
    assert 3 <= shown["assumptions"]["texts"] <= 12  # those of about that strength
    assert shown["assumptions"]["delta"] == 2.0
    golden = Path(__file__).parents[1] / "golden" / "profile-0.1.npz"
    assert "48 steps of 6 texts" in run("profile", "--show", str(golden))[1]
    for both in (("--show", profile, "-o", profile), ()):
        assert "give either -o FILE" in run("profile", *both)[2]
    cold = ("profile", *named, "-o", profile, "--temperature", "0")
    assert "--temperature must be above 0" in run(*cold)[2]
    for folder in (".", "", str(tmp_path)):
        assert "is a folder" in run("profile", *named, "-o", folder)[2]
    code, out, _ = run(*request, "--profile", profile, "--precision", "1e-6")
    assert "12 texts leave the power uncertain" in out


def test_a_killed_profile_resumes_at_defaults(
    run: Run, named: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, killed = tmp_path / "whole.npz", tmp_path / "killed.npz"
    assert run("profile", *named, "-o", str(whole))[0] == 0
    kill_in_batch(2, "profile", *named, "-o", str(killed))
    assert (tmp_path / "killed.npz.part").exists()
    with counted_batches(monkeypatch) as sizes:
        assert run("profile", *named, "-o", str(killed))[0] == 0
    assert sizes == [12]  # of 36 texts, 24 were kept
    assert load_profile(killed).about["digest"] == load_profile(whole).about["digest"]
    assert not (tmp_path / "killed.npz.part").exists()


def test_experiments_as_tables(
    run: Run, writer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments_plans, "CORPORA", ("c4",))
    monkeypatch.setattr(experiments_plans, "TEMPERATURES", (1.0,))
    monkeypatch.setattr(experiments_plans, "SETTINGS", {0.5: (1.0, 2.0, 6.0)})
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
        "demo.key", "demo.npz", "demo.json", "examples", "report.html", "verify.html",
        "demo.verify.json", "index.html",
    }  # fmt: skip
    texts = {path.name for path in (folder / "examples").iterdir()}
    assert texts == {"marked.txt", "edited.txt", "unmarked.txt"}
    page = (folder / "index.html").read_text()
    assert page.count("<h2>") == 8
    assert 'href="verify.html"' in page
    assert "12 marked and as many unmarked texts, judged by their text" in out
    secret = (folder / "demo.key").read_text()
    assert secret not in page
    plain = folder / "plain.txt"
    plain.write_text(" ".join(f"w{i}" for i in range(2, 150)))
    mark = f"--spec '{folder}/demo.json' --key '{folder}/demo.key' {shlex.join(named[:2])}"
    with redirect_stderr(io.StringIO()) as talk:  # a step that fails is shown
        demo._say(f"detect {mark} '{plain}' --exit-code")
    assert "exit code 1" in talk.getvalue()
