"""A search over critical counts that are costly to evaluate."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np


def downhill(
    cost: Callable[[int], float],
    starts: Iterable[int],
    low: int,
    high: int,
    step: int,
    spare: Iterable[int] = (),
) -> int:
    """Return the count in [low, high] with the least cost: the best start, then downhill from it.

    The step is halved where neither neighbour is better. No count is evaluated twice. ``spare``
    are further starts, for the case that none of the first has a finite cost.
    """
    tried: dict[int, float] = {}

    def look_at(several: Iterable[int]) -> int:
        """Evaluate counts that were not yet, in order, and return the best of all."""
        for k in sorted({min(max(k, low), high) for k in several} - tried.keys()):
            tried[k] = cost(k)
        return min(tried, key=tried.__getitem__)

    best = look_at(starts)
    if not np.isfinite(tried[best]):
        best = look_at(spare)
    while True:
        before, best = best, look_at([best - step, best + step])
        if best == before:
            if step == 1:
                return best
            step //= 2
