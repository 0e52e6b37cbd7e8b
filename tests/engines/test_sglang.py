"""The SGLang processor on SGLang's own class, or what is known of it."""

import json
import weakref
from array import array
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from powermark.watermark.keys import SecretKey
from powermark.watermark.watermark import Watermark
from tests.engines.engines import install
from tests.engines.served import SECRETS, TOKENIZER, VOCAB, WIDTH, Tokens, serve, spec, steered

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
        sampling_params=SimpleNamespace(
            temperature=temperature, top_k=1 << 30, top_p=1.0, min_p=0.0, repetition_penalty=1.0
        ),
        inflight_middle_chunks=0,
        beam_group=None,
        to_finish=None,
        tokenizer=TOKENIZER,
    )
    return {"powermark": name, "__req__": about}


def assert_ended(logits: torch.Tensor, params: dict[str, Any], words: str) -> None:
    """The text goes no further than one token, and its request ends with HTTP 400."""
    assert logits.argmax() == 0
    assert torch.isneginf(logits[1:]).all()
    reason = params["__req__"].to_finish
    assert words in reason.message
    assert (reason.status_code, reason.err_type) == (400, "BadRequestError")


def bias(mark: Any, context: list[int], delta: float) -> torch.Tensor:
    row = np.zeros((1, WIDTH), np.float32)
    Watermark(mark, KEY).scheme.add_bias(row, [context], delta)
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


def test_pieces_of_a_long_prompt_are_waited_for(processor: Any) -> None:
    params = request("one", [5, 6])
    params["__req__"].inflight_middle_chunks = 1
    for _ in range(2):
        assert not processor(torch.zeros(1, WIDTH), [params]).any()
    params["__req__"].inflight_middle_chunks = 0
    logits = processor(torch.zeros(1, WIDTH), [params])
    assert torch.equal(logits[0], bias(spec(1), [6], 2.0))


def test_lists_that_the_engine_replaces_are_followed(processor: Any) -> None:
    params = request("one", [5, 6])
    processor(torch.zeros(1, WIDTH), [params])
    params["__req__"].output_ids = array("q", [7])  # as SGLang keeps them
    logits = processor(torch.zeros(1, WIDTH), [params])
    assert torch.equal(logits[0], bias(spec(1), [7], 2.0))


def test_stale_ids_end_their_request_alone(processor: Any) -> None:
    stale, other = request("one", [5, 6]), request("one", [5, 6])
    processor(torch.zeros(2, WIDTH), [stale, other])
    other["__req__"].output_ids.append(7)
    logits = processor(torch.zeros(2, WIDTH), [stale, other])
    assert_ended(logits[0], stale, "shows 0 written tokens after 0: they are stale")
    assert torch.equal(logits[1], bias(spec(1), [7], 2.0))
    assert other["__req__"].to_finish is None


