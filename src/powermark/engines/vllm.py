r"""Marking in vLLM: one name for its two model runners.

    POWERMARK_SPECS=s.json POWERMARK_KEYS=k.key \
      vllm serve my-model --logits-processors powermark.engines.vllm:Watermark

vLLM also finds the installed package by its entry point; loaded twice, it marks once. A request
chooses its mark with ``vllm_xargs: {"powermark": "NAME"}``. :mod:`powermark.engines.serving` reads
the server's marks and answers requests; :mod:`powermark.engines.vllm_guard` refuses what vLLM would
send out without asking a processor.

The V1 runner passes each request's lists of ids (:class:`ListWatermark`). Model Runner V2 keeps all
ids on the device, in a slot per request, and may ask for several rows of a request at once, for
speculative decoding (:class:`SlotWatermark`). Both call the processor before temperature and
truncation.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor
from vllm.tokenizers.registry import cached_tokenizer_from_config
from vllm.v1.sample.logits_processor import LogitsProcessor as ListProcessor
from vllm.v1.sample.logits_processor import MoveDirectionality
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as SlotProcessor

from powermark.engines import vllm_guard
from powermark.engines.batch import Batch, Text, refuse_placeholders
from powermark.engines.serving import Marks, ServedMark, sampling_of
from powermark.engines.settings import FIELD
from powermark.engines.torch import add_bias
from powermark.errors import EngineProblem, InvalidInput
from powermark.watermark.tracker import Counts

NAME = "powermark.engines.vllm:Watermark"  # what --logits-processors takes
_GREEDY = 1e-5  # below this vLLM takes temperature for 0
_log = logging.getLogger(__name__)


@cache
def _marks() -> Marks | None:
    return Marks.from_environment()


def _chosen(params: Any, marks: Marks) -> tuple[ServedMark, float] | None:
    """Return a request's mark, and the scale of its bias at the request's temperature."""
    mark = marks.choose(params.extra_args)
    if mark is None:
        return None
    temperature = params.temperature if params.temperature >= _GREEDY else 0.0
    mark.check_sampling(sampling_of(params))
    return mark, mark.scale(temperature)


def _is_beam_search(params: Any) -> bool:
    """Whether this is a step of vLLM's beam search: a request that it made itself.

    It asks for one token and the likeliest ones beside it, and takes over none of the fields of
    the request that it serves.
    """
    one_step = params.max_tokens == 1 and not params.detokenize and bool(params.logprobs)
    return one_step and FIELD not in (params.extra_args or {})


class Watermark(ListProcessor, SlotProcessor):  # type: ignore[misc]
    """What the flag and the entry point name; makes the processor of the runner that asks.

    The V1 runner passes the device and whether memory is pinned, Model Runner V2 its requests.
    """

    _living: ClassVar[WeakSet[Any]] = WeakSet()

    def __new__(cls, _: Any, *runner: Any) -> Watermark:
        """Return a processor for the runner with these arguments."""
        made: Watermark = super().__new__(SlotWatermark if len(runner) == 1 else ListWatermark)
        return made

    def __init__(self, vllm_config: Any) -> None:
        self._marks = _fitted_marks(vllm_config.model_config)
        self._config, self._active = vllm_config, True
        # Where flag and entry point both load this class, or an engine builds its processors anew,
        # only the newest marks.
        for other in self._living:
            if other._config is vllm_config:
                other._active = False
                _log.warning("powermark is loaded more than once; texts are marked once")
        self._living.add(self)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse an invalid request, with HTTP 400."""
        marks = _marks() or Marks.none()
        _chosen(sampling_params, marks)
        if not marks.by_name:
            return
        if not vllm_guard.installed.is_set():
            raise InvalidInput(
                "vLLM did not load powermark's plugin, so not all texts would be marked: install "
                "powermark beside vLLM, and name it in VLLM_PLUGINS if that is set."
            )
        if _is_beam_search(sampling_params):
            raise InvalidInput(
                "beam search chooses tokens by the model's own probabilities, so its text cannot "
                "be marked: leave use_beam_search out. (A request of one token, with logprobs and "
                "without text, looks the same; let it name its mark.)"
            )

    def is_argmax_invariant(self) -> bool:
        """Return False: greedy requests are changed too."""
        return False


