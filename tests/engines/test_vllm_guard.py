"""What vLLM does not ask a processor about: refused before it happens."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Event
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from powermark.errors import EngineProblem, InvalidInput
from tests.engines.engines import Config, Params, install
from tests.engines.served import TOKENIZER, WIDTH, serve, spec

APP = "vllm.entrypoints.launchers.app"


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The plugin, not yet called, over vLLM's functions, which are put back afterwards."""
    serve(monkeypatch, tmp_path, {"one": spec(1)}, opt_out="yes")
    module = install(monkeypatch, "vllm")[0].vllm_guard
    monkeypatch.setattr(module, "installed", Event())
    for name, kept in (("InputProcessor", "__init__"), ("register", "init_entrypoints_middleware")):
        where = _parts()[name]
        monkeypatch.setattr(where, kept, getattr(where, kept))
    return module


def _parts() -> dict[str, Any]:
    from vllm.entrypoints.serve.middleware import register
    from vllm.v1.engine.input_processor import InputProcessor

    return {"InputProcessor": InputProcessor, "register": register}


class App:
    def __init__(self) -> None:
        self.added: list[Any] = []

    def add_middleware(self, kind: type, **options: Any) -> None:
        self.added.append((kind.__name__, options))


def test_speculative_decoding_without_processors_does_not_start(guard: Any) -> None:
    guard.install()
    build = _parts()["InputProcessor"]
    draft = object()
    with pytest.raises(EngineProblem, match="leaves logits processors out"):
        build(Config(TOKENIZER, WIDTH, speculative_config=draft))
    guard.refuse_unmarked(Config(TOKENIZER, WIDTH))
    guard.refuse_unmarked(
        Config(TOKENIZER, WIDTH, speculative_config=draft, use_v2_model_runner=True)
    )


def test_a_start_that_can_mark_is_left_alone(guard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    build = _parts()["InputProcessor"]
    monkeypatch.setattr(build, "__init__", lambda *given, **more: begun.append((given[1:], more)))
    guard.install()
    config = Config(TOKENIZER, WIDTH)
    build(config, "renderer", mm_registry=1)
    assert begun == [((config, "renderer"), {"mm_registry": 1})]


@pytest.mark.parametrize("loaded", [True, False])
def test_servers_get_the_gate_behind_authentication(
    guard: Any, monkeypatch: pytest.MonkeyPatch, loaded: bool
) -> None:
    register = _parts()["register"]

    def original(_: Any, app: Any, tasks: Any) -> None:
        app.added.append(tasks)

    monkeypatch.setattr(register, "init_entrypoints_middleware", original)
    monkeypatch.delitem(sys.modules, APP, raising=False)
    if loaded:  # vLLM's server takes the function by its name
        app_module = ModuleType(APP)
        app_module.init_entrypoints_middleware = original  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, APP, app_module)
    guard.install()
    guard.install()  # in a process that has it
    for module in (register, *([sys.modules[APP]] if loaded else [])):
        app = App()
        module.init_entrypoints_middleware(SimpleNamespace(), app, ("generate",))
        assert app.added == [("Gate", {"check": guard.refuse_stray}), ("generate",)]


@pytest.mark.parametrize(
    "body",
    [{"powermark": "one"}, {"extra_body": {"powermark": "one"}},
     {"sampling_params": {"powermark_mark": 1}}],
)  # fmt: skip
def test_marks_named_where_vllm_does_not_look(guard: Any, body: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"vLLM ignores 'powermark.*in vllm_xargs"):
        guard.refuse_stray({"prompt": "x", **body})
    guard.refuse_stray({"prompt": "x", "vllm_xargs": {"powermark": "one"}})
    guard.refuse_stray({"sampling_params": {"extra_args": {"powermark": "one"}}})


def test_no_request_is_served_without_the_guard(
    guard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = sys.modules["powermark.engines.vllm"].Watermark.validate_params
    with pytest.raises(InvalidInput, match="did not load powermark's plugin"):
        check(Params())
    guard.install()
    check(Params())
    for name in ("SPECS", "KEYS", "OPT_OUT"):
        monkeypatch.delenv(f"POWERMARK_{name}")
    monkeypatch.setattr(guard, "installed", Event())
    guard.install()  # merely installed: nothing of vLLM is touched
    assert not guard.installed.is_set()


def test_the_guard_loads_nothing_heavy() -> None:
    """vLLM's CPU workers look into everything that is loaded, and do not start beside Numba."""
    program = "import sys, powermark.engines.vllm_guard as g; g.install(); " \
        "sys.exit(bool({'numba', 'scipy', 'numpy'} & sys.modules.keys()))"  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if not k.startswith("POWERMARK_")}
    assert (
        subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode
        == 0
    )


def test_beam_search_is_refused(guard: Any) -> None:
    guard.install()
    check = sys.modules["powermark.engines.vllm"].Watermark.validate_params
    beam: dict[str, Any] = {"max_tokens": 1, "logprobs": 8, "detokenize": False}
    with pytest.raises(InvalidInput, match="leave use_beam_search out"):
        check(Params(**beam))
    check(Params(extra_args={"powermark": "off"}, **beam))  # said so itself: no step of a search
    for other in ({"max_tokens": 2}, {"logprobs": None}, {"detokenize": True}):
        check(Params(**beam | other))
