"""Run a grid of marks: write the texts of every cell, in full batches, to one resumable file.

A batch takes rows from as many cells as fit, so that cells of a few texts cost no more than their
tokens. The cells determine the list of all rows, and a batch's place in that list determines its
random numbers: an interrupted run ends with the same records, whichever process wrote a batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from powermark.cluster import cluster, need
from powermark.counting import SCORED
from powermark.detection.scoring import score
from powermark.generation.records import Records
from powermark.generation.writing import Record, Sampling, digest_of_prompts, write_batch
from powermark.paper.workspace import Spread, Work, Workspace
from powermark.signature import signature

if TYPE_CHECKING:
    from powermark.engines.row_groups import RowMark


Rule = Literal["constant", "steered", "dual ascent", "threshold"]
GREEN, RED, UNSCORED = "G", "r", "."  # a token's state in a record


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One way of marking, on one corpus.

    ``gamma`` is None for unmarked text. ``delta`` is the constant bias, or the first one of the
    dual ascent; ``target`` is the dual ascent's gain or the threshold's beta; ``steering`` a
    schedule.
    """

    corpus: str
    method: str
    texts: int
    gamma: float | None = None
    delta: float = 0.0
    rule: Rule = "constant"
    target: float = 0.0
    steering: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """16 hexadecimal digits that identify a cell, whatever its number of texts."""
        parts = json.dumps(asdict(replace(self, texts=0)), sort_keys=True)
        return blake2b(parts.encode(), digest_size=8).hexdigest()


def run(
    workspace: Workspace,
    cells: Sequence[Cell],
    sampling: Sampling,
    *,
    batch: int,
    first_prompt: int = 0,
) -> list[Record]:
    """Return the records of all cells, and write those that are missing.

    Every cell starts with the same prompt of its corpus, number ``first_prompt``.

    A record has its cell's ``cell`` name and ``number`` of the prompt, ids and text, KL and green
    rate of every step (``kl_plain`` at temperature 1), and the ``colours`` of its tokens.
    """
    jobs = [(cell, number) for cell in cells for number in range(cell.texts)]
    most = {c.corpus: max(d.texts for d in cells if d.corpus == c.corpus) for c in cells}
    prompts = {
        corpus: workspace.openings(corpus, count, first_prompt) for corpus, count in most.items()
    }
    described = [[cell.name, cell.texts] for cell in cells]
    parts: dict[str, Any] = {"model": workspace.model.digest, **sampling.to_dict()}
    line = signature(
        "run",
        **parts,
        cells=blake2b(json.dumps(described).encode(), digest_size=8).hexdigest(),
        key=workspace.key.fingerprint,
        seed=workspace.seed,
        batch=batch,
        prompts=digest_of_prompts([p for corpus in sorted(prompts) for p in prompts[corpus]]),
    )
    with Records(workspace.path(line, "jsonl"), line, batch, len(jobs)) as records:
        begun, before = time.monotonic(), records.done
        batches = (
            (part, [prompts[cell.corpus][number] for cell, number in part], sampling, first)
            for first in range(records.done, len(jobs), batch)
            for part in [jobs[first : first + batch]]
        )
        for rows in workspace.spread(workspace, _write, batches):
            records.append([{**row, "signature": line} for row in rows])
            done = rows[-1]["index"] + 1
            rate = (time.monotonic() - begun) / (done - before)
            left = rate * (len(jobs) - done) / 60
            workspace.say(f"{done} of {len(jobs)} texts, about {left:.0f} min left")
        return records.rows()


def _write(
    workspace: Workspace,
    jobs: list[tuple[Cell, int]],
    prompts: list[str],
    sampling: Sampling,
    first: int,
) -> list[Record]:
    """Return the records of one batch."""
    from powermark.engines.row_groups import RowGroups

    groups = [(cell, len(list(rows))) for cell, rows in groupby(jobs, key=lambda job: job[0])]
    config = RowGroups(
        [(size, _mark(workspace, cell, sampling)) for cell, size in groups],
        temperature=sampling.temperature,
    )
    rows = write_batch(
        workspace.model,
        prompts,
        sampling,
        seed=workspace.seed,
        first=first,
        config=config,
        on_step=workspace.on_step,
    )
    texts = [record["token_ids"] for record in rows]
    colours: list[str] = []
    for cell, size in groups:
        colours += _colours(workspace, cell.gamma, texts[len(colours) :][:size])
    for row, ((cell, number), record) in enumerate(zip(jobs, rows, strict=True)):
        steps = len(record["token_ids"])
        if sampling.temperature != 1.0:
            record["kl_plain"] = config.plain.kl[:steps, row].tolist()
        record |= {"corpus": cell.corpus, "method": cell.method, "cell": cell.name}
        record |= {"number": number, "colours": colours[row]}
    return rows


def with_colours(workspace: Workspace, records: Sequence[Record], gamma: float) -> list[Record]:
    """Return records with the colours of their tokens under another green share."""
    colours = _colours(workspace, gamma, [record["token_ids"] for record in records])
    return [{**record, "colours": row} for record, row in zip(records, colours, strict=True)]


def _mark(workspace: Workspace, cell: Cell, sampling: Sampling) -> RowMark | None:
    """Return the logits processor of a cell; None for unmarked text."""
    from powermark.engines.transformers import WatermarkProcessor
    from powermark.paper.baselines import DualAscent, Threshold

    if cell.gamma is None:
        return None
    spec, scheme = workspace.spec(cell.gamma, cell.delta), workspace.scheme(cell.gamma)
    chooses: DualAscent | Threshold | None = None
    if cell.rule == "dual ascent":
        chooses = DualAscent(scheme, cell.target, cell.delta)
    elif cell.rule == "threshold":
        chooses = Threshold(scheme, cell.target)
    return WatermarkProcessor(
        replace(spec, steering=cell.steering),
        workspace.key,
        workspace.model.tokenizer,
        place="after_temperature",
        temperature=sampling.temperature,
        deltas=chooses,
    )


def _colours(workspace: Workspace, gamma: float | None, texts: Sequence[list[int]]) -> list[str]:
    """Return a letter for each token: GREEN or RED if it counts, else UNSCORED."""
    if gamma is None:
        return [UNSCORED * len(ids) for ids in texts]
    scores = score(workspace.scheme(gamma), texts)
    letters = np.where(scores.green, GREEN, RED)
    letters[scores.state != SCORED] = UNSCORED
    ends = zip(scores.offsets[:-1], scores.offsets[1:], strict=True)
    return ["".join(letters[first:last]) for first, last in ends]


class _Worker:
    """A Ray actor with its own workspace, and so its own copy of the model."""

    def __init__(self, make_workspace: Callable[[], Workspace]) -> None:
        self._workspace = make_workspace()

    def run(self, work: Work, batch: tuple[Any, ...]) -> Any:
        """Run one batch."""
        return work(self._workspace, *batch)


def over_ray(
    make_workspace: Callable[[], Workspace],
    *,
    workers: int | None = None,
    address: str | None = None,
) -> Spread:
    """Return a ``Spread`` over a Ray cluster, by default one worker per core of this machine.

    Every worker must see the files. A lost worker is restarted, and its batch repeated.
    """
    ray = need()

    def spread(_: Workspace, work: Work, batches: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        waiting = list(batches)
        if not waiting:
            return
        with cluster(workers, address) as cores:
            actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(_Worker)
            actors = [actor.remote(make_workspace) for _ in range(min(cores, len(waiting)))]
            pool = need("ray.util").ActorPool(actors)
            yield from pool.map(lambda one, batch: one.run.remote(work, batch), waiting)

    return spread