class ListWatermark(Watermark):
    """For the V1 runner, which passes lists of ids."""

    def __init__(self, vllm_config: Any, *_: Any) -> None:
        super().__init__(vllm_config)
        self._batch = Batch()
        by_flag = _by_flag(vllm_config.model_config)
        if self._marks.by_name and vllm_config.scheduler_config.async_scheduling and not by_flag:
            raise EngineProblem(
                "with asynchronous scheduling vLLM hands its tokens only to processors that are "
                "named.",
                hint=f"add --logits-processors {NAME}, or --no-async-scheduling.",
            )

    def update_state(self, batch_update: Any) -> None:
        """Apply the runner's changes to its batch."""
        if batch_update is None:
            return
        batch = self._batch
        for row in batch_update.removed:
            batch.put(row, None)
        for row, params, prompt, output in batch_update.added:
            chosen = _chosen(params, self._marks)
            batch.put(row, None if chosen is None else Text(*chosen, prompt, output))
        for source, target, direction in batch_update.moved:
            if direction == MoveDirectionality.SWAP:
                batch.swap(source, target)
            else:
                batch.move(source, target)

    def apply(self, logits: Tensor) -> Tensor:
        """Add the biases of one step, in place."""
        if self._active:
            for mark, *rest in self._batch.biases():
                add_bias(mark.scheme, logits, *(_tensor(part, logits.device) for part in rest))
        return logits


