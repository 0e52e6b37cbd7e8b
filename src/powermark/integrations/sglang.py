r"""Marking in SGLang: a custom logits processor that a request names.

    python -m sglang.launch_server --model-path my-model \
      --enable-custom-logit-processor --disable-overlap-schedule

with powermark installed there and its marks in the server's environment
(:mod:`powermark.integrations.serving`). A request sends ``Watermark.to_str()`` as
``custom_logit_processor``, and may choose with ``custom_params: {"powermark": "NAME"}``. What is
sent is the class by its name, never a spec or a key.

SGLang applies it only to requests that name it, so this alone cannot mark a whole server: put it in
the requests where they pass a gateway. With overlapped scheduling SGLang runs ahead of the lists of
ids that a processor can see. A text whose list does not grow by a token a step is refused.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor
from torch import Tensor

from powermark.errors import EngineProblem, InvalidInput
from powermark.integrations.batch import Batch, Biases, Text
from powermark.integrations.serving import Marks
from powermark.integrations.torch import add_bias

_STATE = "__powermark__"  # a request's state lives in its own parameters, and ends with them
_NONE_YET = -1


@cache
def _marks() -> Marks:
    marks = Marks.from_environment()
    if marks is None:
        raise InvalidInput(
            "this server was not told its marks.",
            hint="set POWERMARK_SPECS and POWERMARK_KEYS, or POWERMARK_CONFIG.",
        )
    return marks


class _Request:
    """One request's text, and how long it was at the latest step."""

    def __init__(self, params: dict[str, Any]) -> None:
        self._request = params["__req__"]  # a weak proxy
        self._length, self._batch = _NONE_YET, Batch()
        mark = _marks().choose({k: v for k, v in params.items() if k != "__req__"})
        if mark is not None:
            scale = mark.scale(self._request.sampling_params.temperature)
            output = self._request.output_ids
            self._batch.put(0, Text(mark, scale, self._request.origin_input_ids, output))

    def step(self) -> list[Biases]:
        """Return the bias of this step, if there is any."""
        length = len(self._request.output_ids)
        chunk = length == 0 and getattr(self._request, "is_chunked", False)
        if self._length != _NONE_YET and length != self._length + 1 and not chunk:
            raise EngineProblem(
                f"SGLang shows {length} written tokens after {self._length}: they are stale, and "
                f"the text cannot be marked.",
                hint="start the server with --disable-overlap-schedule.",
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
        for row, params in enumerate(custom_param_list or ()):
            if _STATE not in params:
                params[_STATE] = _Request(params)
            for found in params[_STATE].step():
                groups.setdefault(found.mark.name, []).append((row, found))
        for group in groups.values():
            mark = group[0][1].mark
            mark.check_width(logits.shape[1])
            rows = np.array([row for row, _ in group])
            contexts = np.concatenate([found.contexts for _, found in group])
            deltas = np.concatenate([found.deltas for _, found in group])
            parts = (torch.from_numpy(part) for part in (rows, contexts, deltas))
            add_bias(mark.scheme, logits, *(part.to(logits.device) for part in parts))
        return logits
