"""The same scan on a Ray cluster: each worker takes portions of the files and writes its own rows.

Portions, partitions and rows are those of the local engine. Where a worker is lost Ray gives its
portion to another, which finds the partitions that are done and goes on with the rest. Input and
output must be in places that every worker sees, and so must the key files: no key is sent.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from powermark.corpus.local import parts, write
from powermark.corpus.output import Output
from powermark.corpus.recipe import Recipe
from powermark.corpus.sources import Source
from powermark.integrations.cluster import cluster, need

Portions = Sequence[Sequence[Source]]


class PortionScanner:
    """A worker: made once in its process, then called with one portion after the other."""

    def __init__(self, portions: Portions, recipe: Recipe, output: Output) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # Ray counts on one core a worker
        self._portions, self._recipe, self._output = portions, recipe, output
        self._scanner = recipe.scanner()

    def __call__(self, row: dict[str, int]) -> dict[str, int]:
        """Scan what is not done of a portion; the answer only says which it was."""
        number, done = row["number"], self._output.finished()
        scanned = (
            (part, self._scanner.scan(batch))
            for part, batch in parts(number, self._portions[number], self._recipe.wanted)
            if part not in done
        )
        write(scanned, self._output, lambda _: None)
        return row


def scan_ray(
    portions: Portions, recipe: Recipe, output: Output, *, workers: int | None, address: str | None
) -> None:
    """Spread the portions over the workers of a cluster, by default one of this machine's cores."""
    data = need("ray.data")
    with cluster(workers, address) as cores:
        numbers = [{"number": number} for number in range(len(portions))]
        work = data.from_items(numbers, override_num_blocks=len(numbers)).map(
            PortionScanner,
            fn_constructor_args=(portions, recipe, output),
            concurrency=min(cores, len(portions)),
            num_cpus=1,
        )
        work.materialize()
