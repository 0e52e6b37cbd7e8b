r"""Marking in SGLang: a custom logits processor that a request names.

    python -m sglang.launch_server --model-path my-model \
      --enable-custom-logit-processor --disable-overlap-schedule

with powermark installed there and its marks in the server's environment
(:mod:`powermark.engines.serving`). A request sends ``Watermark.to_str()`` as
``custom_logit_processor``, and may choose with ``custom_params: {"powermark": "NAME"}``. The
request carries the name of the class, never a spec or a key.

SGLang applies it only to requests that name it, so this alone cannot mark a whole server: put it in
the requests where they pass a gateway. With overlapped scheduling SGLang runs ahead of the lists of
ids that a processor can see, and with speculative decoding it may not ask one at all.

An error inside a processor ends SGLang's scheduler and with it all texts. So a request that cannot
be marked is ended alone, through SGLang's own record of it: HTTP 400 with words. Without
``custom_params`` SGLang hands over no record; such a text is made of one token, over and over.
"""

from __future__ import annotations

import logging
from functools import cache
from http import HTTPStatus
from typing import Any

import numpy as np
import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor
from torch import Tensor

from powermark.engines.batch import Batch, Biases, Text
from powermark.engines.serving import Marks, sampling_of
from powermark.engines.torch import add_bias
from powermark.errors import EngineProblem, InvalidInput, PowermarkError

_STATE = "__powermark__"  # a request's state lives in its own parameters, and ends with them
_REQUEST = "__req__"
_NONE_YET = -1
_EMPTY = 0  # the token of a text that must not be written
_log = logging.getLogger(__name__)


@cache
def _marks() -> Marks:
    marks = Marks.from_environment()
    if marks is None:
        raise InvalidInput(
            "this server has no marks configured.",
            hint="set POWERMARK_SPECS and POWERMARK_KEYS, or POWERMARK_CONFIG.",
        )
    return marks


@cache
def _fitted(tokenizer: Any, width: int) -> Marks:
    """Return the marks for the server's model; refuses one with another tokenizer."""
    if tokenizer is None:
        raise EngineProblem(
            "SGLang runs without a tokenizer, so that nothing shows whether a mark fits.",
            hint="leave --skip-tokenizer-init out.",
        )
    return _marks().fitted(tokenizer, width)


def _check_server() -> None:
    """Refuse a server whose drafted tokens no processor sees."""
    from sglang.srt.runtime_context import get_spec

    if (algorithm := get_spec().speculative_algorithm) is not None:
        raise EngineProblem(f"texts cannot be marked with speculative decoding ({algorithm}).")


class _Request:
    """One request's text, and how long it was at the latest step."""

    def __init__(self, params: dict[str, Any], width: int) -> None:
        self._request = params[_REQUEST]  # a weak proxy
        self._length, self._batch = _NONE_YET, Batch()
        self._text: Text | None = None
        chosen = _marks().choose(params)
        if chosen is not None:
            _check_server()
            if self._request.beam_group is not None:
                raise InvalidInput("the text of a beam search cannot be marked.")
            mark = _fitted(self._request.tokenizer, width).by_name[chosen.name]
            asked = self._request.sampling_params
            mark.check_sampling(sampling_of(asked))
            scale = mark.scale(asked.temperature)
            self._text = Text(mark, scale, self._request.origin_input_ids, ())
            self._batch.put(0, self._text)

    def step(self) -> list[Biases]:
        """Return the bias of this step, if there is any."""
        if self._text is None or self._request.inflight_middle_chunks > 0:
            return []  # a piece of a long prompt, whose token is thrown away
        self._text.output = self._request.output_ids
        length = len(self._text.output)
        if length != self._length + 1 and self._length != _NONE_YET:
            raise EngineProblem(
                f"SGLang shows {length} written tokens after {self._length}: they are stale, and "
                f"the text cannot be marked. Start the server with --disable-overlap-schedule."
            )
        self._length = length
        return list(self._batch.biases())


class Watermark(CustomLogitProcessor):  # type: ignore[misc]
    """Adds the mark of each request that names it."""

    def __call__(
        self, logits: Tensor, custom_param_list: list[dict[str, Any]] | None = None
    ) -> Tensor:
        """Return the logits with the biases added, in place; a row a request."""
        groups: dict[str, list[tuple[int, Biases]]] = {}
        without: list[Any] = [None] * len(logits)
        for row, params in enumerate(custom_param_list or without):
            try:
                if not isinstance(params, dict) or _REQUEST not in params:
                    raise InvalidInput(
                        "a request names powermark's processor and has no custom_params: its "
                        "text is left empty."
                    )
                if _STATE not in params:
                    params[_STATE] = _Request(params, logits.shape[1])
                for found in params[_STATE].step():
                    groups.setdefault(found.mark.name, []).append((row, found))
            except ReferenceError:  # the request is gone
                _empty(logits[row])
            except (PowermarkError, ImportError, AttributeError) as error:  # or another SGLang
                _end(logits[row], params, error)
        for group in groups.values():
            mark = group[0][1].mark
            rows = np.array([row for row, _ in group])
            contexts = np.concatenate([found.contexts for _, found in group])
            deltas = np.concatenate([found.deltas for _, found in group])
            parts = (torch.from_numpy(part) for part in (rows, contexts, deltas))
            add_bias(mark.scheme, logits, *(part.to(logits.device) for part in parts))
        return logits


def _end(row: Tensor, params: Any, error: Exception) -> None:
    """Leave a text empty and, where its request is known, end it with the reason."""
    _log.error("%s", error)
    _empty(row)
    if isinstance(params, dict) and _REQUEST in params:
        from sglang.srt.managers.schedule_batch import FINISH_ABORT

        status = HTTPStatus.BAD_REQUEST
        params[_REQUEST].to_finish = FINISH_ABORT(str(error), status, "BadRequestError")


def _empty(row: Tensor) -> None:
    """Allow a single token."""
    row.fill_(float("-inf"))
    row[_EMPTY] = 0.0
