"""Marking in transformers' ``generate()``, on any causal language model.

    config = WatermarkConfig(spec, key, tokenizer)
    model.generate(**inputs, do_sample=True, temperature=0.7, watermarking_config=config)

This is the recommended way: it runs after temperature, top-k and top-p, on the distribution that is
sampled from. :class:`WatermarkProcessor` is for engines that only take logits processors. Those run
*before* temperature, so it needs the temperature where the spec means delta after it.

The context of a token is the last ``context_width`` real tokens, prompt included. Where there are
fewer, because the prompt is shorter, the step is not marked; detection does not score it either.

Where the spec has a schedule, the bias of each row follows its own count, from the first token
after the prompt on. ``generate()`` makes a processor for each call; one that is used by hand takes
the ids of its first call for the prompt, and those of a call in which no row goes on from one of
the latest call for a new one. Assisted decoding drafts tokens and takes some back; the count goes
back with them.

All processors of a step get the same tensor of ids. A processor sets an attribute on it, so that a
second processor with the same mark is detected.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from threading import get_ident
from typing import Any
from weakref import ref

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from transformers.generation.configuration_utils import BaseWatermarkingConfig
from transformers.generation.logits_process import LogitsProcessor

from powermark.engines.kl_record import KlRecord
from powermark.engines.torch import on_device, with_bias
from powermark.errors import EngineProblem
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import Place, WatermarkSpec, digest_of
from powermark.watermark.tracker import Tracker
from powermark.watermark.watermark import Watermark

_NOTE = "_powermark"  # on a step's ids: the processor that marked it, and its thread
Deltas = Callable[[Tensor, Tensor], ArrayLike]  # input ids and logits to a bias per row
Chosen = Callable[[Tensor], ArrayLike]  # input ids (rows, length) to a truth value per row


class WatermarkProcessor(LogitsProcessor):  # type: ignore[misc]
    """Adds the mark's bias to each row's green logits; leaves its input untouched.

    Parameters
    ----------
    spec, key, tokenizer
        The mark, and the tokenizer it must have been made for.
    place
        Where this processor runs; in ``generate(logits_processor=...)`` before temperature.
    temperature
        Needed where the spec means delta at the other place.
    pad_token_id
        What prompts are padded with on the left; the tokenizer's padding or, without, end token.
    deltas
        A bias for each row and step in place of the spec's, from the input ids so far and the
        logits of the step.
    marked
        Which rows get the mark at all, from the input ids; all by default.
    """

    supports_continuous_batching = True  # unsupported marks are refused

    def __init__(
        self,
        spec: WatermarkSpec,
        key: SecretKey | HashKey,
        tokenizer: Any,
        *,
        place: Place = "before_temperature",
        temperature: float | None = None,
        pad_token_id: int | None = None,
        deltas: Deltas | None = None,
        marked: Chosen | None = None,
    ) -> None:
        spec.check_tokenizer(digest_of(tokenizer), len(tokenizer))
        mark = Watermark(spec, key)
        self._spec, self._scheme = spec, mark.scheme
        self._scale = mark.delta_scale(place, temperature)
        self._delta = spec.delta * self._scale
        self._pad = tokenizer.pad_token_id if pad_token_id is None else pad_token_id
        if self._pad is None:  # then people pad with the end of text
            self._pad = getattr(tokenizer, "eos_token_id", None)
        self._deltas, self._marked = deltas, marked
        self._schedule = spec.schedule if deltas is None else None
        self._special_ids = getattr(tokenizer, "all_special_ids", ())
        self._lists = spec.scheme, key, spec.context_width
        self._config: WatermarkConfig | None = None
        self._record: KlRecord | None = None
        self._begin()

    def _begin(self) -> None:
        """Forget all texts."""
        self._tracker: Tracker | None = None
        if self._schedule is not None:
            one_prompt = self._config is not None
            about = self._scheme, self._schedule, self._special_ids
            self._tracker = Tracker(*about, one_prompt=one_prompt)
        self._length = -1  # ids of the latest step
        self._columns: int | None = None  # of all logits so far
        self._shared: ref[Tensor] | None = None  # the latest ids that another one had marked too

    def for_one_generation(
        self, config: WatermarkConfig, record: KlRecord | None
    ) -> WatermarkProcessor:
        """Return a copy without a history, which records its effect in ``record``.

        To be truthful it must be the last processor.
        """
        other = copy(self)
        other._config, other._record = config, record
        other._begin()
        return other

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the logits of a step with the bias added; (rows, length), (rows, width).

        Continuous batching hands over the last id of each row alone, (rows,).
        """
        if self._stands_aside(input_ids):
            return scores
        if input_ids.ndim == 1:
            input_ids = self._last_ids(input_ids)
        elif self._record is not None:
            self._check_order(input_ids.shape[1])
        self.check_columns(scores.shape[1])
        length, h = input_ids.shape[1], self._scheme.context_width
        steered: Any = None
        if self._tracker is not None:  # it must see short prompts too
            steered = self._tracker.deltas(input_ids.cpu().numpy()) * self._scale
        if length < h:
            if self._record is not None:
                self._record.add(scores, scores, self._short(input_ids))
            return scores
        deltas = self._row_deltas(input_ids, scores, steered)
        contexts = input_ids[:, length - h :]
        if self._pad is not None and h > 0:
            deltas = self._without_padding(input_ids, deltas, scores)
        marked = with_bias(self._scheme, scores, contexts, deltas)
        if self._record is not None:
            self._record.add(scores, marked, contexts)
        return marked

    def _stands_aside(self, input_ids: Tensor) -> bool:
        """Whether this step has the mark already; refuses to add it a second time.

        In assisted decoding transformers gives the processors of a call to the draft model, and
        adds those of the same configuration again: the second one has nothing to do. Otherwise two
        processors have been set up. That is said at the second step which both see: a tensor of one
        step may have been used before, for another call.
        """
        other, thread = getattr(input_ids, _NOTE, (lambda: None, None))
        marked = other()
        if marked is None or marked is self or thread != get_ident() or not self._repeats(marked):
            setattr(input_ids, _NOTE, (ref(self), get_ident()))
            return False
        if self._config is not None and marked._config is self._config:
            return True
        if self._shared is not None and self._shared() is not input_ids:
            raise EngineProblem(
                "this text has the same mark twice, which doubles its bias.",
                hint="pass either watermarking_config or one WatermarkProcessor to generate().",
            )
        self._shared = ref(input_ids)
        return False

    def _repeats(self, other: WatermarkProcessor) -> bool:
        """Whether another processor raises the same tokens of the same rows."""
        everywhere = self._marked is None or other._marked is None
        return everywhere and self._lists == other._lists

    def check_columns(self, columns: int) -> None:
        """Refuse logits that the spec is not for, or that are not those of one model."""
        self._spec.check_width(columns)
        if self._columns not in (None, columns):
            raise EngineProblem(
                f"a mark was shown logits of two models, with {self._columns} and {columns} "
                f"columns: an assistant with another tokenizer would weaken it.",
                hint="use an assistant that has the mark's tokenizer.",
            )
        self._columns = columns

    def _check_order(self, length: int) -> None:
        """Refuse to record steps that are seen more than once."""
        if length <= self._length:
            raise EngineProblem(
                "assisted decoding shows a mark drafted tokens too, so record_kl would record "
                "steps that were never sampled.",
                hint="leave record_kl out, or generate without an assistant.",
            )
        self._length = length

    def _last_ids(self, input_ids: Tensor) -> Tensor:
        """Return the contexts that continuous batching can give; refuse what needs more."""
        if self._scheme.context_width > 1 or self._schedule is not None:
            raise EngineProblem(
                "continuous batching shows a mark one token before the next, and no text: it can "
                "neither be steered nor have a context wider than 1.",
                hint="plan with --context-width 1 and without --steer, or use generate().",
            )
        self._pad = None  # nothing is padded there
        return input_ids.to(torch.int64).unsqueeze(-1)

    def _without_padding(self, input_ids: Tensor, deltas: Any, scores: Tensor) -> Any:
        """Return the biases, with 0 for rows whose context reaches into the padding on the left.

        A pad id inside a text is a token like any other: the context is short only if all ids
        before it are padding too. On the host most steps need not look at them.
        """
        oldest = input_ids.shape[1] - self._scheme.context_width
        if on_device(self._scheme, scores):
            short = (input_ids[:, : oldest + 1] == self._pad).all(dim=1)
            biases = torch.as_tensor(deltas, dtype=torch.float32).to(short.device)
            return torch.where(short, 0.0, biases)
        ids = input_ids.cpu().numpy()
        if not (ids[:, oldest] == self._pad).any():
            return deltas
        return np.where((ids[:, : oldest + 1] == self._pad).all(axis=1), 0.0, deltas)

    def _row_deltas(self, input_ids: Tensor, scores: Tensor, steered: Any) -> Any:
        """Return the bias: one for all rows, or one each where something chooses."""
        biases: Any = self._delta if steered is None else steered
        if self._deltas is not None:
            biases = np.asarray(self._deltas(input_ids, scores)) * self._scale
        if self._marked is not None:
            biases = np.where(np.asarray(self._marked(input_ids), bool), biases, 0.0)
        return biases

    def _short(self, input_ids: Tensor) -> Tensor:
        """Return contexts of too few tokens, filled up with -1 from the left."""
        rows, length = input_ids.shape
        missing = self._scheme.context_width - length
        return torch.cat([input_ids.new_full((rows, missing), -1), input_ids], dim=1)


