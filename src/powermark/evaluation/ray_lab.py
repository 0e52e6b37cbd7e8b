"""Batches of an experiment on a Ray cluster: every worker has the model, and writes what comes up.

A batch's random numbers follow from its place in the run, so it does not matter who writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from powermark.evaluation.experiments.lab import Lab, Spread
from powermark.integrations.cluster import cluster, need


class Writer:
    """A worker with a lab of its own."""

    def __init__(self, make_lab: Callable[[], Lab]) -> None:
        self._lab = make_lab()

    def write(self, work: Callable[..., Any], batch: tuple[Any, ...]) -> Any:
        """Return what the work makes of a batch."""
        return work(self._lab, *batch)


def over_ray(
    make_lab: Callable[[], Lab], *, workers: int | None = None, address: str | None = None
) -> Spread:
    """Return what spreads batches over a cluster, by default one worker a core of this machine.

    Files must be where every worker sees them. A worker that is lost is made again, and so is the
    batch that it had.
    """
    ray = need()

    def spread(
        _: Lab, work: Callable[..., Any], batches: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        waiting = list(batches)
        if not waiting:
            return
        with cluster(workers, address) as cores:
            actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(Writer)
            actors = [actor.remote(make_lab) for _ in range(min(cores, len(waiting)))]
            pool = need("ray.util").ActorPool(actors)
            yield from pool.map(lambda one, batch: one.write.remote(work, batch), waiting)

    return spread
