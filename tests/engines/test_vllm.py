"""The vLLM processor against vLLM's interfaces: both runners, whatever the batch does."""

import gc
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch

from powermark.errors import EngineProblem, InvalidInput, SpecMismatch
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.tracker import Tracker
from powermark.watermark.watermark import Watermark
from tests.engines.engines import Config, Params, install, request_state, step_context
from tests.engines.letters import Letters
from tests.engines.served import SECRETS, TOKENIZER, VOCAB, WIDTH, serve, spec, steered

KEY = SecretKey(SECRETS["old"])
ONE, FOUR, STEERED = spec(1), spec(4, gamma=0.25), steered(2)
NAME = "powermark.engines.vllm:Watermark"
V1 = "vllm.v1.sample.logits_processor"


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The module, on a server with three marks and an opt-out."""
    marks = {"one": ONE, "four": FOUR, "steered": STEERED}
    serve(monkeypatch, tmp_path, marks, default="one", opt_out="yes")
    module, real = install(monkeypatch, "vllm")
    if real:
        monkeypatch.setattr(
            module, "cached_tokenizer_from_config", lambda config: config.its_tokenizer
        )
    ready = Event()
    ready.set()
    monkeypatch.setattr(module.vllm_guard, "installed", ready)
    yield module
    gc.collect()


def tracked(text: np.ndarray) -> float:
    """The bias after a text."""
    assert STEERED.schedule is not None
    tracker = Tracker(Watermark(STEERED, KEY).scheme, STEERED.schedule, [399])
    tracker.deltas(text[None, :0])  # no prompt
    return float(tracker.deltas(text[None])[0])


def v1(adapter: Any, config: Any = None) -> Any:
    config = config or Config(TOKENIZER, WIDTH)
    return adapter.Watermark(config, torch.device("cpu"), False)


def update(
    processor: Any,
    added: list[Any] | None = None,
    *,
    removed: tuple[int, ...] = (),
    moved: tuple[Any, ...] = (),
) -> None:
    kind = import_module(V1).BatchUpdate
    processor.update_state(kind(batch_size=9, removed=removed, added=added or [], moved=moved))


def asks(name: str, temperature: float = 1.0) -> Params:
    return Params(temperature, {"powermark": name})


def bias(mark: WatermarkSpec, context: list[int], delta: float | None = None) -> torch.Tensor:
    """What a row of zeros becomes."""
    row = np.zeros((1, WIDTH), np.float32)
    Watermark(mark, KEY).scheme.add_bias(row, [context], mark.delta if delta is None else delta)
    return torch.from_numpy(row[0])


def rows(processor: Any, count: int) -> torch.Tensor:
    logits = torch.zeros(count, WIDTH)
    found: torch.Tensor = processor.apply(logits)
    assert found is logits
    return found


def test_mixed_requests_come_go_move_and_swap(adapter: Any) -> None:
    way = import_module(V1).MoveDirectionality
    processor = v1(adapter)
    assert not processor.is_argmax_invariant()
    first: list[int] = []
    last: list[int] = [8, 9]
    update(processor, [
        (0, asks("one"), [5, 6], first),
        (1, asks("off"), [5, 6], []),
        (2, asks("four", 0.5), [1, 2, 3, 4], last),
    ])  # fmt: skip
    found = rows(processor, 3)
    assert torch.equal(found[0], bias(ONE, [6]))
    assert not found[1].any()
    assert torch.equal(found[2], bias(FOUR, [3, 4, 8, 9], 1.0))  # meant after temperature .5
    first.append(7)  # the engine's own list
    last.append(10)
    processor.update_state(None)
    found = rows(processor, 3)
    assert torch.equal(found[0], bias(ONE, [7]))
    assert torch.equal(found[2], bias(FOUR, [4, 8, 9, 10], 1.0))
    update(processor, moved=((0, 2, way.SWAP),))
    found = rows(processor, 3)
    assert torch.equal(found[2], bias(ONE, [7]))
    assert torch.equal(found[0], bias(FOUR, [4, 8, 9, 10], 1.0))
    update(processor, removed=(1, 0), moved=((2, 0, way.UNIDIRECTIONAL),))
    found = rows(processor, 1)
    assert torch.equal(found[0], bias(ONE, [7]))
    update(processor, [(0, asks("off"), [1], [])])  # takes the place of another
    assert not rows(processor, 1).any()
    update(processor, moved=((5, 0, way.UNIDIRECTIONAL), (5, 6, way.SWAP)))  # unmarked ones
    assert not rows(processor, 1).any()


def test_short_and_missing_prompts(adapter: Any) -> None:
    processor = v1(adapter)
    output: list[int] = []
    update(processor, [(0, asks("four"), [1, 2], output), (1, asks("four"), None, output),
                       (2, asks("one"), [], output)])  # fmt: skip
    assert not rows(processor, 3).any()
    output += [3, 4]
    found = rows(processor, 3)
    assert torch.equal(found[0], bias(FOUR, [1, 2, 3, 4]))
    assert not found[1].any()
    assert torch.equal(found[2], bias(ONE, [4]))


def test_steered_requests_follow_their_counts(adapter: Any) -> None:
    """Three texts begun at different times, one preempted and resumed, one cut back."""
    assert STEERED.schedule is not None
    rng = np.random.default_rng(0)
    texts = rng.integers(0, 9, (3, 40)).tolist()
    live: list[list[int]] = [[], [], []]
    processor = v1(adapter)

    def want(row: int) -> torch.Tensor:
        return bias(STEERED, [1, 2, *live[row]][-2:], tracked(np.array(live[row], np.int64)))

    update(processor, [(0, asks("steered"), [1, 2], live[0])])
    for step in range(38):
        if step == 3:
            update(processor, [(1, asks("steered"), [1, 2], live[1])])
        if step == 5:
            update(processor, [(2, asks("steered"), [1, 2], live[2])])
        if step == 20:  # preempted: gone and back, with all that it wrote
            update(processor, removed=(1,))
            assert torch.equal(rows(processor, 3)[0], want(0))
            update(processor, [(1, asks("steered"), [1, 2], live[1])])
        if step == 30:
            del live[2][-4:]
        present = [row for row, start in enumerate((0, 3, 5)) if step >= start]
        found = rows(processor, 3)
        for row in present:
            assert torch.equal(found[row], want(row)), (step, row)
            live[row].append(texts[row][len(live[row])])


def test_placeholders_are_refused(adapter: Any) -> None:
    for name in ("one", "steered"):
        processor = v1(adapter)
        update(processor, [(0, asks(name), [5, 6], [3, -1, 4, 4] if name == "steered" else [-1])])
        with pytest.raises(EngineProblem, match="placeholders instead of the tokens"):
            rows(processor, 1)
    asynchronous = Config(TOKENIZER, WIDTH, async_scheduling=True)
    with pytest.raises(EngineProblem, match="only to processors that are named"):
        v1(adapter, asynchronous)
    v1(adapter, Config(TOKENIZER, WIDTH, [NAME], async_scheduling=True))
    v1(adapter, Config(TOKENIZER, WIDTH, [adapter.Watermark], async_scheduling=True))


def test_flag_and_entry_point_mark_once(adapter: Any) -> None:
    config = Config(TOKENIZER, WIDTH, ["another:Processor", NAME])
    both = [v1(adapter, config), v1(adapter, config)]
    other = v1(adapter)  # of another engine in the same process
    logits = torch.zeros(1, WIDTH)
    for processor in (*both, other):
        update(processor, [(0, asks("one"), [6], [])])
    for processor in both:
        logits = processor.apply(logits)
    assert torch.equal(logits[0], bias(ONE, [6]))
    assert torch.equal(rows(other, 1)[0], bias(ONE, [6]))


def test_the_second_runner_marks_once_too(adapter: Any) -> None:
    state, config = request_state(1, 8, WIDTH), Config(TOKENIZER, WIDTH, [NAME])
    both = [adapter.Watermark(config, state) for _ in range(2)]
    state.all_token_ids.np[0, :2] = [5, 6]
    logits = torch.zeros(1, WIDTH)
    for processor in both:
        processor.add_request(0, asks("one"))
        processor.apply_staged_writes()
        logits = processor.apply(logits, step_context([0], [0], [6], [1]))
    assert torch.equal(logits[0], bias(ONE, [6]))


def test_requests_are_answered_in_words(adapter: Any) -> None:
    check = adapter.Watermark.validate_params
    check(Params())
    check(asks("four", 0.0))
    with pytest.raises(InvalidInput, match="no mark named 'five'"):
        check(asks("five"))


def test_greedy_requests_get_the_bias_as_it_is(adapter: Any) -> None:
    processor = v1(adapter)
    update(processor, [(0, asks("one", 0.0), [6], []), (1, asks("one", 1e-6), [6], [])])
    found = rows(processor, 2)
    assert torch.equal(found[0], bias(ONE, [6]))
    assert torch.equal(found[1], bias(ONE, [6]))


def test_servers_without_a_mark(monkeypatch: pytest.MonkeyPatch, adapter: Any) -> None:
    for name in ("SPECS", "KEYS", "DEFAULT", "OPT_OUT"):
        monkeypatch.delenv(f"POWERMARK_{name}")
    processor = v1(adapter)  # merely installed: other people's servers run on
    update(processor, [(0, Params(), [6], [])])
    assert not rows(processor, 1).any()
    adapter.Watermark.validate_params(Params())
    with pytest.raises(InvalidInput, match="no mark named 'one'"):
        adapter.Watermark.validate_params(asks("one"))
    with pytest.raises(InvalidInput, match="no marks are configured"):
        v1(adapter, Config(TOKENIZER, WIDTH, [NAME]))


def test_models_that_do_not_fit(adapter: Any) -> None:
    with pytest.raises(SpecMismatch, match="the model has 399"):
        v1(adapter, Config(TOKENIZER, VOCAB - 1))
    with pytest.raises(EngineProblem, match="runs without a tokenizer"):
        v1(adapter, Config(None, WIDTH))
    with pytest.raises(SpecMismatch, match="the tokenizer has 300 ids"):
        v1(adapter, Config(Letters(300), WIDTH))
    with pytest.raises(EngineProblem, match="diffusion model"):
        v1(adapter, Config(TOKENIZER, WIDTH, is_diffusion=True))


def test_slots_of_the_second_runner(adapter: Any) -> None:
    """Recycled slots, rows in any order, drafts of speculative decoding, chunks of a prompt."""
    state = request_state(4, 64, WIDTH)
    config = Config(TOKENIZER, WIDTH)
    processor = adapter.Watermark(config, state)
    assert processor.add_request(3, asks("four"))
    assert processor.add_request(0, asks("one", 0.5))
    assert not processor.add_request(1, asks("off"))
    processor.apply_staged_writes()
    processor.apply_staged_writes()  # a step without news
    ids = state.all_token_ids.np
    ids[3, :6], ids[0, :3], ids[1, :3] = [1, 2, 3, 4, 5, 6], [7, 8, 9], [7, 8, 9]
    # slot 3 has committed six tokens and drafts two more; the drafts are only in the input
    ctx = step_context([1, 3, 3, 3, 0], [0, 0, 1, 2, 0], [9, 6, 30, 31, 9], [2, 5, 6, 7, 2])
    logits = torch.zeros(5, WIDTH)
    found = processor.apply(logits, ctx)
    assert found is logits
    assert not found[0].any()
    assert torch.equal(found[1], bias(FOUR, [3, 4, 5, 6]))
    assert torch.equal(found[2], bias(FOUR, [4, 5, 6, 30]))
    assert torch.equal(found[3], bias(FOUR, [5, 6, 30, 31]))
    assert torch.equal(found[4], bias(ONE, [9], 1.0))
    # the slot goes to a request without a mark, another to one whose prompt is too short
    processor.add_request(3, asks("off"))
    processor.add_request(0, asks("four"))
    processor.apply_staged_writes()
    ctx = step_context([3, 0], [0, 0], [6, 9], [5, 2])
    assert not processor.apply(torch.zeros(2, WIDTH), ctx).any()
    assert not processor.apply(torch.zeros(1, WIDTH), step_context([3], [0], [6], [5])).any()


def test_steered_requests_of_the_second_runner(adapter: Any) -> None:
    state = request_state(3, 64, WIDTH)
    processor = adapter.Watermark(Config(TOKENIZER, WIDTH), state)
    text = np.random.default_rng(1).integers(0, 9, 30)
    ids, starts = state.all_token_ids.np, state.prompt_len.np

    def check(slot: int, written: int) -> None:
        at = starts[slot] + written
        ctx = step_context([slot], [0], [int(ids[slot, at - 1])], [int(at) - 1])
        found = processor.apply(torch.zeros(1, WIDTH), ctx)
        wanted = bias(STEERED, ids[slot, at - 2 : at].tolist(), tracked(text[:written]))
        assert torch.equal(found[0], wanted)

    for slot, prompt, steps in ((2, [4, 5, 6], range(30)), (2, [9, 9], range(12, 30, 3))):
        assert processor.add_request(slot, asks("steered"))
        processor.apply_staged_writes()
        starts[slot] = len(prompt)
        ids[slot, : len(prompt) + 30] = [*prompt, *text]
        for written in steps:
            check(slot, written)
    check(2, 20)  # taken back
    ids[2, 25] = -1
    with pytest.raises(EngineProblem, match="placeholders"):
        check(2, 29)
    with pytest.raises(EngineProblem, match="'steered' is steered"):
        adapter.Watermark(Config(TOKENIZER, WIDTH, speculative_config=object()), state)


def test_the_entry_point_is_declared() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]
    assert points["vllm.logits_processors"] == {"powermark": NAME}
    plugin = "powermark.engines.vllm_guard:install"
    assert points["vllm.general_plugins"] == {"powermark": plugin}
