"""Marking in transformers' ``generate()``, on any causal language model.

    config = WatermarkConfig(spec, key, tokenizer)
    model.generate(**inputs, do_sample=True, temperature=0.7, watermarking_config=config)

This runs after temperature, top-k and top-p, on the distribution that is sampled from, and is the
way to go. :class:`WatermarkProcessor` is for engines that only take logits processors; those run
*before* temperature, so it must be told the temperature where the spec means delta after it.

The context of a token is the last ``context_width`` real tokens, prompt included. Where there are
fewer, because the prompt is shorter, the step is not marked; detection does not score it either.

Where the spec has a schedule, the bias of each row follows its own count, from the first token
after the prompt on. ``generate()`` makes a processor for each call; one that is used by hand takes
the ids of its first call for the prompt, and those of a call in which no row goes on from one of
the latest call for a new one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from transformers.generation.configuration_utils import BaseWatermarkingConfig
from transformers.generation.logits_process import LogitsProcessor

from powermark.errors import EngineProblem
from powermark.integrations.kl_record import KlRecord
from powermark.integrations.torch import green_masks
from powermark.watermark.embed import delta_scale, scheme_of
from powermark.watermark.greenlist import Pm1
from powermark.watermark.keys import HashKey, SecretKey
from powermark.watermark.spec import Place, WatermarkSpec, digest_of
from powermark.watermark.tracker import Tracker

_HOST = "cpu"  # where the compiled core can reach tensors
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

    supports_continuous_batching = True  # where it cannot be marked, that is said

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
        self._spec, self._scheme = spec, scheme_of(spec, key)
        self._scale = delta_scale(spec, place, temperature)
        self._delta = spec.delta * self._scale
        self._pad = tokenizer.pad_token_id if pad_token_id is None else pad_token_id
        if self._pad is None:  # then people pad with the end of text
            self._pad = getattr(tokenizer, "eos_token_id", None)
        self._deltas, self._marked = deltas, marked
        self._schedule = spec.schedule if deltas is None else None
        self._special_ids = getattr(tokenizer, "all_special_ids", ())
        self._record: KlRecord | None = None
        self._begin()

    def _begin(self) -> None:
        """Forget all texts."""
        self._tracker: Tracker | None = None
        if self._schedule is not None:
            self._tracker = Tracker(self._scheme, self._schedule, self._special_ids)

    def for_one_generation(self, record: KlRecord | None) -> WatermarkProcessor:
        """Return a copy without a history, which writes what it does to ``record``.

        To be truthful it must be the last processor.
        """
        other = copy(self)
        other._record = record
        other._begin()
        return other

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the logits of a step with the bias added; (rows, length), (rows, width).

        Continuous batching hands over the last id of each row alone, (rows,).
        """
        if input_ids.ndim == 1:
            input_ids = self._last_ids(input_ids)
        self._spec.check_width(scores.shape[1])
        length, h = input_ids.shape[1], self._scheme.context_width
        steered: Any = None
        if self._tracker is not None:  # it must see short prompts too
            steered = self._tracker.deltas(input_ids.cpu().numpy()) * self._scale
        if length < h:
            if self._record is not None:
                self._record.add(scores, scores, self._short(input_ids))
            return scores
        deltas = self._row_deltas(input_ids, scores, steered)
        if isinstance(self._scheme, Pm1) and scores.device.type != _HOST:
            marked = self._on_device(self._scheme, input_ids, scores, deltas)
        else:
            marked = self._on_host(input_ids, scores, deltas)
        if self._record is not None:
            self._record.add(scores, marked, input_ids[:, length - h :])
        return marked

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

    def _on_host(self, input_ids: Tensor, scores: Tensor, deltas: Any) -> Tensor:
        """Mark through the compiled core; other types than float32 are widened and rounded once."""
        logits, ids = scores.detach(), input_ids.cpu().numpy()
        plain = logits.dtype == torch.float32 and logits.is_cpu
        if not plain:
            logits = logits.to("cpu", torch.float32)
        marked = torch.empty_like(logits, memory_format=torch.contiguous_format)
        oldest = ids.shape[1] - self._scheme.context_width
        # A pad id inside a text is a token like any other. Only where the oldest id of a context is
        # one does the history decide, so the usual step does not look at it.
        if self._looks_for_padding and (ids[:, oldest] == self._pad).any():
            deltas = np.where((ids[:, : oldest + 1] == self._pad).all(axis=1), 0.0, deltas)
        self._scheme.add_bias(
            logits.contiguous().numpy(), ids[:, oldest:], deltas, out=marked.numpy()
        )
        return marked if plain else marked.to(scores.device, scores.dtype)

    def _on_device(self, scheme: Pm1, input_ids: Tensor, scores: Tensor, deltas: Any) -> Tensor:
        """Mark where the logits are, in float32, without waiting for the device."""
        oldest = input_ids.shape[1] - scheme.context_width
        biases = torch.as_tensor(deltas, dtype=torch.float32).to(scores.device).reshape(-1, 1)
        if self._looks_for_padding:
            short = (input_ids[:, : oldest + 1] == self._pad).all(dim=1, keepdim=True)
            biases = torch.where(short, 0.0, biases)
        marked = scores.to(torch.float32, copy=True)
        green = green_masks(scheme, input_ids[:, oldest:])
        marked[:, : scheme.vocab_size] += torch.where(green, biases, 0.0)
        return marked.to(scores.dtype)

    def _row_deltas(self, input_ids: Tensor, scores: Tensor, steered: Any) -> Any:
        """Return the bias: one for all rows, or one each where something chooses."""
        biases: Any = self._delta if steered is None else steered
        if self._deltas is not None:
            biases = np.asarray(self._deltas(input_ids, scores)) * self._scale
        if self._marked is not None:
            biases = np.where(np.asarray(self._marked(input_ids), bool), biases, 0.0)
        return biases

    @property
    def _looks_for_padding(self) -> bool:
        return self._pad is not None and self._scheme.context_width > 0

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
        self.spec.check_width(vocab_size)
        self.record = KlRecord() if self._record_kl else None
        return self._processor.for_one_generation(self.record)

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