def test_requests_that_cannot_be_marked_end_alone(
    processor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown, good = request("three", [1]), request("one", [1])
    logits = processor(torch.zeros(2, WIDTH), [unknown, good])
    assert_ended(logits[0], unknown, "no mark named 'three'")
    assert torch.equal(logits[1], bias(spec(1), [1], 2.0))
    wrong = request("one", [1])
    assert_ended(processor(torch.zeros(1, 99), [wrong])[0], wrong, "the model has 99")
    other_version = request("one", [1])
    del other_version["__req__"].inflight_middle_chunks
    assert_ended(processor(torch.zeros(1, WIDTH), [other_version])[0], other_version, "attribute")
    for name in ("SPECS", "KEYS", "DEFAULT", "OPT_OUT"):
        monkeypatch.delenv(f"POWERMARK_{name}")
    fresh = install(monkeypatch, "sglang")[0].Watermark()
    untold = request("one", [1])
    assert_ended(fresh(torch.zeros(1, WIDTH), [untold])[0], untold, "has no marks configured")


@pytest.mark.parametrize("params", [None, {}, {"powermark": "one"}])
def test_requests_without_parameters_get_an_empty_text(processor: Any, params: Any) -> None:
    good = request("one", [1])
    logits = processor(torch.zeros(2, WIDTH), [params, good])
    assert torch.isneginf(logits[0, 1:]).all()
    assert torch.equal(logits[1], bias(spec(1), [1], 2.0))
    assert torch.isneginf(processor(torch.zeros(1, WIDTH))[0, 1:]).all()


def test_speculative_decoding_is_refused(processor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    context = import_module("sglang.srt.runtime_context")
    drafts = SimpleNamespace(speculative_algorithm="EAGLE")
    monkeypatch.setattr(context, "get_spec", lambda: drafts)
    params = request("one", [1])
    logits = processor(torch.zeros(1, WIDTH), [params])
    assert_ended(logits[0], params, "with speculative decoding (EAGLE)")


def test_another_tokenizer_is_refused(processor: Any) -> None:
    for tokenizer, words in (
        (Tokens(VOCAB - 1), "vocabulary of 400; the tokenizer has 399 ids"),
        (Shifted(VOCAB), "for the tokenizer"),
        (None, "runs without a tokenizer"),
    ):
        params = request("one", [1])
        params["__req__"].tokenizer = tokenizer
        assert_ended(processor(torch.zeros(1, WIDTH), [params])[0], params, words)
    free = request("off", [1])
    free["__req__"].tokenizer = None
    assert not processor(torch.zeros(1, WIDTH), [free]).any()


class Shifted(Tokens):
    """As many ids, for other letters."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        found = super().encode(text, add_special_tokens=add_special_tokens)
        return [(token + 1) % self.size for token in found]


def test_special_tokens_do_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mark = steered(1)
    serve(monkeypatch, tmp_path, {"one": mark})
    processor = install(monkeypatch, "sglang")[0].Watermark()
    params = request("one", [5])
    params["__req__"].output_ids = [7]
    processor(torch.zeros(1, WIDTH), [params])
    params["__req__"].output_ids = [7, TOKENIZER.all_special_ids[0]]
    processor(torch.zeros(1, WIDTH), [params])
    params["__req__"].output_ids = [7, TOKENIZER.all_special_ids[0], 7]
    logits = processor(torch.zeros(1, WIDTH), [params])
    schedule = mark.schedule
    assert schedule is not None
    green = int(Watermark(mark, KEY).scheme.are_green([[TOKENIZER.all_special_ids[0]]], [7])[0])
    assert float(logits.max()) == pytest.approx(schedule.deltas[1, green])


def test_a_request_that_is_gone_ends_quietly(processor: Any) -> None:
    gone, good = request("one", [1]), request("one", [1])

    class Request(SimpleNamespace):
        """With room for weak references."""

    about = Request(**vars(gone["__req__"]))
    gone["__req__"] = weakref.proxy(about)
    processor(torch.zeros(1, WIDTH), [gone])
    del about
    for params in (gone, {"powermark": "one", "__req__": gone["__req__"]}):  # begun, and not yet
        logits = processor(torch.zeros(2, WIDTH), [params, good])
        assert torch.isneginf(logits[0, 1:]).all()
        assert torch.equal(logits[1], bias(spec(1), [1, *good["__req__"].output_ids][-1:], 2.0))
        good["__req__"].output_ids.append(9)


def test_beam_search_is_refused(processor: Any) -> None:
    params = request("one", [1])
    params["__req__"].beam_group = object()
    logits = processor(torch.zeros(1, WIDTH), [params])
    assert_ended(logits[0], params, "beam search cannot be marked")


def test_what_a_request_sends_is_the_class_by_name(processor: Any) -> None:
    kind = type(processor)
    sent = kind.to_str()
    assert len(sent) < 300
    assert "powermark.engines.sglang" in bytes.fromhex(json.loads(sent)["callable"]).decode(
        "latin-1"
    )
    again = kind.from_str(sent)
    params = request("one", [5, 6])
    assert torch.equal(again(torch.zeros(1, WIDTH), [params])[0], bias(spec(1), [6], 2.0))
