"""Designs in processes of their own: the same answers, ended in time, with their memory."""

import asyncio
import io
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from powermark.errors import Infeasible, InvalidInput
from powermark.interfaces.server import design_process, design_worker, schemas
from powermark.interfaces.server.access import Tokens
from powermark.interfaces.server.design_process import Designer, Designers
from powermark.interfaces.server.design_worker import Designs, Failure, answer_all
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.refusals import Refusal
from powermark.interfaces.server.telemetry import Log
from tests.interfaces.server import Asked, Ready, asking, lines_of
from tests.signals.profiles import sample

PLAN: dict[str, Any] = {"n_tokens": 50, "alpha": 0.05, "power": 0.9}


def designs_of(ready: Ready) -> Designs:
    specs = {name: mark.spec for name, mark in ready.library.marks.items()}
    return Designs(specs, {"p": sample()[1]})


ASKED: dict[str, Any] = {
    "plan": schemas.PlanRequest,
    "spec": schemas.SpecRequest,
    "power": schemas.PowerRequest,
    "curve": schemas.CurveRequest,
}


@pytest.mark.parametrize(
    ("route", "fields"),
    [
        ("plan", PLAN),
        ("plan", {"alpha": 0.05, "coverage": 0.8, "lengths": [50, 80]}),
        ("plan", PLAN | {"profile": "p"}),
        ("plan", PLAN | {"like": "code"}),
        ("plan", PLAN | {"detector": "evalue"}),
        ("plan", PLAN | {"n_tokens": 20, "steer": True}),
        ("plan", PLAN | {"n_tokens": 3, "alpha": 1e-9}),
        ("plan", PLAN | {"n_tokens": 5_000, "steer": True}),
        ("spec", PLAN | {"spec": "demo"}),
        ("spec", PLAN | {"spec": "demo", "like": "chat", "entropy": 0.5}),
        ("spec", PLAN | {"like": "chat"}),
        ("spec", PLAN | {"vocab_size": 600}),
        ("spec", PLAN | {"vocab_size": 600, "signal": "dirichlet"}),
        ("spec", PLAN),
        ("spec", PLAN | {"profile": "p"}),
        ("power", {"gamma": 0.25, "delta": 2.0, "n_tokens": 50, "alpha": 0.01}),
        ("curve", {"over": "power", "points": 3, "n_tokens": 50, "alpha": 0.05}),
    ],
)
def test_a_process_answers_as_a_call_does(ready: Ready, route: Any, fields: Any) -> None:
    """Here its loop runs over streams; through the server it is a child, as other tests have it."""
    asked = ASKED[route](**fields)
    designs = designs_of(ready)
    here = designs.answer(route, asked)
    requests = io.BytesIO(b"".join(map(pickle.dumps, (designs, (route, asked), (route, asked)))))
    answers = io.BytesIO()
    answer_all(requests, answers, growth=sys.maxsize)
    answers.seek(0)
    for _ in range(2):
        there, last = pickle.load(answers)
        assert not last
        assert repr(there) == repr(here)
    assert isinstance(here, bytes | InvalidInput | Infeasible)


def test_an_error_of_our_own_is_told_by_kind_and_place(ready: Ready) -> None:
    found = designs_of(ready).answer("plan", "not a request")
    assert isinstance(found, Failure)
    assert found.kind == "AttributeError"
    assert found.where[-1].startswith("check_steering:")


def test_a_process_that_took_much_memory_ends(ready: Ready) -> None:
    asked = ("plan", schemas.PlanRequest(**PLAN))
    requests = io.BytesIO(b"".join(map(pickle.dumps, (designs_of(ready), asked, asked))))
    answers = io.BytesIO()
    answer_all(requests, answers, growth=-1)
    assert pickle.loads(answers.getvalue())[1] is True
    assert pickle.load(requests)[0] == "plan"  # the second was left for its successor


