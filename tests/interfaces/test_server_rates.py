"""How much a client may ask of a server: texts a second, and work at a time."""

import asyncio
import threading
import time

import pytest

from powermark.interfaces.server.access import LOCAL, Client, Rates, Tokens
from powermark.interfaces.server.limits import Limits, Workers
from powermark.interfaces.server.refusals import Refusal
from tests.interfaces.server import Asked, Ready, asking


def test_rates(ready: Ready, tokens: tuple[Tokens, dict[str, str]]) -> None:
    known, secret = tokens
    headers = {"Authorization": f"Bearer {secret['detect']}"}
    with asking(ready.library, tokens=known, limits=Limits(rate=0.001)) as asked:
        statuses = [asked.http.get("/v1/specs", headers=headers).status_code for _ in range(4)]
        assert statuses == [200, 429, 429, 429]
    now = 0.0
    rates = Rates(2.0, lambda: now)
    assert [rates.charge(LOCAL) for _ in range(5)] == [0.0] * 4 + [0.5]
    assert rates.charge(Client("other", "detect")) == 0.0
    now = 0.6
    assert [rates.charge(LOCAL) for _ in range(2)] == [0.0, pytest.approx(0.4)]


def test_every_text_of_a_batch_counts(
    ready: Ready, tokens: tuple[Tokens, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    known, secret = tokens
    headers = {"Authorization": f"Bearer {secret['detect']}"}
    one = {"spec": "demo", "text": "w1"}
    with asking(ready.library, tokens=known, limits=Limits(rate=5.0)) as asked:
        now = 0.0
        monkeypatch.setattr(asked.service.rates, "_clock", lambda: now)
        texts = [{"text": "w1"}] * 60  # ten at once, so fifty are owed: ten seconds
        batch = {"spec": "demo", "texts": texts}
        assert asked.post("/v1/detect/batch", batch, **headers)[0] == 200
        now = 10.0
        answer = asked.http.post("/v1/detect", json=one, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate")
        assert answer.headers["retry-after"] == "1"
        assert asked.post("/v1/detect/batch", batch, **headers)[0] == 429
        now = 10.3
        assert asked.post("/v1/detect", one, **headers)[0] == 200


def test_work_is_bounded(ready: Ready) -> None:
    body = {"spec": "demo", "text": "w1"}
    with asking(ready.library, limits=Limits(waiting=0)) as asked:
        assert asked.post("/v1/detect", body)[0] == 503
        assert asked.http.get("/readyz").status_code == 503
    with asking(ready.library, limits=Limits(seconds=0.05)) as asked:
        assert asked.service.detecting.busy == 0
        answer = asked.http.portal.call(_slow, asked)  # type: ignore[union-attr]
        assert answer == (503, "this takes more than 0.05 seconds.")
        time.sleep(0.5)
        assert asked.service.detecting.busy == 0


async def _slow(asked: Asked) -> tuple[int, str]:
    with pytest.raises(Refusal) as refused:
        await asked.service.detecting.run(lambda: time.sleep(0.3))
    return refused.value.status_code, refused.value.detail


def test_the_end_does_not_wait_for_work_that_takes_too_long() -> None:
    async def begin_and_leave() -> float:
        workers, release = Workers(1, Limits(seconds=0.01)), threading.Event()
        with pytest.raises(Refusal):
            await workers.run(lambda: release.wait(20))
        with pytest.raises(Refusal):  # waits in vain, and is then never begun
            await workers.run(lambda: done.append("too late"))
        start = time.monotonic()
        workers.close()
        took = time.monotonic() - start
        left.append(release)
        return took

    left: list[threading.Event] = []
    done: list[str] = []
    before = set(threading.enumerate())
    assert asyncio.run(begin_and_leave()) < 5
    mine = set(threading.enumerate()) - before
    assert mine
    assert all(thread.daemon for thread in mine)  # else Python would wait for them at its end
    left[0].set()  # its result comes when the loop is closed, and disturbs nobody
    for thread in mine:
        thread.join(10)
        assert not thread.is_alive()
    assert done == []
