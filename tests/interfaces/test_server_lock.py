"""No text makes detection hold the interpreter's lock for more than a tenth of a second."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import pytest

from powermark.errors import PowermarkError
from powermark.interfaces.server import schemas
from powermark.interfaces.server.access import LOCAL
from powermark.interfaces.server.refusals import Refusal
from powermark.interfaces.server.service import new_service
from tests.interfaces.server import Ready

MIB = 1 << 20
MOST = 0.1  # seconds
TEXTS = {
    "marks": "\u0301\u0316" * (MIB // 4),
    "sorted marks": "a" + "\u0301" * (MIB // 4) + "\u0316" * (MIB // 4),
    "ligatures": "\ufdfa" * (MIB // 3),
    "one word of two scripts": "a\u0430" * (MIB // 3),
    "one word of many letters": "a" + "".join(map(chr, range(0x400, 0x500))) * (MIB // 513),
    "one word of digits and a letter": "\u0430" + "a1" * (MIB // 2 - 1),
    "no blanks": "w1" * (MIB // 2),
    "only blanks": " " * MIB,
    "invisible": "\u200b" * (MIB // 3),
    "words": "w1 " * 90_000,
}


def longest_hold(work: Callable[[], object]) -> float:
    """Return the most CPU seconds that work takes between two ticks of another thread.

    They are those of the working thread, so they do not grow while a busy machine runs others.
    """
    clocks, spent = list[int](), list[float]()
    begun, done, over = threading.Event(), threading.Event(), threading.Event()

    def run() -> None:
        clocks.append(time.pthread_getcpuclockid(threading.get_ident()))
        begun.set()
        try:
            work()
        finally:
            spent.append(time.thread_time())
            done.set()
            over.wait()  # the clock ends with its thread

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    ticks = [0.0]
    while not done.is_set():
        ticks.append(time.clock_gettime(clocks[0]))
        time.sleep(0.001)
    over.set()
    thread.join()
    return max(after - before for before, after in pairwise([*ticks, *spent]))


def test_the_measure_sees_a_held_lock() -> None:
    assert longest_hold(lambda: sum(range(10_000_000))) > 0.04
    assert longest_hold(lambda: time.sleep(0.2)) < 0.04


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("normalise", [False, True])
def test_a_mebibyte_leaves_the_lock_to_others(ready: Ready, text: str, normalise: bool) -> None:
    service = new_service(ready.library, threads=1)
    body = json.dumps({"spec": "demo", "text": text, "normalise": normalise}, ensure_ascii=False)
    assert len(body.encode()) < MIB + 100

    def detect() -> None:
        request = schemas.DetectRequest(**json.loads(body.encode()))
        with suppress(Refusal, PowermarkError):
            service.detect(request, LOCAL)

    # a lock that is held is held each time; what others do to the machine is not
    holds = [longest_hold(detect)]
    while len(holds) < 3 and min(holds) > MOST:
        holds.append(longest_hold(detect))
    assert min(holds) <= MOST, holds