def test_restraint(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import resource

    done: list[Any] = []
    monkeypatch.setattr(os, "nice", done.append)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: done.append(limits))
    for hard in (resource.RLIM_INFINITY, 1 << 30, 1 << 40):
        monkeypatch.setattr(resource, "getrlimit", lambda _, hard=hard: (hard, hard))
        design_worker.restrain()
    assert [each[0] for each in done[1::2]] == [2 << 30, 1 << 30, 2 << 30]
    assert done[::2] == [10, 10, 10]
    monkeypatch.setitem(sys.modules, "resource", None)
    design_worker.restrain()  # Windows has none of it
    assert design_worker._most_memory() == 0
    assert len(done) == 6


@contextmanager
def a_designer(
    monkeypatch: pytest.MonkeyPatch, child: str, seconds: float = 60.0
) -> Iterator[tuple[Designer, io.StringIO]]:
    """Yield a designer whose child process runs the given Python."""
    monkeypatch.setattr(design_process, "_MAIN", child)
    logged = io.StringIO()
    found = Designer(Designs({}, {}), Limits(seconds=seconds), Log(logged))
    try:
        yield found, logged
    finally:
        found.close()


def ask(designer: Designer) -> bytes:
    deadline = time.monotonic() + designer._limits.seconds
    return asyncio.run(designer.ask("plan", schemas.PlanRequest(**PLAN), deadline))


REAL = "from powermark.interfaces.server.design_worker import main; main()"
STUCK = "import time; time.sleep(600)"
FAILING = """
from powermark.interfaces.server import design_worker
def fail(*_): raise {error}('private')
design_worker.plan_for = fail
design_worker.main()
"""


def test_work_is_ended_at_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_designer(monkeypatch, STUCK, seconds=2) as (designer, _):
        start = time.monotonic()
        with pytest.raises(Refusal, match=r"this takes more than 2 seconds") as refused:
            ask(designer)
        assert refused.value.status_code == 503
        while (first := designer._child) is None:  # the next process is being started
            assert time.monotonic() - start < 20
            time.sleep(0.01)
        with pytest.raises(Refusal):
            ask(designer)
        assert time.monotonic() - start < 20
        assert first.wait(10) != 0  # it is gone, and its memory with it
        monkeypatch.setattr(design_process, "_MAIN", REAL)
    with a_designer(monkeypatch, REAL) as (designer, _):
        assert b'"gamma"' in ask(designer)
        assert designer.busy == 0


@pytest.mark.parametrize(
    ("child", "status", "said"),
    [
        (FAILING.format(error="MemoryError"), 503, "2 GiB of memory"),
        (FAILING.format(error="KeyError"), 500, "the log says where"),
        ("import os; os.abort()", 503, "or was ended"),
    ],
)
def test_what_fails_is_said_and_logged(
    monkeypatch: pytest.MonkeyPatch, child: str, status: int, said: str
) -> None:
    with a_designer(monkeypatch, child) as (designer, logged):
        for _ in range(2):  # the next request has a process, too
            with pytest.raises(Refusal, match=said) as refused:
                ask(designer)
        assert refused.value.status_code == status
        assert [line["event"] for line in lines_of(logged)] == ["error", "error"]
        assert "private" not in logged.getvalue()


def test_a_server_that_ends_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_designer(monkeypatch, REAL) as (designer, _):
        designer.close()
        designer.start()
        assert designer._child is None
        found = designer._answer("plan", schemas.PlanRequest(**PLAN), time.monotonic() + 10)
        assert isinstance(found, Failure)
        assert found.kind == "ProcessEnded"


def test_a_successor_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    retiring = "from powermark.interfaces.server import design_worker as d; "
    retiring += "d.answer_all.__defaults__ = (-1,); d.main()"
    with a_designer(monkeypatch, retiring) as (designer, _):
        answers = []
        for _ in range(2):
            designer.start()
            answers.append((designer._child, ask(designer)))
    assert answers[0][1] == answers[1][1]
    assert answers[0][0] is not answers[1][0]


