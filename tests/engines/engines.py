"""The interfaces of engines as far as the adapters use them, for machines without the engines.

Written from vLLM 0.32.0 (``vllm/v1/sample/logits_processor/interface.py``,
``vllm/v1/worker/gpu/sample/logits_processor/interface.py``, ``vllm/v1/engine/input_processor.py``,
``vllm/entrypoints/serve/middleware/register.py``) and SGLang 0.5.23
(``sglang/srt/sampling/custom_logit_processor.py``, ``sglang/srt/managers/schedule_batch.py``):
names, fields, signatures and order of calls. Where an engine is installed, as under ``make
test-vllm``, its own classes take their place; ``make test-sglang`` has SGLang's class file.
"""

import enum
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import dill
import numpy as np
import torch


class MoveDirectionality(enum.Enum):
    UNIDIRECTIONAL = enum.auto()
    SWAP = enum.auto()


@dataclass(frozen=True)
class BatchUpdate:
    batch_size: int
    removed: Sequence[int]
    added: Sequence[tuple[int, Any, list[int] | None, list[int]]]
    moved: Sequence[tuple[int, int, MoveDirectionality]]


class ListProcessor(ABC):
    """The V1 runner's class."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:  # noqa: ARG003
        return None

    @abstractmethod
    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None: ...

    @abstractmethod
    def apply(self, logits: torch.Tensor) -> torch.Tensor: ...

    @abstractmethod
    def is_argmax_invariant(self) -> bool: ...

    @abstractmethod
    def update_state(self, batch_update: BatchUpdate | None) -> None: ...


@dataclass(frozen=True)
class LogitsProcRequestState:
    device: torch.device
    max_num_reqs: int
    vocab_size: int
    all_token_ids: Any
    prompt_len: Any
    prefill_len: Any
    total_len: Any


@dataclass(frozen=True)
class LogitsContext:
    expanded_idx_mapping: torch.Tensor
    idx_mapping: torch.Tensor
    idx_mapping_np: Any
    expanded_local_pos: torch.Tensor
    input_ids: torch.Tensor
    pos: torch.Tensor
    seq_lens_upper_bound_np: Any


class SlotProcessor(ABC):
    """Model Runner V2's class."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:  # noqa: ARG002
        return None

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:  # noqa: ARG003
        return None

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:  # noqa: ARG002
        return True

    def apply_staged_writes(self) -> None:
        return None

    @abstractmethod
    def apply(self, logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor: ...


class CustomLogitProcessor(ABC):
    """SGLang's class."""

    @abstractmethod
    def __call__(
        self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]] | None = None
    ) -> torch.Tensor: ...

    @classmethod
    def to_str(cls) -> str:
        return json.dumps({"callable": dill.dumps(cls).hex()})

    @classmethod
    def from_str(cls, sent: str) -> Any:
        return dill.loads(bytes.fromhex(json.loads(sent)["callable"]))()


class InputProcessor:
    """What takes requests in, in vLLM's front process."""

    def __init__(self, vllm_config: Any, renderer: Any = None) -> None:
        self.vllm_config, self.renderer = vllm_config, renderer


def init_entrypoints_middleware(args: Any, app: Any, supported_tasks: Any) -> None:  # noqa: ARG001
    app.added.append("authentication")


class FinishAbort:
    """SGLang's reason of a request that is ended early."""

    def __init__(
        self, message: str | None = None, status_code: Any = None, err_type: str | None = None
    ) -> None:
        self.message, self.status_code, self.err_type = message, status_code, err_type


