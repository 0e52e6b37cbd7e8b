import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from powermark import (
    BetaMixture,
    TopicMixture,
    WatermarkSpec,
    __version__,
    plan,
    reference_profile,
)
from powermark.interfaces.cli import main
from powermark.models import load_tokenizer
from powermark.paper import figures_formulas
from powermark.planning.assumption import with_assumption
from powermark.planning.plan import plan_for
from powermark.planning.request import Request
from powermark.plotting import canvas
from powermark.signals.profile_file import save_profile
from powermark.watermark.spec import digest_of
from tests.conftest import Run
from tests.signals.profiles import sample

BASE = ("--n-tokens", "50", "--alpha", "0.05")


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan(n_tokens=50, alpha=0.05, power=0.95).to_dict()))
    return path


def test_plan_prints_what_python_returns(run: Run) -> None:
    code, out, err = run("plan", *BASE, "--power", "0.95", "--json")
    assert (code, err) == (0, "")
    request = Request(n_tokens=50, alpha=0.05, power=0.95)
    want = with_assumption(plan_for(request), request)
    assert json.loads(out) == json.loads(json.dumps(want.to_dict()))
    assert run("plan", *BASE, "--power", "0.95")[1] == f"{want}\n"


@pytest.mark.parametrize(("number", "kind"), [(28, SystemExit), (5, OSError)])
def test_a_full_disk_behind_stdout(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    kind: type[BaseException],
) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(number, os.strerror(number))

    turned: list[int] = []

    def turn(old: int, new: int) -> None:
        os.close(old)
        turned.append(new)

    with monkeypatch.context() as patch:  # pytest itself needs them back at once
        patch.setattr("sys.stdout", Full())
        patch.setattr("os.dup2", turn)
        with pytest.raises(kind):
            main(["--version"])
    said = "powermark: cannot write the result: No space left on device.\n"
    assert (capsys.readouterr().err, turned) == ((said, [1]) if number == 28 else ("", []))


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"powermark {__version__}\n", "")


def test_plan_options_reach_the_solver(run: Run) -> None:
    _, out, _ = run(
        "plan", *BASE, "--power", ".9", "--edit-rate", ".1", "--context-width", "2",
        "--attacked-power", ".7", "--signal", "mixture", "--mixture", ".3:2,.7:90", "--json",
    )  # fmt: skip
    found = json.loads(out)
    assert found["signal"] == "beta-mixture(0.3*2+0.7*90)"
    assert found["survival"] == pytest.approx(0.9**3)
    _, out, _ = run(
        "plan", *BASE, "--power", ".9", "--signal", "dirichlet", "--vocab-size", "32000", "--json"
    )
    assert json.loads(out)["signal"] == "dirichlet(V=32000,a=1)"
    topics = "--signal", "topics", "--topics", ".4=1:5/.6=.3:1,.7:90"
    _, out, _ = run("plan", *BASE, "--power", ".9", *topics, "--json")
    signal = TopicMixture((BetaMixture((1,), (5,)), BetaMixture((0.3, 0.7), (1, 90))), (0.4, 0.6))
    planned = json.loads(
        json.dumps(plan(n_tokens=50, alpha=0.05, power=0.9, signal=signal).to_dict())
    )
    found = json.loads(out)
    assert found.pop("warnings")[1:] == planned.pop("warnings")
    assert found == planned


def test_a_plan_without_a_profile_says_what_it_assumes(run: Run) -> None:
    request = ("plan", *BASE, "--power", ".9", "--edit-rate", ".05")
    _, out, _ = run(*request)
    assert "note: assumes that every next-token distribution is very flat (plug-in); on the" in out
    found = json.loads(run(*request, "--json")[1])
    assert found["warnings"][0] in out


