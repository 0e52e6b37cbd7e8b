"""Model Runner V2's own loader, request buffers and contexts, on a CPU; run by make test-vllm.

V2 itself needs Triton. Its loader, the state it keeps of requests and the contexts it hands to
processors do not: they are real here, and what a model and a sampler would do is played.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.v1.worker.gpu import buffer_utils
from vllm.v1.worker.gpu.sample.logits_processor import (
    LogitsContext,
    build_custom_logits_processors,
    build_custom_logits_processors_params_validator,
)
from vllm.v1.worker.gpu.states import RequestState

from powermark.engines import vllm as adapter
from powermark.engines import vllm_guard
from powermark.watermark.keys import SecretKey
from powermark.watermark.watermark import Watermark
from tests.engines.engines import Config
from tests.engines.served import SECRETS, TOKENIZER, WIDTH, serve, spec

MARKS = {"one": spec(1), "four": spec(4, gamma=0.25)}
KEY = SecretKey(SECRETS["old"])
NAME = "powermark.engines.vllm:Watermark"
DRAFTS = 3


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    serve(monkeypatch, tmp_path, MARKS, default="one", opt_out="yes")
    monkeypatch.setattr(adapter, "cached_tokenizer_from_config", lambda given: given.its_tokenizer)
    adapter._marks.cache_clear()
    monkeypatch.setattr(buffer_utils, "is_uva_available", lambda: False)  # as on a CPU
    vllm_guard.installed.set()
    yield Config(TOKENIZER, WIDTH, [NAME], speculative_config=object(), use_v2_model_runner=True)
    vllm_guard.installed.clear()
    adapter._marks.cache_clear()


def buffers() -> RequestState:
    return RequestState(4, 256, 64, DRAFTS, WIDTH, torch.device("cpu"))


def load(config: Any, state: RequestState) -> list[Any]:
    """All processors that V2 loads: the installed entry point's, then the flag's."""
    return list(build_custom_logits_processors(config, state, False, [NAME]))


def asks(name: str) -> SamplingParams:
    return SamplingParams(temperature=1.0, extra_args={"powermark": name})


def test_the_loader_takes_flag_and_entry_point_and_marks_once(config: Any) -> None:
    state = buffers()
    processors = load(config, state)
    assert all(isinstance(one, adapter.Watermark) for one in processors)
    assert sum(one._active for one in processors) == 1
    state.all_token_ids.gpu[2, :3] = torch.tensor([5, 6, 7])
    logits = torch.zeros(1, WIDTH)
    for one in processors:
        one.add_request(2, asks("one"))
        one.apply_staged_writes()
    for one in processors:
        logits = one.apply(logits, context([(2, [7], 2)]))
    assert torch.equal(logits[0], bias("one", [7]))


@pytest.mark.usefixtures("config")
def test_the_validator_answers() -> None:
    validate = build_custom_logits_processors_params_validator([NAME])
    validate(asks("four"))
    validate(SamplingParams())
    with pytest.raises(VLLMValidationError, match="no mark named 'nine'"):
        validate(asks("nine"))
    beam = SamplingParams(logprobs=8, max_tokens=1, temperature=0.0, detokenize=False)
    with pytest.raises(VLLMValidationError, match="leave use_beam_search out"):
        validate(beam)


def test_speculative_rows_over_whole_texts(config: Any) -> None:
    """Three texts side by side; drafts are kept in part, and thrown away in part."""
    state, rng = buffers(), np.random.default_rng(0)
    processors = load(config, state)
    marks = {3: "four", 0: "one", 1: "off"}
    texts = {slot: rng.integers(0, 390, 5 + slot).tolist() for slot in marks}
    for one in processors:
        for slot, name in marks.items():
            one.add_request(slot, asks(name))
    for _ in range(20):
        slots = rng.permutation(list(marks)).tolist()  # rows are ordered anew at every step
        rows = []
        for slot in slots:
            ids = texts[slot]
            state.all_token_ids.gpu[slot] = -7  # nothing but what was committed is right
            state.all_token_ids.gpu[slot, : len(ids)] = torch.tensor(ids)
            drafts = rng.integers(0, 390, rng.integers(0, DRAFTS + 1)).tolist()
            rows.append((slot, [ids[-1], *drafts], len(ids) - 1))
        logits = torch.zeros(sum(len(fed) for _, fed, _ in rows), WIDTH)
        for one in processors:
            one.apply_staged_writes()
            logits = one.apply(logits, context(rows))
        row = 0
        for slot, fed, _ in rows:
            for place in range(len(fed)):
                seen = [*texts[slot], *fed[1 : place + 1]]
                want = torch.zeros(WIDTH) if slot == 1 else bias(marks[slot], seen)
                assert torch.equal(logits[row], want)
                row += 1
            kept = int(rng.integers(0, len(fed)))
            texts[slot] += [*fed[1 : kept + 1], int(rng.integers(0, 390))]
    assert min(len(text) for text in texts.values()) > 30


def context(rows: list[tuple[int, list[int], int]]) -> LogitsContext:
    """The layout of one step: of each request its slot, the tokens fed, and their first place."""
    slots = [slot for slot, fed, _ in rows for _ in fed]
    local = [i for _, fed, _ in rows for i in range(len(fed))]
    pos = [first + i for _, fed, first in rows for i in range(len(fed))]
    unique = [slot for slot, _, _ in rows]
    return LogitsContext(
        expanded_idx_mapping=torch.tensor(slots, dtype=torch.int32),
        idx_mapping=torch.tensor(unique, dtype=torch.int32),
        idx_mapping_np=np.array(unique, np.int32),
        expanded_local_pos=torch.tensor(local, dtype=torch.int32),
        input_ids=torch.tensor([i for _, fed, _ in rows for i in fed], dtype=torch.int32),
        pos=torch.tensor(pos, dtype=torch.int64),
        seq_lens_upper_bound_np=np.array([first + len(fed) for _, fed, first in rows]),
    )


def bias(name: str, ids: list[int]) -> torch.Tensor:
    mark, row = MARKS[name], np.zeros((1, WIDTH), np.float32)
    Watermark(mark, KEY).scheme.add_bias(row, [ids[-mark.context_width :]], mark.delta)
    return torch.from_numpy(row[0])