class WatermarkConfig(BaseWatermarkingConfig):  # type: ignore[misc]
    """What ``generate(watermarking_config=...)`` takes; the mark then comes last in sampling.

    With ``record_kl`` the attribute ``record`` holds a :class:`KlRecord` of the latest
    ``generate()``. The key is held in memory only: every way transformers has of showing or saving
    a generation config shows the spec's digest in its place (and cannot load it again, so pass it
    to ``generate()`` and do not set it on a model that will be saved).
    """

    def __init__(
        self,
        spec: WatermarkSpec,
        key: SecretKey | HashKey,
        tokenizer: Any,
        *,
        temperature: float | None = None,
        pad_token_id: int | None = None,
        deltas: Deltas | None = None,
        marked: Chosen | None = None,
        record_kl: bool = False,
    ) -> None:
        self.spec = spec
        self.record: KlRecord | None = None
        self._record_kl = record_kl
        self._processor = WatermarkProcessor(
            spec,
            key,
            tokenizer,
            place="after_temperature",
            temperature=temperature,
            pad_token_id=pad_token_id,
            deltas=deltas,
            marked=marked,
        )

    def construct_processor(self, vocab_size: int, device: Any = None) -> WatermarkProcessor:  # noqa: ARG002
        """Return a processor for one ``generate()``; transformers calls this."""
        self._processor.check_columns(vocab_size)
        self.record = KlRecord() if self._record_kl else None
        return self._processor.for_one_generation(self, self.record)

    def validate(self) -> None:
        """Nothing is left to check; transformers calls this."""

    def to_dict(self) -> dict[str, Any]:
        """Return what may be shown and saved."""
        return {"powermark_spec": self.spec.digest}

    def to_json_string(self) -> str:
        """Return what may be shown and saved, as JSON."""
        return json.dumps(self.to_dict()) + "\n"

    def __iter__(self) -> Any:
        return iter(self.to_dict().items())

    def __deepcopy__(self, memo: object) -> WatermarkConfig:
        return self  # generate() copies its configuration; the record must stay this one