class SlotWatermark(Watermark):
    """For Model Runner V2, whose ids stay on the device.

    Nothing waits for the device unless a spec is steered: counts are kept on the host.
    """

    def __init__(self, vllm_config: Any, states: Any) -> None:
        super().__init__(vllm_config)
        self._served = list(self._marks.by_name.values())
        steered = [mark for mark in self._served if mark.schedule is not None]
        if steered and vllm_config.speculative_config:
            raise EngineProblem(
                f"the spec {steered[0].name!r} is steered: its bias follows what was written, "
                f"which speculative decoding does not know yet.",
                hint="use specs without steering, or turn speculative decoding off.",
            )
        size = states.max_num_reqs
        self._states = states
        self._which = np.full(size, -1)  # place of each slot's mark, on the host
        self._deltas = np.zeros(size, np.float32)  # of the request, at its temperature
        self._stale = True  # the device does not have this yet
        self._counts = {
            mark.name: Counts(mark.scheme, schedule, mark.special_ids, rows=size)
            for mark in steered
            if (schedule := mark.schedule) is not None
        }
        self.apply_staged_writes()

    def update_state(self, batch_update: Any) -> None:
        """Nothing to do: only the V1 runner calls this."""

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Begin a request in a slot; return whether it is marked."""
        self._stale = True
        chosen = _chosen(sampling_params, self._marks)
        if chosen is None:
            self._which[req_idx] = -1
            return False
        mark, scale = chosen
        self._which[req_idx] = self._served.index(mark)
        self._deltas[req_idx] = scale * (1.0 if mark.schedule is not None else mark.spec.delta)
        if mark.schedule is not None:
            self._counts[mark.name].clear(req_idx)
        return True

    def apply_staged_writes(self) -> None:
        """Send the slots' marks to the device if they have changed; called once a step."""
        if self._stale:
            self._device_which = _tensor(self._which.copy(), self._states.device)
            self._device_deltas = _tensor(self._deltas.copy(), self._states.device)
            self._stale = False

    def apply(self, logits: Tensor, ctx: Any) -> Tensor:
        """Add the biases of one step in place, a mark at a time; most batches have one or none."""
        if not self._active:
            return logits
        slots = ctx.expanded_idx_mapping.to(torch.int64)
        rows = torch.arange(slots.shape[0], device=slots.device)
        for place in sorted(set(self._which[ctx.idx_mapping_np].tolist()) - {-1}):
            mark = self._served[place]
            h = mark.spec.context_width
            deltas = self._device_deltas[slots]
            if mark.schedule is not None:
                deltas = deltas * self._steered(mark, place, slots, ctx)
            usable = (self._device_which[slots] == place) & (ctx.pos + 1 >= h)
            deltas = torch.where(usable, deltas, 0.0)
            contexts = torch.where(usable.unsqueeze(-1), self._contexts(slots, rows, ctx, h), 0)
            add_bias(mark.scheme, logits, rows, contexts, deltas)
        return logits

    def _contexts(self, slots: Tensor, rows: Tensor, ctx: Any, h: int) -> Tensor:
        """Return the h ids before each row's token; drafts are only in this step's input."""
        back = torch.arange(h - 1, -1, -1, device=slots.device)
        places = (ctx.pos.to(torch.int64).unsqueeze(-1) - back).clamp_min(0)
        committed = self._states.all_token_ids.gpu[slots.unsqueeze(-1), places]
        fed = ctx.input_ids[(rows.unsqueeze(-1) - back).clamp_min(0)]
        drafted = back <= ctx.expanded_local_pos.unsqueeze(-1)
        return torch.where(drafted, fed, committed).to(torch.int64)

    def _steered(self, mark: ServedMark, place: int, slots: Tensor, ctx: Any) -> Tensor:
        """Bring the counts up to date and return each row's bias; waits for the device."""
        h, counts = mark.spec.context_width, self._counts[mark.name]
        ids, ends = slots.cpu().numpy(), ctx.pos.cpu().numpy() + 1
        mine = np.flatnonzero(self._which[ids] == place)
        starts = np.asarray(self._states.prompt_len.np)[ids]
        lengths = np.maximum(ends - starts, 0)  # none before the prompt's end
        device = self._states.device

        def windows(which: Any, tokens: Any) -> Any:
            rows = mine[which]
            places = torch.from_numpy((starts[rows] + tokens)[:, None] + np.arange(-h, 1))
            slot = slots[_tensor(rows, device)].unsqueeze(-1)
            found = self._states.all_token_ids.gpu[slot, places.to(device)].cpu().numpy()
            refuse_placeholders(found)
            return found.astype(np.int64)

        counts.catch_up(ids[mine], lengths[mine], windows)
        deltas = np.where(lengths >= counts.first, counts.deltas(ids), 0.0)
        return _tensor(deltas.astype(np.float32), device)


def _tensor(array: Any, device: Any) -> Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)


def _fitted_marks(config: Any) -> Marks:
    """Return the server's marks for its model; refuse a model that they are not for."""
    marks = _marks()
    if marks is None:
        if _by_flag(config):
            raise InvalidInput(
                "--logits-processors names powermark, but no marks are configured.",
                hint="set POWERMARK_SPECS and POWERMARK_KEYS, or POWERMARK_CONFIG.",
            )
        _log.info("powermark is installed, and no mark is set up: texts are not marked")
        return Marks.none()
    tokenizer = cached_tokenizer_from_config(config)
    if tokenizer is None:
        raise EngineProblem(
            "vLLM runs without a tokenizer, so that nothing shows whether a mark fits.",
            hint="leave --skip-tokenizer-init out.",
        )
    fitted = marks.fitted(tokenizer, config.get_vocab_size())
    if config.is_diffusion:
        raise EngineProblem(
            "a diffusion model does not write one token after another, and is not marked."
        )
    return fitted


def _by_flag(config: Any) -> bool:
    """Whether --logits-processors has this class, by name or itself."""
    given = config.logits_processors or ()
    return any(
        one == NAME or (isinstance(one, type) and issubclass(one, Watermark)) for one in given
    )
