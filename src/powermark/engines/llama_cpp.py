"""Marking in llama.cpp, through llama-cpp-python.

    llama = watermark(Llama("model.gguf"), spec, key)
    llama.create_chat_completion(messages, temperature=0.8)

Every text of that ``Llama`` is then marked. The hook sits in ``Llama.generate``, below all other
calls: it knows the temperature of each, and a ``logit_bias`` does not switch it off
(llama-cpp-python 0.3.36 loses its ``logits_processor`` argument when both are given).

``python -m powermark.engines.llama_cpp --model FILE`` is an OpenAI-compatible server with
marks from the environment (:mod:`powermark.engines.serving`) and all options of ``python -m
llama_cpp.server``. Requests cannot choose: all texts get the default mark, and a request for
another, or for none, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial, wraps
from inspect import signature
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from powermark.engines.batch import Batch, Text
from powermark.engines.serving import Marks, ServedMark, sampling_of
from powermark.engines.settings import OFF
from powermark.errors import EngineProblem, InvalidInput, SpecMismatch
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import PROBE, WatermarkSpec, tokenizer_digest

_SETTINGS = ("top_k", "top_p", "min_p", "repeat_penalty")  # of a call, beside temp
_HOOKED = "_powermark"  # on a generate() that marks


class Processor:
    """A logits processor for one text; the ids of its first call are the prompt.

    It adds to the scores in place: they are one field of the engine's own records.
    """

    def __init__(self, mark: ServedMark, temperature: float) -> None:
        self._mark, self._scale = mark, mark.scale(max(temperature, 0.0))
        self._batch = Batch()
        self._text: Text | None = None

    def __call__(
        self, input_ids: NDArray[np.intc], scores: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the scores with the bias added; (tokens,), (width,)."""
        if self._text is None:
            self._prompt = len(input_ids)
            self._text = Text(self._mark, self._scale, input_ids.tolist(), ())
            self._batch.put(0, self._text)
        self._text.output = input_ids[self._prompt :]
        for step in self._batch.biases():
            self._mark.scheme.add_bias(scores[np.newaxis], step.contexts, step.deltas)
        return scores


def watermark(
    llama: Any, spec: WatermarkSpec, key: SecretKey | HashKey, *, tokenizer: Any = None
) -> Any:
    """Let a ``Llama`` mark all its texts; returns it.

    ``tokenizer`` is the one that the spec was made with. Without it the model file's own vocabulary
    must be the spec's; with it the file must split text as it does.
    """
    return _hook(llama, Marks({"spec": ServedMark(spec, key)}, "spec"), tokenizer)


def _hook(llama: Any, marks: Marks, tokenizer: Any) -> Any:
    _refuse_drafts(llama)
    if getattr(llama.generate, _HOOKED, False):
        raise InvalidInput(
            "this Llama has a mark already: a second one would add to it.",
            hint="load the model again for another mark.",
        )
    for mark in marks.by_name.values():
        mark.check_width(llama.n_vocab())
    chosen, plain = _fitted(llama, marks, tokenizer).choose(None), llama.generate
    if chosen is None:
        raise InvalidInput(
            f"with the default {OFF!r} no text would be marked: llama.cpp's requests cannot choose."
        )

    parameters = signature(plain).parameters
    usual_settings = {name: parameters[name].default for name in _SETTINGS}

    @wraps(plain)
    def generate(
        tokens: Any, *args: Any, temp: float = 0.8, logits_processor: Any = None, **more: Any
    ) -> Iterator[int]:
        _refuse_drafts(llama)  # one may have been set since
        if args:
            raise InvalidInput("pass what follows the tokens by name, so that a mark can read it.")
        used = {name: more.get(name, usual) for name, usual in usual_settings.items()}
        penalty = used.pop("repeat_penalty")
        asked = SimpleNamespace(**used, temperature=temp, repetition_penalty=penalty)
        chosen.check_sampling(sampling_of(asked))
        processors = [*(logits_processor or ()), Processor(chosen, temp)]
        found: Iterator[int] = plain(tokens, temp=temp, logits_processor=processors, **more)
        return found

    setattr(generate, _HOOKED, True)
    llama.generate = generate
    return llama


def _refuse_drafts(llama: Any) -> None:
    if getattr(llama, "draft_model", None) is not None:
        raise EngineProblem(
            "with a draft model llama-cpp-python shows a processor tokens that may be taken back.",
            hint="make the Llama without draft_model.",
        )


def _fitted(llama: Any, marks: Marks, tokenizer: Any) -> Marks:
    """Return the marks with the model's special tokens; refuses a model file they are not for."""
    split = partial(llama.tokenize, add_bos=False, special=False)
    if tokenizer is not None:
        if list(split(PROBE.encode())) != list(tokenizer.encode(PROBE, add_special_tokens=False)):
            raise SpecMismatch("the model file splits text differently than the spec's tokenizer.")
        return marks.fitted(tokenizer)
    special = frozenset({llama.token_bos(), llama.token_eos()} - {-1})
    for mark in marks.by_name.values():
        words = {llama._model.token_get_text(i): i for i in range(mark.spec.vocab_size)}
        digest = tokenizer_digest(words, lambda text: split(text.encode()))
        if mark.spec.tokenizer_digest not in (None, digest):
            raise SpecMismatch(
                f"the model file's tokenizer is not the one of the spec {mark.name!r}.",
                hint="use a GGUF file of the spec's model, or make a spec for this one.",
            )
    return marks.with_special(special)


def main() -> None:
    """Run llama-cpp-python's server with every model it loads marked."""
    import llama_cpp
    from llama_cpp.server import __main__ as program

    from powermark.engines.gate import Gate

    marks = Marks.from_environment()
    if marks is None:
        raise InvalidInput(
            "this server has no marks configured.",
            hint="set POWERMARK_SPECS and POWERMARK_KEYS, or POWERMARK_CONFIG.",
        )
    construct, make_app = llama_cpp.Llama.__init__, program.create_app

    @wraps(construct)
    def marked(llama: Any, *args: Any, **options: Any) -> None:
        construct(llama, *args, **options)
        _hook(llama, marks, None)

    @wraps(make_app)
    def gated(*args: Any, **options: Any) -> Any:
        app = make_app(*args, **options)
        app.add_middleware(Gate, check=partial(_refuse_others, marks))
        return app

    llama_cpp.Llama.__init__, program.create_app = marked, gated
    program.main()


def _refuse_others(marks: Marks, fields: Mapping[str, Any]) -> None:
    """Refuse a request that asks for anything but the mark that all texts get."""
    from powermark.engines.gate import mark_fields

    mark = marks.choose(mark_fields(fields, "vllm_xargs", "extra_body"))
    if mark is None or mark.name != marks.default:
        raise InvalidInput(
            f"this server marks every text with {marks.default!r}; a request cannot choose."
        )


if __name__ == "__main__":
    main()
