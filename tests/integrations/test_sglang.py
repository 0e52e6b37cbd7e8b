"""The SGLang processor on SGLang's own class, or what is known of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from powermark.errors import EngineProblem, InvalidInput, SpecMismatch
from powermark.watermark.embed import scheme_of
from powermark.watermark.keys import SecretKey
from tests.integrations.engines import install
from tests.integrations.served import SECRETS, WIDTH, serve, spec

KEY = SecretKey(SECRETS["old"])


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    marks = {"one": spec(1), "two": spec(2, gamma=0.25)}
    serve(monkeypatch, tmp_path, marks, default="one", opt_out="yes")
    return install(monkeypatch, "sglang")[0].Watermark()


def request(name: str, prompt: list[int], temperature: float = 1.0) -> dict[str, Any]:
    about = SimpleNamespace(
        origin_input_ids=prompt,
        output_ids=[],
        sampling_params=SimpleNamespace(temperature=temperature),
        is_chunked=0,
    )
    return {"powermark": name, "__req__": about}


def bias(mark: Any, context: list[int], delta: float) -> torch.Tensor:
    row = np.zeros((1, WIDTH), np.float32)
    scheme_of(mark, KEY).add_bias(row, [context], delta)
    return torch.from_numpy(row[0])


def test_each_row_gets_its_request_s_mark(processor: Any) -> None:
    params = [request("one", [5, 6]), request("off", [5]), request("two", [7, 8], 0.5)]
    logits = processor(torch.zeros(3, WIDTH), params)
    assert torch.equal(logits[0], bias(spec(1), [6], 2.0))
    assert not logits[1].any()
    assert torch.equal(logits[2], bias(spec(2, gamma=0.25), [7, 8], 1.0))
    for one in params:
        one["__req__"].output_ids.append(9)
    logits = processor(torch.zeros(2, WIDTH), params[::-2])  # fewer rows, in another order
    assert torch.equal(logits[0], bias(spec(2, gamma=0.25), [8, 9], 1.0))
    assert torch.equal(logits[1], bias(spec(1), [9], 2.0))
    assert not processor(torch.zeros(1, WIDTH)).any()


def test_stale_ids_are_refused(processor: Any) -> None:
    params = request("one", [5, 6])
    params["__req__"].is_chunked = 1
    for _ in range(2):  # pieces of a long prompt
        processor(torch.zeros(1, WIDTH), [params])
    params["__req__"].is_chunked = 0
    with pytest.raises(EngineProblem, match="shows 0 written tokens after 0: they are stale"):
        processor(torch.zeros(1, WIDTH), [params])


def test_what_cannot_be_marked_is_refused(processor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="no mark named 'three'"):
        processor(torch.zeros(1, WIDTH), [request("three", [1])])
    with pytest.raises(SpecMismatch, match="the model has 99"):
        processor(torch.zeros(1, 99), [request("one", [1])])
    for name in ("SPECS", "KEYS", "DEFAULT", "OPT_OUT"):
        monkeypatch.delenv(f"POWERMARK_{name}")
    fresh = install(monkeypatch, "sglang")[0].Watermark()
    with pytest.raises(InvalidInput, match="was not told its marks"):
        fresh(torch.zeros(1, WIDTH), [request("one", [1])])