def test_plans_like_a_reference(run: Run, tmp_path: Path, words_folder: Path) -> None:
    like = ("--like", "chat", "--entropy", "0.6")
    request = ("plan", *BASE, "--power", ".5", "--gamma", ".5", *like)
    found = json.loads(run(*request, "--json")[1])
    assert found["profile"]["reference"]["name"] == "chat"
    assert found["profile"]["sharpened"]["entropy"] == 0.6
    chat = reference_profile("chat", entropy=0.6)
    assert found["signal"] == chat.name
    planned = plan(n_tokens=50, alpha=0.05, power=0.5, gamma=0.5, signal=chat)
    assert found == json.loads(json.dumps(planned.to_dict()))
    design = ("--gamma", ".5", "--delta", "2", *like)
    powered = json.loads(run("power", *BASE, *design, "--json")[1])
    assert powered["gamma_prime"] == float(chat.green_rate(0.5, 2.0))
    curve = run(
        "curve", "--over", "delta", *BASE, "--gamma", ".5", *like, "--points", "2", "--json"
    )
    assert json.loads(curve[1])["points"][0]["signal"] == chat.name
    assert "Dirichlet, fitted" in run(*request[:-4], "--like", "code", "--compare")[1]
    spec = tmp_path / "s.json"
    code, _, err = run(*request, "-o", str(spec))
    assert (code, spec.exists()) == (2, False)
    assert "a spec needs to know the vocabulary." in err
    assert run(*request, "-o", str(spec), "--vocab-size", "600")[0] == 0
    kept = WatermarkSpec.load(spec)
    assert (kept.vocab_size, kept.tokenizer_digest) == (600, None)
    assert run(*request, "-o", str(spec), "--model", str(words_folder))[0] == 0
    kept = WatermarkSpec.load(spec)
    assert kept.tokenizer_digest == digest_of(load_tokenizer(str(words_folder)))
    assert kept.plan is not None
    assert kept.plan.profile == found["profile"]
    assert (found["profile"]["temperature"], found["profile"]["chat"]) == (0.7, True)


def test_authors_rows_in_json(run: Run) -> None:
    _, out, _ = run("plan", "--method", "authors", *BASE, "--json")
    assert len(json.loads(out)["points"]) == 7
    assert "exceeds alpha" in run("plan", "--method", "authors", *BASE)[1]


def test_power_forward_and_from_a_plan(run: Run, plan_file: Path) -> None:
    code, out, _ = run("power", "--gamma", ".5", "--delta", "2", *BASE, "--json")
    assert code == 0
    assert json.loads(out)["critical_count"] == 32
    _, out, _ = run("power", "--plan", str(plan_file), "--n-tokens", "80", "--survival", ".9")
    assert "green of 80 scored tokens" in out
    assert "attacked_power" in out
    assert "note:" not in out


@pytest.mark.parametrize(
    ("arguments", "column"),
    [
        (("--over", "kl", *BASE), "kl"),
        (("--over", "kl", *BASE, "--from", ".02", "--to", ".05"), "kl"),
        (("--over", "power", *BASE, "--edit-rate", ".05"), "power"),
        (("--over", "n-tokens", "--alpha", ".05", "--power", ".9"), "n_tokens"),
        (("--over", "n-tokens", "--alpha", ".05", "--gamma", ".5", "--delta", "2"), "n_tokens"),
        (("--over", "gamma", *BASE, "--power", ".9"), "gamma"),
        (("--over", "gamma", *BASE, "--delta", "2"), "gamma"),
        (("--over", "delta", *BASE, "--kl", ".1"), "delta"),
        (("--over", "delta", *BASE, "--gamma", ".5"), "delta"),
    ],
)
def test_curves(run: Run, arguments: tuple[str, ...], column: str) -> None:
    code, out, _ = run("curve", *arguments, "--points", "5", "--json")
    points = json.loads(out)["points"]
    assert code == 0
    assert json.loads(out)["over"] == column
    values = [point[column] for point in points]
    assert 2 <= len(values) <= 5
    assert values == sorted(values)


def test_curve_table_and_what_it_leaves_out(run: Run) -> None:
    _, out, err = run(
        "curve", "--over", "gamma", *BASE, "--power", ".9", "--to", ".99", "--points", "4"
    )
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["n_tokens", "gamma", "delta"]
    assert len(lines) == 1 + 3 + 1  # header, the values that exist, signature
    assert "1 of 4 values left out: no test of level alpha" in err
    _, out, _ = run("curve", "--over", "power", *BASE, "--survival", ".9", "--points", "2")
    assert out.splitlines()[0].endswith("attacked_power")


