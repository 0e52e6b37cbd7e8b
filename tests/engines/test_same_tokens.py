"""The same key, spec and context mark the same tokens in every engine.

Where an engine is not installed its stand-in takes its place, so every adapter is compared.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from powermark.engines import llama_cpp, transformers
from powermark.engines.serving import ServedMark
from powermark.watermark import hashing
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import threshold
from powermark.watermark.spec import WatermarkSpec
from tests.engines.engines import Config, Params, install, request_state, step_context
from tests.engines.served import SECRETS, TOKENIZER, VOCAB, WIDTH, serve, spec

KEY = SecretKey(SECRETS["old"])
IDS = [11, 5, 398, 0, 77, 12]
Greens = set[int]


def numpy_reference(mark: WatermarkSpec) -> Greens:
    context = np.array(IDS[len(IDS) - mark.context_width :], np.int64)
    seeds = hashing.siphash(KEY.siphash_key, context[np.newaxis])
    bits = hashing.mix(seeds, np.arange(VOCAB))
    return set(np.flatnonzero(bits < threshold(mark.gamma)).tolist())


def raised(row: Any) -> Greens:
    return set(np.flatnonzero(np.asarray(row) > 0.0).tolist())


def in_generate(mark: WatermarkSpec, _: Any) -> Greens:
    config = transformers.WatermarkConfig(mark, KEY, TOKENIZER)
    return raised(config.construct_processor(WIDTH)(torch.tensor([IDS]), torch.zeros(1, WIDTH))[0])


def in_llama_cpp(mark: WatermarkSpec, _: Any) -> Greens:
    processor = llama_cpp.Processor(ServedMark(mark, KEY), 0.7)
    return raised(processor(np.array(IDS, np.intc), np.zeros(WIDTH, np.float32)))


def in_vllm_v1(_: WatermarkSpec, monkeypatch: Any) -> Greens:
    vllm = _vllm(monkeypatch)
    processor = vllm.Watermark(Config(TOKENIZER, WIDTH), torch.device("cpu"), False)
    added = [(0, Params(0.7), IDS[:4], IDS[4:])]
    processor.update_state(SimpleNamespace(removed=(), added=added, moved=()))
    return raised(processor.apply(torch.zeros(1, WIDTH))[0])


def in_vllm_v2(_: WatermarkSpec, monkeypatch: Any) -> Greens:
    vllm, state = _vllm(monkeypatch), request_state(2, 16, WIDTH)
    processor = vllm.Watermark(Config(TOKENIZER, WIDTH), state)
    processor.add_request(1, Params(0.7))
    processor.apply_staged_writes()
    state.all_token_ids.np[1, : len(IDS)] = IDS
    ctx = step_context([1], [0], IDS[-1:], [len(IDS) - 1])
    return raised(processor.apply(torch.zeros(1, WIDTH), ctx)[0])


def in_sglang(_: WatermarkSpec, monkeypatch: Any) -> Greens:
    sampling = SimpleNamespace(temperature=0.7)
    about = SimpleNamespace(
        origin_input_ids=IDS[:4],
        output_ids=IDS[4:],
        sampling_params=sampling,
        inflight_middle_chunks=0,
        beam_group=None,
        tokenizer=TOKENIZER,
    )
    processor = install(monkeypatch, "sglang")[0].Watermark()
    return raised(processor(torch.zeros(1, WIDTH), [{"__req__": about}])[0])


def _vllm(monkeypatch: Any) -> Any:
    module, _ = install(monkeypatch, "vllm")
    monkeypatch.setattr(module, "cached_tokenizer_from_config", lambda config: config.its_tokenizer)
    return module


ENGINES = (in_generate, in_llama_cpp, in_vllm_v1, in_vllm_v2, in_sglang)


@pytest.mark.parametrize("h", [0, 1, 4])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_tokens_are_green(
    engine: Callable[[WatermarkSpec, Any], Greens],
    h: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    mark = spec(h, gamma=0.25, delta_place="before_temperature")
    if engine is in_generate:
        mark = spec(h, gamma=0.25)
    serve(monkeypatch, tmp_path, {"one": mark})
    want = numpy_reference(mark)
    assert 60 < len(want) < 140
    assert engine(mark, monkeypatch) == want
