"""The llama.cpp hook on a stand-in with the calls and the memory layout of llama-cpp-python."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from powermark.engines import llama_cpp as adapter
from powermark.engines.serving import ServedMark
from powermark.errors import EngineProblem, InvalidInput, SpecMismatch
from powermark.watermark.keys import SecretKey
from powermark.watermark.watermark import Watermark
from tests.engines.served import SECRETS, TOKENIZER, VOCAB, WIDTH, serve, spec, steered

KEY = SecretKey(SECRETS["old"])
RECORD = np.dtype([("id", np.intc), ("logit", np.float32), ("p", np.float32)], align=True)


class Llama:
    """Takes the likeliest token; flat logits, so that the mark alone decides."""

    def __init__(self, width: int = WIDTH, draft_model: Any = None) -> None:
        self.width, self.draft_model, self.calls = width, draft_model, 0

    def n_vocab(self) -> int:
        return self.width

    @property
    def _model(self) -> Any:
        return SimpleNamespace(token_get_text=str)

    def token_bos(self) -> int:
        return -1

    def token_eos(self) -> int:
        return 399

    def tokenize(self, text: bytes, add_bos: bool, special: bool) -> list[int]:
        assert not add_bos
        assert not special
        return TOKENIZER.encode(text.decode(), add_special_tokens=False)

    def generate(
        self,
        tokens: list[int],
        top_k: int = 40,  # noqa: ARG002
        top_p: float = 0.95,  # noqa: ARG002
        min_p: float = 0.05,  # noqa: ARG002
        temp: float = 0.8,
        repeat_penalty: float = 1.0,  # noqa: ARG002
        logits_processor: Any = None,
        seed: int = 0,
    ) -> Iterator[int]:
        rng, ids = np.random.default_rng(seed), list(tokens)
        while True:
            records = np.zeros(self.width, RECORD).view(np.recarray)
            records.logit[:VOCAB] = rng.standard_normal(VOCAB)
            for processor in logits_processor or ():
                records.logit[:] = processor(np.array(ids, np.intc), records.logit)
            ids.append(int(records.logit.argmax()) if temp else 0)
            yield ids[-1]

    def create_completion(self, tokens: list[int], logit_bias: Any = None) -> list[int]:
        """As in 0.3.36: with a bias the processors that were passed are lost."""
        processors = None if logit_bias is None else [lambda _, scores: scores]
        text = self.generate(tokens, temp=1.0, logits_processor=processors)
        return [token for token, _ in zip(text, range(60), strict=False)]


def green_share(mark: Any, prompt: list[int], text: list[int]) -> float:
    ids, h = [*prompt, *text], mark.context_width
    contexts = [ids[i - h : i] for i in range(max(h, len(prompt)), len(ids))]
    return float(Watermark(mark, KEY).scheme.are_green(contexts, ids[-len(contexts) :]).mean())


def test_every_text_of_a_llama_is_marked() -> None:
    mark = spec(2, gamma=0.25, delta=9.0)
    llama = adapter.watermark(Llama(), mark, KEY, tokenizer=TOKENIZER)
    for options in ({}, {"logit_bias": {3: 1.0}}):
        assert green_share(mark, [1, 2, 3], llama.create_completion([1, 2, 3], **options)) == 1.0
    assert green_share(mark, [1, 2, 3], Llama().create_completion([1, 2, 3])) < 0.5
    with pytest.raises(InvalidInput, match="by name"):
        llama.generate([1], 40)


def test_the_bias_follows_the_temperature() -> None:
    mark, ids = spec(1, delta=2.0), np.array([4, 5], np.intc)
    made = ServedMark(mark, KEY)
    for temperature, want in ((0.5, 1.0), (1.0, 2.0), (0.0, 2.0), (-1.0, 2.0)):
        records = np.zeros(WIDTH, RECORD).view(np.recarray)
        scores = records.logit
        assert adapter.Processor(made, temperature)(ids, scores) is scores
        assert float(records.logit.max()) == want
        assert not records.id.any()


def test_steered_texts() -> None:
    mark = steered(1)
    llama = adapter.watermark(Llama(), mark, KEY)
    text = llama.create_completion([7])
    assert green_share(mark, [7], text) > 0.6
    assert len(text) == 60


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(EngineProblem, match="may be taken back"):
        adapter.watermark(Llama(draft_model=object()), spec(1), KEY)
    with pytest.raises(SpecMismatch, match="vocabulary of 400; the model has 100"):
        adapter.watermark(Llama(100), spec(1), KEY)
    other = Llama()
    other.tokenize = lambda *_, **__: [1]  # type: ignore[method-assign]
    with pytest.raises(SpecMismatch, match="splits text differently"):
        adapter.watermark(other, spec(1), KEY, tokenizer=TOKENIZER)


def test_a_second_mark_is_refused() -> None:
    llama = adapter.watermark(Llama(), spec(1), KEY)
    with pytest.raises(InvalidInput, match="has a mark already"):
        adapter.watermark(llama, spec(2), KEY)


def test_a_draft_model_that_is_set_later_is_refused() -> None:
    llama = adapter.watermark(Llama(), spec(1), KEY)
    llama.draft_model = object()
    with pytest.raises(EngineProblem, match="may be taken back"):
        llama.create_completion([1, 2, 3])


def test_tokens_that_are_replaced_are_counted_anew() -> None:
    """As many ids as before, or more, of which the last were others at the latest step."""
    mark = ServedMark(steered(1), KEY)
    used, fresh = adapter.Processor(mark, 1.0), adapter.Processor(mark, 1.0)
    first, second = np.random.default_rng(0).integers(0, VOCAB, (2, 9), np.intc)
    second[:4] = first[:4]
    for one in (used, fresh):
        one(first[:2], np.zeros(WIDTH, np.float32))
    for length in (5, 8):
        used(first[:length], np.zeros(WIDTH, np.float32))
    for length in (8, 9):
        scores = used(second[:length], np.zeros(WIDTH, np.float32))
        np.testing.assert_array_equal(scores, fresh(second[:length], np.zeros(WIDTH, np.float32)))


def test_another_model_s_file_is_refused() -> None:
    llama = Llama()
    llama.tokenize = lambda *_, **__: [1]  # type: ignore[method-assign]
    with pytest.raises(SpecMismatch, match="tokenizer is not the one of the spec 'spec'"):
        adapter.watermark(llama, spec(1), KEY)
    unknown = spec(1, gamma=0.25, delta=9.0, tokenizer_digest=None)  # nothing to compare with
    text = adapter.watermark(llama, unknown, KEY).create_completion([1, 2, 3])
    assert green_share(unknown, [1, 2, 3], text) == 1.0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Run the server's program on a stand-in; what it built: texts, and its middleware."""
    built: dict[str, Any] = {}

    class Fresh(Llama):
        def __init__(self) -> None:
            super().__init__()

    class App:
        def add_middleware(self, kind: type, **options: Any) -> None:
            built.update(options, kind=kind)

    def serve_one() -> None:
        built["text"] = package.Llama().create_completion([1, 2, 3])
        built["app"] = program.create_app(server_settings=None)

    package, parent, program = (ModuleType(name) for name in ("llama_cpp", "server", "program"))
    package.Llama = Fresh  # type: ignore[attr-defined]
    program.main = serve_one  # type: ignore[attr-defined]
    program.create_app = lambda server_settings: App()  # type: ignore[attr-defined]  # noqa: ARG005
    parent.__main__ = program  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llama_cpp", package)
    monkeypatch.setitem(sys.modules, "llama_cpp.server", parent)
    monkeypatch.setitem(sys.modules, "llama_cpp.server.__main__", program)
    for name in ("SPECS", "CONFIG"):
        monkeypatch.delenv(f"POWERMARK_{name}", raising=False)
    with pytest.raises(InvalidInput, match="has no marks configured"):
        adapter.main()
    marks = {"one": spec(2, gamma=0.25, delta=9.0), "two": spec(1)}
    serve(monkeypatch, tmp_path, marks, default="one", opt_out="yes")
    return built


def test_the_server_marks_every_model_it_loads(server: dict[str, Any]) -> None:
    adapter.main()
    assert green_share(spec(2, gamma=0.25, delta=9.0), [1, 2, 3], server["text"]) == 1.0
    assert server["kind"].__name__ == "Gate"
    check = server["check"]
    for same in ({}, {"powermark": "one"}, {"vllm_xargs": {"powermark": "one"}}):
        check({"prompt": "x", **same})
    for other in ("two", "off"):
        with pytest.raises(InvalidInput, match="marks every text with 'one'"):
            check({"extra_body": {"powermark": other}})
    with pytest.raises(InvalidInput, match="no mark named 'three'"):
        check({"powermark": "three"})


def test_a_server_that_would_mark_nothing_does_not_start(
    server: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERMARK_DEFAULT", "off")
    with pytest.raises(InvalidInput, match="no text would be marked"):
        adapter.main()
    assert not server
