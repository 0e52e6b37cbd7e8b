"""verify --endpoint on a small server of our own, which marks as an engine does."""

import json
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.generation.completions import Server


def test_a_server_that_keeps_its_promise(
    run: Run, job: tuple[str, ...], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    code, out, err = run(*job, "--mark", "s", "--served-model", "words", "--json")
    assert code == 3, err  # 16 texts are too few to be sure
    found = json.loads(out)
    assert [check["name"] for check in found["checks"]] == ["gamma_prime", "power", "size"]
    assert (found["texts"], found["marked"], found["broken"]) == (16, 16, [])
    assert found["speed"].keys() == {"marked", "unmarked", "lost"}
    assert "of 16 marked requests" in " ".join(found["notes"])
    assert server.secret == "Bearer canary"
    assert "canary" not in out + err


def test_a_server_that_does_not_mark(
    run: Run, job: tuple[str, ...], server: Server, tmp_path: Path
) -> None:
    server.delta, server.tells_ids = 0.0, False
    code, out, _ = run(*job, "--no-compare", "--html", str(tmp_path / "page.html"))
    assert code == 1
    assert "The promise is broken" in out
    assert "unmarked requests" not in out
    assert "its texts were tokenised again" in out
    assert (tmp_path / "page.html").exists()


def test_a_modest_promise_is_kept(run: Run, job: tuple[str, ...], tmp_path: Path) -> None:
    """A server that marks more strongly than was promised: few texts show it."""
    modest = tmp_path / "modest.json"
    code, _, err = run("plan", "--n-tokens", "30", "--alpha", ".05", "--power", ".3", "--gamma",
                       ".5", *job[5:7], "-o", str(modest))  # fmt: skip
    assert code == 0, err
    code, out, err = run(*job[:2], str(modest), *job[3:], "--no-compare")
    assert code == 0, err
    assert "The promise holds" in out


def test_without_prompts(run: Run, job: tuple[str, ...]) -> None:
    without = [word for word in job if word not in job[7:9]]
    code, out, err = run(*without, "--no-compare")
    assert code == 3, err
    assert "There are not enough texts to say" in out


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no model", "/v1/models names no model"),
        ("refused", "/v1/completions answers 400: no mark named 'x' here"),
        ("broken", "answers 500: Internal Server Error"),
        ("stops", "the server stopped: out of memory"),
        ("nonsense", "broke off in the middle of a response (KeyError('choices'))"),
    ],
)
def test_faults_of_the_server_are_reported(
    run: Run, job: tuple[str, ...], server: Server, fault: str, words: str
) -> None:
    server.fault = fault
    code, _, err = run(*job)
    assert code == 2
    assert words in err


def test_options_that_exclude_each_other(run: Run, job: tuple[str, ...], tmp_path: Path) -> None:
    assert "-o cannot be used with --endpoint" in run(*job, "-o", str(tmp_path / "t.jsonl"))[2]
    assert "are for --endpoint" in run(*job[:-2], "--mark", "s")[2]
