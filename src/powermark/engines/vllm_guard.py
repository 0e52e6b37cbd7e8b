"""Refuse set-ups and requests for which vLLM would silently skip the processor.

vLLM calls :func:`install` first in each of its processes (entry point group
``vllm.general_plugins``). If marks are configured,

* vLLM does not start in a configuration that silently drops logits processors;
* a request that names its mark anywhere but in ``vllm_xargs`` gets HTTP 400: vLLM ignores unknown
  fields.

Both checks wrap functions of vLLM, which has no hooks for them. A vLLM without these functions does
not start. The processor refuses all requests if :func:`install` was not called. The gate is
imported late: nothing heavy may be loaded before vLLM's workers run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import wraps
from threading import Event
from typing import Any

from powermark.engines.settings import FIELD, is_configured
from powermark.errors import EngineProblem, InvalidInput

installed = Event()
_APP = "vllm.entrypoints.launchers.app"  # imports the function by name


def install() -> None:
    """Guard this process; vLLM calls this."""
    if installed.is_set() or not is_configured():
        return
    from vllm.entrypoints.serve.middleware import register
    from vllm.v1.engine.input_processor import InputProcessor

    construct, add_middleware = InputProcessor.__init__, register.init_entrypoints_middleware

    @wraps(construct)
    def checked(processor: Any, vllm_config: Any, *args: Any, **more: Any) -> None:
        refuse_unmarked(vllm_config)
        construct(processor, vllm_config, *args, **more)

    @wraps(add_middleware)
    def gated(args: Any, app: Any, *more: Any) -> None:
        from powermark.engines.gate import Gate

        app.add_middleware(Gate, check=refuse_stray)  # first, so behind authentication
        add_middleware(args, app, *more)

    InputProcessor.__init__ = checked
    modules: list[Any] = [register, sys.modules.get(_APP, register)]
    for module in modules:
        module.init_entrypoints_middleware = gated
    installed.set()


def refuse_unmarked(vllm_config: Any) -> None:
    """Refuse a set-up in which vLLM's V1 runner drops processors that are merely installed."""
    if vllm_config.speculative_config and not vllm_config.use_v2_model_runner:
        raise EngineProblem(
            "with speculative decoding vLLM's V1 runner leaves logits processors out, so no text "
            "would be marked.",
            hint="turn speculative decoding off, or let Model Runner V2 do it.",
        )


def refuse_stray(fields: Mapping[str, Any]) -> None:
    """Refuse a body that names its mark in a field that vLLM ignores."""
    from powermark.engines.gate import mark_fields

    if stray := mark_fields(fields, "extra_body", "sampling_params"):
        raise InvalidInput(
            f"vLLM ignores {sorted(stray)[0]!r} here: a request names its mark in vllm_xargs, as "
            f'{{"vllm_xargs": {{"{FIELD}": "NAME"}}}}.'
        )