@pytest.mark.parametrize(
    "signal",
    [
        {"signal": "mixture", "mixture": "1:1e308"},
        {"signal": "dirichlet", "vocab_size": 2**24, "concentration": 1e300},
    ],
)
def test_a_very_flat_signal_is_the_plug_in(local: Asked, signal: dict[str, Any]) -> None:
    status, found = local.post("/v1/plan", PLAN | signal)
    _, plain = local.post("/v1/plan", PLAN)
    assert status == 200, found
    assert found["kl"] == pytest.approx(plain["kl"], rel=1e-6)  # the solver's tolerance


def test_a_concentration_beyond_doubles_is_refused(local: Asked) -> None:
    signal = {"signal": "dirichlet", "vocab_size": 2**24, "concentration": 1e302}
    status, found = local.post("/v1/plan", PLAN | signal)
    assert status == 422
    assert "concentrations must be in [1e-100, inf); got inf." in str(found)


def test_a_key_in_the_environment_stays_with_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POWERMARK_KEY", "private")
    leaking = "import os, sys; sys.exit(3 if 'POWERMARK_KEY' in os.environ else 4)"
    with a_designer(monkeypatch, leaking) as (designer, _):
        designer.start()
        assert designer._child is not None
        assert designer._child.wait(30) == 4


SLEEPING = """
import time
from powermark.interfaces.server import design_worker
real = design_worker.Designs.plan
def plan(self, request):
    if request.steer and request.n_tokens == 20:
        time.sleep(600)
    return real(self, request)
design_worker.Designs.plan = plan
design_worker.main()
"""


def test_a_stuck_steered_plan_holds_up_nobody_else(
    ready: Ready, tokens: tuple[Tokens, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither constant plans nor another client's steered ones; a second of its own is refused."""
    monkeypatch.setattr(design_process, "_MAIN", SLEEPING)
    known, secret = tokens
    one, other = ({"Authorization": f"Bearer {secret[name]}"} for name in ("detect", "inspect"))
    stuck = PLAN | {"n_tokens": 20, "steer": True}
    found = []
    with asking(ready.library, tokens=known) as asked:
        asked.service.start()
        assert asked.post("/v1/plan", PLAN, **other)[0] == 200  # its process is loaded
        thread = threading.Thread(target=lambda: found.append(asked.post("/v1/plan", stuck, **one)))
        thread.start()
        while asked.service.steering._lines["detect"].size == 0:
            time.sleep(0.01)
        for path in ("/v1/plan", "/v1/spec"):
            again = asked.http.post(path, json=stuck, headers=one)
            assert again.status_code == 429
            assert again.headers["retry-after"] == "5"
            assert again.json()["error"] == {
                "code": "busy",
                "message": "too many steered plans of this client at a time; the limit is 1.",
                "hint": "ask again when an earlier one is answered.",
            }
        for client in (other, one):
            start = time.monotonic()
            assert asked.post("/v1/plan", PLAN, **client)[0] == 200
            assert time.monotonic() - start < 5  # a fraction of a second on an idle machine
        steered = PLAN | {"n_tokens": 10, "power": 0.5, "steer": True}
        status, plan = asked.post("/v1/plan", steered, **other)
        assert (status, plan["steering"]["n_tokens"]) == (200, 10)
        assert not found
        asked.service.close()
        thread.join(30)
        assert found[0][0] == 503
        assert asked.service.steering._lines["detect"].size == 0


def test_a_clients_designs_take_turns() -> None:
    designers = Designers(Designs({}, {}), Limits(seconds=0.1), Log(), kind="designs", most=9)
    asked = schemas.PlanRequest(**PLAN)

    async def ask_beside_another() -> None:
        await designers._lines["alice"].turn.acquire()
        await designers.ask("plan", asked, "alice")

    with pytest.raises(Refusal, match=r"more than 0.1 seconds"):
        asyncio.run(ask_beside_another())
    [first, second] = designers._processes
    with pytest.raises(Refusal, match=r"more than 0.1 seconds"):
        first._answer("plan", asked, time.monotonic())
    assert first._child is second._child is None  # no time was left to ask it
    designers.close()
