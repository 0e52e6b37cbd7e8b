"""Spread the rows of a batch over threads, where there is enough of it to be worth a wake-up."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from numba import config

THREADS = int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]  # cores, or as the user set

# Elements below which one thread is as fast. Waking another took about 60 µs, one core does about
# 3,000 elements in 1 µs; `python -m benchmarks.embed` shows both.
WORTH_A_THREAD = 750_000

_pool: ThreadPoolExecutor | None = None


def over_rows(work: Callable[[int, int], object], rows: int, width: int) -> None:
    """Call ``work(first, last)`` so that all rows are covered, on up to NUMBA_NUM_THREADS threads.

    ``work`` must release the interpreter's lock to gain from it.
    """
    global _pool
    parts = min(THREADS, rows, rows * width // WORTH_A_THREAD)
    if parts < 2:
        work(0, rows)
        return
    if _pool is None:
        _pool = ThreadPoolExecutor(THREADS - 1, "powermark")
    ends = [rows * part // parts for part in range(parts + 1)]
    mine, *others = pairwise(ends)
    pending = [_pool.submit(work, *span) for span in others]
    work(*mine)
    for done in pending:
        done.result()


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):  # pragma: no branch  # Windows has no fork
    os.register_at_fork(after_in_child=_forget_pool)  # a fork copies the pool, not its threads
