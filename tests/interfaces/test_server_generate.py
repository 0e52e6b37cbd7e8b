"""``/v1/generate`` on a small random model: the command line's records, step by step."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from powermark.interfaces.server.library import Library, LoadedMark, load_library
from powermark.interfaces.server.limits import Limits
from powermark.models import LanguageModel
from powermark.watermark.keys import PREFIX
from tests.interfaces.server import Asked, asking
from tests.interfaces.test_cli import Run, run
from tests.models.test_language_model import folder, model

__all__ = ["folder", "model", "run"]  # fixtures, used below by name


@pytest.fixture
def shelf(folder: Path, tmp_path: Path, run: Run) -> Path:
    (tmp_path / "s.key").write_text(PREFIX + bytes(range(32)).hex())
    (tmp_path / "s.key").chmod(0o600)
    spec = str(tmp_path / "s.json")
    run("spec", "new", spec, "--gamma", ".5", "--delta", "4", "--model", str(folder))
    return tmp_path


@pytest.fixture
def writing(model: LanguageModel, shelf: Path) -> Iterator[Asked]:
    with asking(load_library(shelf, [model.tokenizer]), model=model) as asked:
        yield asked


def events(asked: Asked, **body: Any) -> list[dict[str, Any]]:
    answer = asked.http.post("/v1/generate", json={"spec": "s", "prompt": "a b", **body})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_records_are_those_of_the_command_line(
    writing: Asked, run: Run, folder: Path, shelf: Path
) -> None:
    *steps, last = events(writing, n_tokens=12, seed=2)
    _, out, _ = run("generate", "--model", str(folder), "--spec", str(shelf / "s.json"), "--key",
                    str(shelf / "s.key"), "--n-tokens", "12", "--seed", "2", "--batch", "1",
                    "--json", "a b")  # fmt: skip
    told = json.loads(out)
    assert last == {"records": [told], "notes": []}
    rows = [step["rows"][0] for step in steps]
    assert "".join(row["text"] for row in rows).strip() == told["text"].strip()
    states = [row["state"] for row in rows]
    assert states[:2] == ["no context"] * 2
    assert rows[-1]["green"] == states.count("green") > 0
    assert rows[-1]["scored"] == states.count("green") + states.count("red")


def test_two_texts_side_by_side(writing: Asked) -> None:
    *steps, last = events(writing, n_tokens=30, compare=True, seed=2)
    assert len(last["records"]) == 2
    assert all(len(step["rows"]) == 2 for step in steps)
    marked, plain = steps[-1]["rows"]
    assert marked["log_e"] > plain["log_e"]
    assert writing.http.get("/v1/specs").json()["model"] is not None


def test_a_text_that_ends_is_left_alone(writing: Asked, model: LanguageModel) -> None:
    ends = model.end_ids
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanguageModel, "end_ids", set(range(100)) | ends)
        *steps, _ = events(writing, n_tokens=4, seed=0)
    assert {step["rows"][0]["state"] for step in steps} == {"ended"}


def test_a_text_that_takes_too_long_is_cut_and_says_so(model: LanguageModel, shelf: Path) -> None:
    hurried = Limits(seconds=1e-9)
    with asking(load_library(shelf, [model.tokenizer]), model=model, limits=hurried) as asked:
        *steps, last = events(asked, n_tokens=12, seed=2)
    assert len(steps) == 1
    assert "the time was up" in last["notes"][-1]


def test_refusals(writing: Asked, model: LanguageModel, shelf: Path) -> None:
    def status(**body: Any) -> int:
        given = {"spec": "s", "prompt": "a", **body}
        return writing.http.post("/v1/generate", json=given).status_code

    assert status(spec="none") == 404
    assert status(top_p=-1.0) == 422
    assert status(n_tokens=513) == 422
    assert writing.service.writer is not None
    assert writing.service.writer._lock.acquire(timeout=5)
    assert status() == 503
    writing.service.writer._lock.release()
    (shelf / "s.key").unlink()
    with asking(load_library(shelf, [model.tokenizer]), model=model) as keyless:
        answer = keyless.http.post("/v1/generate", json={"spec": "s", "prompt": "a"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "no-key")
    with asking(Library()) as plain:
        assert plain.http.post("/v1/generate", json={}).status_code == 404


def test_errors_on_the_way_end_the_stream(
    writing: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    from powermark.errors import InvalidInput
    from powermark.interfaces.server import writer

    def ends(error: Exception) -> dict[str, Any]:
        def broken(*_: object) -> None:
            raise error

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer, "signature_of", lambda *_: "")
            patch.setattr(writer, "write_texts", _one_step_then(broken))
            return dict(events(writing, n_tokens=3)[-1]["error"])

    assert ends(InvalidInput("no more words.")) == {"code": "invalid", "message": "no more words."}
    assert ends(RuntimeError("a secret prompt")) == {
        "code": "broken",
        "message": "the text could not be finished.",
    }
    assert "secret" not in capsys.readouterr().err


def _one_step_then(end: Any) -> Any:
    def write(model: Any, prompts: Any, sampling: Any, *, stop: Any, **_: Any) -> Any:
        import torch

        del sampling
        stop(torch.tensor([[*model.encode(prompts[0]), 5]]))
        end()

    return write


def test_a_client_that_goes_away_stops_the_writing(model: LanguageModel, shelf: Path) -> None:
    import asyncio

    from powermark.interfaces.server.schemas import GenerateAsked
    from powermark.interfaces.server.writer import Writer

    mark: LoadedMark = load_library(shelf, [model.tokenizer]).mark("s")
    writer = Writer(model, Limits())
    given = {"spec": "s", "prompt": "a", "n_tokens": 60}

    async def leave() -> None:
        lines = writer.events(mark, GenerateAsked.model_validate(given))
        await anext(lines)
        await lines.aclose()  # type: ignore[attr-defined]
        while writer._lock.locked():  # the thread notices at its next step
            await asyncio.sleep(0.01)

    start = time.monotonic()
    asyncio.run(leave())
    assert time.monotonic() - start < 20
    assert threading.active_count() < 50


def test_a_server_that_ends_stops_the_writing(
    model: LanguageModel, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    from powermark.interfaces.server.schemas import GenerateAsked
    from powermark.interfaces.server.writer import Writer

    broken: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", broken.append)
    mark: LoadedMark = load_library(shelf, [model.tokenizer]).mark("s")
    writer = Writer(model, Limits())
    given = GenerateAsked.model_validate({"spec": "s", "prompt": "a", "n_tokens": 60})
    before = set(threading.enumerate())

    async def end() -> None:
        await anext(writer.events(mark, given))

    asyncio.run(end())  # and the loop is closed while the thread writes
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
    assert broken == []
    assert not writer._lock.locked()
