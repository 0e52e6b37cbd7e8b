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
from powermark.models.chat import Thoughts
from powermark.watermark.keys import PREFIX
from tests.conftest import Run
from tests.interfaces.server import Asked, asking


@pytest.fixture
def shelf(tiny_folder: Path, tmp_path: Path, run: Run) -> Path:
    (tmp_path / "s.key").write_text(PREFIX + bytes(range(32)).hex())
    (tmp_path / "s.key").chmod(0o600)
    spec = str(tmp_path / "s.json")
    run("spec", "new", spec, "--gamma", ".5", "--delta", "4", "--model", str(tiny_folder))
    return tmp_path


@pytest.fixture
def writing(tiny_model: LanguageModel, shelf: Path) -> Iterator[Asked]:
    with asking(load_library(shelf, [tiny_model.tokenizer]), model=tiny_model) as asked:
        yield asked


def events(asked: Asked, **body: Any) -> list[dict[str, Any]]:
    answer = asked.http.post("/v1/generate", json={"spec": "s", "prompt": "a b", **body})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_records_are_those_of_the_command_line(
    writing: Asked, run: Run, tiny_folder: Path, shelf: Path
) -> None:
    *steps, last = events(writing, n_tokens=12, seed=2)
    _, out, _ = run("generate", "--model", str(tiny_folder), "--spec", str(shelf / "s.json"),
                    "--key", str(shelf / "s.key"), "--n-tokens", "12", "--seed", "2", "--batch",
                    "1", "--json", "a b")  # fmt: skip
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


def test_chats_and_thoughts(
    shelf: Path, tiny_model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        tiny_model.tokenizer, "chat_template", "{{ messages[0]['content'] }}", raising=False
    )
    chat = [{"role": "user", "content": "a b"}]
    with asking(load_library(shelf, [tiny_model.tokenizer]), model=tiny_model) as asked:
        assert asked.http.get("/v1/specs").json()["chat"] is True
        asks = {"n_tokens": 4, "seed": 2}
        *_, by_prompt = events(asked, **asks)
        *_, by_messages = events(asked, prompt=None, messages=chat, **asks)
        assert by_prompt["records"] == by_messages["records"]
        assert by_prompt["records"][0]["prompt"] == chat
        *_, continued = events(asked, raw=True, **asks)
        assert continued["records"][0]["prompt"] == "a b"
        for body in ({}, {"prompt": "a", "messages": chat}):
            answer = asked.http.post("/v1/generate", json={"spec": "s", **body})
            assert "give either prompt or messages" in answer.text
        monkeypatch.setattr(Thoughts, "answer_start", lambda _, ids, __=(): len(ids))
        *steps, _ = events(asked, **asks)
        assert {step["rows"][0]["state"] for step in steps} == {"thinking"}


def test_a_text_that_ends_is_left_alone(writing: Asked, tiny_model: LanguageModel) -> None:
    ends = tiny_model.end_ids
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanguageModel, "end_ids", set(range(100)) | ends)
        *steps, _ = events(writing, n_tokens=4, seed=0)
    assert {step["rows"][0]["state"] for step in steps} == {"ended"}


def test_a_text_that_takes_too_long_is_cut_and_says_so(
    tiny_model: LanguageModel, shelf: Path
) -> None:
    hurried = Limits(seconds=1e-9)
    with asking(
        load_library(shelf, [tiny_model.tokenizer]), model=tiny_model, limits=hurried
    ) as asked:
        *steps, last = events(asked, n_tokens=12, seed=2)
    assert len(steps) == 1
    assert "cut at the time limit" in last["notes"][-1]


def test_refusals(writing: Asked, tiny_model: LanguageModel, shelf: Path) -> None:
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
    with asking(load_library(shelf, [tiny_model.tokenizer]), model=tiny_model) as keyless:
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


def test_a_client_that_goes_away_stops_the_writing(tiny_model: LanguageModel, shelf: Path) -> None:
    import asyncio

    from powermark.interfaces.server.schemas import GenerateRequest
    from powermark.interfaces.server.writer import Writer

    mark: LoadedMark = load_library(shelf, [tiny_model.tokenizer]).mark("s")
    writer = Writer(tiny_model, Limits())
    given = {"spec": "s", "prompt": "a", "n_tokens": 60}

    async def leave() -> None:
        lines = writer.events(mark, GenerateRequest.model_validate(given))
        await anext(lines)
        await lines.aclose()  # type: ignore[attr-defined]
        while writer._lock.locked():  # the thread notices at its next step
            await asyncio.sleep(0.01)

    start = time.monotonic()
    asyncio.run(leave())
    assert time.monotonic() - start < 20
    assert threading.active_count() < 50


def test_a_server_that_ends_stops_the_writing(
    tiny_model: LanguageModel, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop is closed after the first token, and nobody has told the thread."""
    import asyncio

    from powermark.generation.writing import write_texts
    from powermark.interfaces.server import writer as module
    from powermark.interfaces.server.schemas import GenerateRequest

    broken: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", broken.append)
    closed, stops = threading.Event(), list[bool]()

    def held(*given: Any, stop: Any, **more: Any) -> Any:
        def stop_later(ids: Any) -> bool:
            assert not stops or closed.wait(20)
            stops.append(stop(ids))
            return stops[-1]

        return write_texts(*given, stop=stop_later, **more)

    monkeypatch.setattr(module, "write_texts", held)
    mark: LoadedMark = load_library(shelf, [tiny_model.tokenizer]).mark("s")
    writer = module.Writer(tiny_model, Limits())
    asked = {"spec": "s", "prompt": "a", "n_tokens": 60, "seed": 2}
    given = GenerateRequest.model_validate(asked)
    before = set(threading.enumerate())
    loop, lines = asyncio.new_event_loop(), writer.events(mark, given)
    loop.run_until_complete(anext(lines))
    loop.close()
    closed.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
    assert stops == [False, True]
    assert broken == []
    assert not writer._lock.locked()