def test_curve_starts_from_a_plan(run: Run, plan_file: Path) -> None:
    _, out, _ = run(
        "curve", "--over", "n-tokens", "--plan", str(plan_file), "--from", "50", "--to", "80",
        "--points", "2", "--json",
    )  # fmt: skip
    first, last = json.loads(out)["points"]
    assert first["power"] == pytest.approx(0.95, abs=1e-6)
    assert last["critical_count"] == 79


@pytest.mark.parametrize("name", ["tradeoff.svg", "tradeoff.png"])
def test_curve_draws_the_tradeoff(run: Run, tmp_path: Path, name: str) -> None:
    code, _, _ = run(
        "curve", "--over", "power", *BASE, "--power", ".95", "--points", "4", "--plot",
        str(tmp_path / name),
    )  # fmt: skip
    assert code == 0
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"<?xml" if name.endswith("svg") else b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == [name]  # no temporary file stays behind


def test_the_picture_shows_every_point() -> None:
    from powermark import frontier
    from powermark.plotting.tradeoff import draw_tradeoff

    curve = frontier(n_tokens=50, alpha=0.05, powers=(0.3, 0.9))
    figure = draw_tradeoff(curve, plan(n_tokens=50, alpha=0.05, power=0.95))
    labels = figure.axes[0].get_legend_handles_labels()[1]
    wanted = ("information limit", "frontier", "γ=0.25, δ=2", "γ=0.5, δ=2", "paper's", "chosen")
    for part, label in zip(wanted, labels, strict=True):
        assert part in label
    short = draw_tradeoff(frontier(n_tokens=1, alpha=0.05, powers=(0.3, 0.9)), None)
    assert len(short.axes[0].get_legend_handles_labels()[1]) == 4  # no paper's point at n = 1


def test_curve_draws_other_quantities(run: Run, tmp_path: Path) -> None:
    for more in ((), ("--survival", ".8")):
        path = tmp_path / "curve.pdf"
        arguments = ("curve", "--over", "delta", *BASE, "--gamma", ".5", "--points", "3", *more)
        assert run(*arguments, "--plot", str(path))[0] == 0
        assert path.read_bytes().startswith(b"%PDF")


