r"""Marking in vLLM: one logits processor for its two model runners.

    POWERMARK_SPECS=s.json POWERMARK_KEYS=k.key \
      vllm serve my-model --logits-processors powermark.integrations.vllm:Watermark

Installed beside vLLM it is also found by itself, as an entry point; loaded twice it marks once. A
request chooses with ``vllm_xargs: {"powermark": "NAME"}``. How a server is told its marks, and
which answers a request can get, is in :mod:`powermark.integrations.serving`; what vLLM does not ask
a processor about is refused in :mod:`powermark.integrations.vllm_guard`.

The V1 runner hands over each request's lists of ids; Model Runner V2 keeps all ids on the device,
in a slot a request, and may ask for several rows of a request at once (speculative decoding). Both
apply this before temperature and truncation.
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

from powermark.errors import EngineProblem, InvalidInput
from powermark.integrations import vllm_guard
from powermark.integrations.batch import Batch, Text, refuse_placeholders
from powermark.integrations.serving import Marks, ServedMark
from powermark.integrations.settings import FIELD
from powermark.integrations.torch import add_bias
from powermark.watermark.tracker import Counts

NAME = "powermark.integrations.vllm:Watermark"  # what --logits-processors takes
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
    return mark, mark.scale(temperature)


def _is_beam_search(params: Any) -> bool:
    """Whether this is a step of vLLM's beam search: a request that it made itself.

    It asks for one token and the likeliest ones beside it, and takes over none of the fields of
    the request that it serves.
    """
    one_step = params.max_tokens == 1 and not params.detokenize and bool(params.logprobs)
    return one_step and FIELD not in (params.extra_args or {})


class Watermark(ListProcessor, SlotProcessor):  # type: ignore[misc]
    """Adds each request's mark to its logits; lives as long as the engine."""

    _living: ClassVar[WeakSet[Any]] = WeakSet()

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse, with HTTP 400, what a request cannot have."""
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

    def __init__(self, vllm_config: Any, *runner: Any) -> None:
        config = vllm_config.model_config
        by_flag = any(_is_this(given) for given in config.logits_processors or ())
        marks = _marks()
        if marks is None:
            if by_flag:
                raise InvalidInput(
                    "vLLM was told to mark, but not with what.",
                    hint="set POWERMARK_SPECS and POWERMARK_KEYS, or POWERMARK_CONFIG.",
                )
            _log.info("powermark is installed, and no mark is set up: texts are not marked")
            marks = Marks.none()
        else:
            tokenizer = cached_tokenizer_from_config(config)
            if tokenizer is None:
                raise EngineProblem(
                    "vLLM runs without a tokenizer, so that nothing shows whether a mark fits.",
                    hint="leave --skip-tokenizer-init out.",
                )
            marks = marks.fitted(tokenizer, config.get_vocab_size())
            if config.is_diffusion:
                raise EngineProblem(
                    "a diffusion model does not write one token after another, and is not marked."
                )
        self._marks, self._config = marks, vllm_config
        # Where flag and entry point both load this class, or an engine builds its processors anew,
        # the newest marks and the others stand by.
        for other in self._living:
            if other._config is vllm_config:
                other._active = False
                _log.warning("powermark is loaded more than once; texts are marked once")
        self._active = True
        self._living.add(self)
        if len(runner) == 1:
            self._slots = Slots(vllm_config, runner[0], marks)
        else:
            self._batch = Batch()
            asynchronous = vllm_config.scheduler_config.async_scheduling
            if marks.by_name and asynchronous and not by_flag:
                raise EngineProblem(
                    "with asynchronous scheduling vLLM hands its tokens only to processors that "
                    "are named.",
                    hint=f"add --logits-processors {NAME}, or --no-async-scheduling.",
                )

    def is_argmax_invariant(self) -> bool:
        """Say that greedy requests are changed too; vLLM asks."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follow what the V1 runner did to its batch."""
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

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Take a request into a slot of Model Runner V2; say whether it is marked."""
        return self._slots.add(req_idx, _chosen(sampling_params, self._marks))

    def apply_staged_writes(self) -> None:
        """Send what :meth:`add_request` noted to the device; once a step."""
        self._slots.send()

    def apply(self, logits: Tensor, ctx: Any = None) -> Tensor:
        """Add the biases of one step, in place."""
        if not self._active:
            return logits
        if ctx is not None:
            self._slots.apply(logits, ctx)
            return logits
        for mark, *rest in self._batch.biases():
            add_bias(mark.scheme, logits, *(_tensor(part, logits.device) for part in rest))
        return logits


class Slots:
    """The requests of Model Runner V2, whose ids stay on the device.

    Nothing waits for the device unless a spec is steered: counts are kept on the host.
    """

    def __init__(self, vllm_config: Any, states: Any, marks: Marks) -> None:
        steered = [mark for mark in marks.by_name.values() if mark.schedule is not None]
        if steered and vllm_config.speculative_config:
            raise EngineProblem(
                f"the spec {steered[0].name!r} is steered: its bias follows what was written, "
                f"which speculative decoding does not know yet.",
                hint="use specs without steering, or turn speculative decoding off.",
            )
        size = states.max_num_reqs
        self._states, self._marks = states, list(marks.by_name.values())
        self._which = np.full(size, -1)  # place of each slot's mark, on the host
        self._deltas = np.zeros(size, np.float32)  # of the request, at its temperature
        self._counted = np.zeros(size, np.int64)
        self._stale = True  # the device does not have this yet
        self._counts = {
            mark.name: Counts(mark.scheme, schedule, mark.special_ids, rows=size)
            for mark in steered
            if (schedule := mark.schedule) is not None
        }
        self.send()

    def add(self, slot: int, chosen: tuple[ServedMark, float] | None) -> bool:
        """Begin a request in a slot."""
        self._stale = True
        if chosen is None:
            self._which[slot] = -1
            return False
        mark, scale = chosen
        self._which[slot] = self._marks.index(mark)
        self._deltas[slot] = scale * (1.0 if mark.schedule is not None else mark.spec.delta)
        self._counted[slot] = 0
        if mark.schedule is not None:
            self._counts[mark.name].clear(slot)
        return True

    def send(self) -> None:
        """Send the slots' marks to the device if they have changed."""
        if self._stale:
            self._device_which = _tensor(self._which.copy(), self._states.device)
            self._device_deltas = _tensor(self._deltas.copy(), self._states.device)
            self._stale = False

    def apply(self, logits: Tensor, ctx: Any) -> None:
        """Add the biases of one step, a mark at a time, to all rows; most have none or one."""
        slots = ctx.expanded_idx_mapping.to(torch.int64)
        rows = torch.arange(slots.shape[0], device=slots.device)
        for place in sorted(set(self._which[ctx.idx_mapping_np].tolist()) - {-1}):
            mark = self._marks[place]
            h = mark.spec.context_width
            deltas = self._device_deltas[slots]
            if mark.schedule is not None:
                deltas = deltas * self._steered(mark, place, slots, ctx)
            usable = (self._device_which[slots] == place) & (ctx.pos + 1 >= h)
            deltas = torch.where(usable, deltas, 0.0)
            contexts = torch.where(usable.unsqueeze(-1), self._contexts(slots, rows, ctx, h), 0)
            add_bias(mark.scheme, logits, rows, contexts, deltas)

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
        taken_back = mine[self._counted[ids[mine]] > lengths[mine]]
        for slot in ids[taken_back]:
            counts.clear(int(slot))
            self._counted[slot] = 0
        while True:
            at = np.maximum(self._counted[ids], h)
            behind = mine[at[mine] < lengths[mine]]
            if behind.size == 0:
                break
            places = torch.from_numpy((starts + at)[behind, None] + np.arange(-h, 1))
            device = self._states.device
            rows = slots[_tensor(behind, device)].unsqueeze(-1)
            windows = self._states.all_token_ids.gpu[rows, places.to(device)].cpu().numpy()
            refuse_placeholders(windows)
            counts.add(ids[behind], windows.astype(np.int64))
            self._counted[ids[behind]] = at[behind] + 1
        deltas = np.where(lengths >= h, counts.deltas(ids), 0.0)
        return _tensor(deltas.astype(np.float32), self._states.device)


def _tensor(array: Any, device: Any) -> Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)


def _is_this(given: Any) -> bool:
    """Whether an entry of --logits-processors is this class, by name or itself."""
    return bool(given == NAME or (isinstance(given, type) and issubclass(given, Watermark)))