_V1, _V2 = "vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor"
_CONTENTS: dict[str, dict[str, Any]] = {
    "vllm.tokenizers.registry": {
        "cached_tokenizer_from_config": lambda config: config.its_tokenizer
    },
    _V1: {
        "LogitsProcessor": ListProcessor,
        "BatchUpdate": BatchUpdate,
        "MoveDirectionality": MoveDirectionality,
    },
    _V2: {
        "LogitsProcessor": SlotProcessor,
        "LogitsContext": LogitsContext,
        "LogitsProcRequestState": LogitsProcRequestState,
    },
    "vllm.v1.engine.input_processor": {"InputProcessor": InputProcessor},
    "vllm.entrypoints.serve.middleware.register": {
        "init_entrypoints_middleware": init_entrypoints_middleware
    },
    "sglang.srt.sampling.custom_logit_processor": {"CustomLogitProcessor": CustomLogitProcessor},
    "sglang.srt.managers.schedule_batch": {"FINISH_ABORT": FinishAbort},
    "sglang.srt.runtime_context": {"get_spec": lambda: SimpleNamespace(speculative_algorithm=None)},
}


def install(monkeypatch: Any, engine: str) -> tuple[Any, bool]:
    """Return the adapter of an engine, and whether it stands on the engine's own class.

    What is not there of the engine is replaced by the stand-ins.
    """
    names = [name for name in _CONTENTS if name.startswith(f"{engine}.")]
    missing = [name for name in names if not _is_there(name)]
    for name in missing:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            module = ".".join(parts[:length])
            if module not in sys.modules and not _is_there(module):
                monkeypatch.setitem(sys.modules, module, ModuleType(module))
        for key, value in _CONTENTS[name].items():
            monkeypatch.setattr(import_module(name), key, value, raising=False)
    monkeypatch.delitem(sys.modules, f"powermark.engines.{engine}", raising=False)
    return import_module(f"powermark.engines.{engine}"), names[0] not in missing


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # a stand-in has no spec
        return False


@dataclass
class Params:
    """What an adapter reads of vLLM's SamplingParams."""

    temperature: float = 1.0
    extra_args: dict[str, Any] | None = None
    max_tokens: int | None = 16
    logprobs: int | None = None
    detokenize: bool = True
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


@dataclass
class Config:
    """What an adapter reads of VllmConfig."""

    tokenizer: Any
    width: int
    logits_processors: list[Any] | None = None
    async_scheduling: bool = False
    speculative_config: Any = None
    use_v2_model_runner: bool = False
    is_diffusion: bool = False
    model_config: Any = field(init=False)
    scheduler_config: Any = field(init=False)

    def __post_init__(self) -> None:
        self.model_config = SimpleNamespace(
            logits_processors=self.logits_processors,
            its_tokenizer=self.tokenizer,
            get_vocab_size=lambda: self.width,
            is_diffusion=self.is_diffusion,
        )
        self.scheduler_config = SimpleNamespace(async_scheduling=self.async_scheduling)


def request_state(slots: int, length: int, width: int) -> LogitsProcRequestState:
    """Return empty buffers of Model Runner V2, on the host."""

    def buffer(*shape: int) -> Any:
        host = np.zeros(shape, np.int32)
        return SimpleNamespace(np=host, gpu=torch.from_numpy(host))

    kind = import_module(_V2).LogitsProcRequestState
    state: LogitsProcRequestState = kind(
        device=torch.device("cpu"),
        max_num_reqs=slots,
        vocab_size=width,
        all_token_ids=buffer(slots, length),
        prompt_len=buffer(slots),
        prefill_len=buffer(slots),
        total_len=buffer(slots),
    )
    return state


def step_context(slots: list[int], local: list[int], fed: list[int], pos: list[int]) -> Any:
    """Return the layout of one step: for each row its slot, draft, input token and position."""
    unique = list(dict.fromkeys(slots))
    return import_module(_V2).LogitsContext(
        expanded_idx_mapping=torch.tensor(slots, dtype=torch.int32),
        idx_mapping=torch.tensor(unique, dtype=torch.int32),
        idx_mapping_np=np.array(unique, np.int32),
        expanded_local_pos=torch.tensor(local, dtype=torch.int32),
        input_ids=torch.tensor(fed, dtype=torch.int32),
        pos=torch.tensor(pos, dtype=torch.int64),
        seq_lens_upper_bound_np=np.array([0] * len(unique)),
    )