def test_reproduce(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run("reproduce", "fig-roots", "-o", str(tmp_path))
    assert code == 0
    assert [Path(line).name for line in out.splitlines()] == [
        "fig-roots-a.csv", "fig-roots-b.csv", "fig-roots.svg",
    ]  # fmt: skip
    monkeypatch.setattr(figures_formulas, "COUNTS", (10, 50))
    profile = tmp_path / "p.npz"
    save_profile(sample()[1], profile)
    for more in ((), ("--profile", str(profile))):
        assert run("reproduce", "fig-steering", "-o", str(tmp_path), *more)[0] == 0
    rows = (tmp_path / "fig-steering.csv").read_text().splitlines()
    assert rows[0] == "signal,gamma,constant,steered,limit"
    assert len(rows) == 5
    assert (tmp_path / "fig-steering.svg").read_bytes().startswith(b"<?xml")
    run("reproduce", "table-hypergeometric", "-o", str(tmp_path))
    table = (tmp_path / "table-hypergeometric.csv").read_text().splitlines()
    assert table[0] == "gamma,delta,vocab_size,hyp2f1,limit,error"
    assert len(table) == 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", *BASE, "--power", ".9", "--gamma", "1.2"), "gamma must be in (0, 1); got 1.2"),
        (("plan", "--n-tokens", "50", "--alpha", "0", "--power", ".9"), "alpha must be in"),
        (("plan", "--n-tokens", "3", "--alpha", "1e-9", "--power", ".9"), "smallest gamma, 0.01"),
        (("plan", *BASE, "--kl", "7"), "kl must be below -log(gamma) = 4.605"),
        (("plan", *BASE), "one of --n-tokens, --alpha, --power, --kl; missing: --power, --kl."),
        (("plan", "--method", "magic", *BASE), "method must be one of"),
        (("plan", *BASE, "--power", ".9", "--signal", "mixture", "--mixture", "1,2"),
         "--mixture must be WEIGHT"),
        (("plan", *BASE, "--power", ".9", "--signal", "mixture"), "--mixture must be WEIGHT"),
        (("plan", *BASE, "--power", ".9", "--signal", "topics"), "--topics must be CONCENTRATION="),
        (("plan", *BASE, "--power", ".9", "--from", "ids"), "--from needs a profile"),
        (("plan", *BASE, "--power", ".9", "--entropy", ".4"), "--entropy needs --like"),
        (("power", *BASE, "--gamma", ".5", "--delta", "2", "--like", "poem"),
         "there is no reference profile 'poem'"),
        (("curve", "--over", "power", *BASE, "--like", "chat", "--entropy", "20"),
         "--entropy must be between"),
        (("plan", *BASE, "--power", ".9", "--like", "chat", "--entropy", "-1"),
         "--entropy must be"),
        (("plan", *BASE, "--power", ".9", "--like", "chat", "--signal", "topics"),
         "give one of --profile, --like and --signal"),
        (("plan", *BASE, "--power", ".9", "--from", "air"), "--from must be text or ids"),
        (("plan", *BASE, "--power", ".9", "--signal", "topics", "--topics", ".4=1:5/x=1:9"),
         "--topics must be CONCENTRATION="),
        (("plan", *BASE, "--power", ".9", "--topics", "1=1:5"), "--topics needs --signal topics"),
        (("plan", *BASE, "--power", ".9", "--signal", "dirichlet", "--vocab-size", "16777216",
          "--concentration", "1e302"), "concentrations must be in [1e-100, inf); got inf."),
        (("plan", *BASE, "--power", ".9", "--signal", "dirichlet"), "needs --vocab-size"),
        (("plan", *BASE, "--power", ".9", "--signal", "loud"), "--signal must be plug-in"),
        (("plan", *BASE, "--power", ".9", "--vocab-size", "50"), "need --signal dirichlet"),
        (("curve", "--over", "power", *BASE, "--to", "inf"), "below --to"),
        (("power", "--plan", "nowhere.json"), "cannot read 'nowhere.json': No such file"),
        (("power", *BASE), "missing: --gamma, --delta"),
        (("power", *BASE, "--gamma", ".5", "--delta", "2", "--test", "t"), "test must be one of"),
        (("curve", "--over", "colour"), "--over must be"),
        (("curve", "--over", "kl", "--alpha", ".05"), "missing: --n-tokens"),
        (("curve", "--over", "gamma", *BASE), "needs --power or --kl"),
        (("curve", "--over", "n-tokens", *BASE), "leave --n-tokens out, or use --from"),
        (("curve", "--over", "gamma", *BASE, "--gamma", ".5"), "--over gamma varies it"),
        (("curve", "--over", "power", *BASE, "--kl", ".1"), "leave --kl out"),
        (("plan", *BASE, "--power", ".9", "--signal", "dirichlet", "--vocab-size", "50",
          "--mixture", "1:1"), "--mixture needs --signal mixture"),
        (("curve", "--over", "power", *BASE, "--points", "1"), "--points must be at least 2"),
        (("curve", "--over", "power", *BASE, "--from", ".9", "--to", ".5"), "below --to"),
        (("curve", "--over", "power", *BASE, "--gamma", ".5", "--delta", "2"), "delta free"),
        (("curve", "--over", "gamma", *BASE, "--power", ".9", "--from", ".97", "--to", ".99"),
         "no test of level alpha"),
        (("reproduce", "fig-nothing"), "target must be one of"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_sentence_and_exit_code_2(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("powermark: ")
    assert message in err
    assert len(err.splitlines()) <= 2  # the sentence, and perhaps a hint


def test_a_value_out_of_range_comes_with_what_it_means(run: Run) -> None:
    _, _, err = run("plan", *BASE, "--power", ".9", "--gamma", "1.2")
    assert err.splitlines()[1] == (
        "  hint: gamma is the green share of the vocabulary, for example 0.25."
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "must be a plan; got a list"),
        (" " * (2**24 + 1), "has more than 16777216 bytes"),
        ('{"gamma": 0.5}', "must be a number; got None"),
        ('{"gamma": "green", "delta": 2, "n_tokens": 50, "alpha": 0.05}', "must be a number"),
        ('{"gamma": [0.5], "delta": 2, "n_tokens": 50, "alpha": 0.05}', "must be a number"),
        ('{"gamma": 1.5, "delta": 2, "n_tokens": 50, "alpha": 0.05}', "gamma must be in (0, 1)"),
    ],
)
def test_broken_plan_files(run: Run, tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    code, _, err = run("power", "--plan", str(path))
    assert code == 2
    assert message in err


def test_plots_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    arguments = ("curve", "--over", "power", *BASE, "--points", "2", "--plot")
    code, _, err = run(*arguments, str(tmp_path / "nowhere" / "x.svg"))
    assert code == 2
    assert "cannot write" in err
    assert "must end in .svg, .png or .pdf" in run(*arguments, str(tmp_path / "x.txt"))[2]
    (tmp_path / "folder.svg").mkdir()
    assert "may be overwritten" in run(*arguments, str(tmp_path / "folder.svg"))[2]
    assert [p.name for p in tmp_path.iterdir()] == ["folder.svg"]


def test_without_matplotlib_the_extra_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ("curve", "--over", "power", *BASE, "--points", "2", "--plot")
    code, _, err = run(*arguments, str(tmp_path / "x.svg"))
    assert code == 2
    assert "pip install 'powermark[plot]'" in err
    assert canvas.FORMATS == ("svg", "png", "pdf")


def test_the_installed_program() -> None:
    """The real entry point in a process of its own: version, help, usage error, exit codes."""
    program = Path(sys.executable).with_name("powermark")
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments], capture_output=True, text=True, env=environment, check=False
        )

    assert call("--version").stdout.startswith("powermark 0.")
    for command in ((), ("plan",), ("power",), ("curve",), ("greenlist",), ("reproduce",)):
        shown = call(*command, "--help")
        assert shown.returncode == 0
        assert "Usage: powermark" in shown.stdout
        assert not command or "Examples:" in shown.stdout
    assert call("plan", "--n-tokens", "many").returncode == 2
    broken = call("plan", "--n-tokens", "50", "--alpha", "0", "--power", ".9")
    assert broken.returncode == 2
    assert "Traceback" not in broken.stderr


def test_options_that_would_be_ignored_are_refused(run: Run) -> None:
    fixed = ("curve", "--gamma", ".5", "--delta", "2", "--alpha", ".01")
    assert "leave --n-tokens out" in run(*fixed, "--over", "n-tokens", "--n-tokens", "50")[2]
    for option in ("--power", "--kl", "--attacked-power"):
        _, _, err = run(*fixed, "--over", "n-tokens", option, ".1")
        assert "nothing left for --power" in err


def test_defaults_are_the_library_s() -> None:
    from powermark.interfaces.cli import options
    from powermark.planning import request
    from powermark.signals import edits

    assert options.CONTEXT_WIDTH == edits.CONTEXT_WIDTH
    assert options.PRECISION == request.PRECISION


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", *BASE, "--power", "2"), "powermark: --power must be in (0, 1); got 2."),
        (("plan", *BASE, "--power", ".9", "--gamma", ".5", "--delta", "2"),
         "powermark: fix --gamma or --delta, not both: together they leave nothing to plan."),
        (("plan", *BASE, "--power", ".9", "--attacked-power", ".5"),
         "  hint: give --edit-rate, --survival or --removal too."),
        (("plan", *BASE, "--power", ".9", "--method", "paper", "--delta", "2"),
         "powermark: --method paper takes neither edits nor a fixed delta."),
        (("plan", "--n-tokens", "5", "--alpha", ".05", "--power", ".9", "--steer",
          "--checkpoint", "9"), "powermark: --checkpoint must be below n_tokens, 5."),
        (("plan", *BASE, "--power", ".9", "--kl-cap", "1"),
         "powermark: --checkpoint, --delta-cap and --kl-cap need --steer."),
    ],
)  # fmt: skip
def test_errors_name_options(run: Run, arguments: tuple[str, ...], message: str) -> None:
    assert message in run(*arguments)[2].splitlines()
