"""Run a grid of marks: the texts of every cell, in full batches, to one file that survives a kill.

A batch takes rows from as many cells as fit in, so that cells of a few texts cost no more than
their tokens. The list of all rows follows from the cells, and a batch's random numbers from its
place in that list: a run that was stopped, however often, ends with the records of one that never
was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from powermark.detection.kernels import SCORED
from powermark.detection.scoring import score
from powermark.evaluation.records import Records
from powermark.evaluation.writing import Record, Sampling, digest_of_prompts, write_batch
from powermark.signature import signature

if TYPE_CHECKING:
    from powermark.evaluation.experiments.lab import Lab
    from powermark.integrations.row_groups import RowMark

Rule = Literal["constant", "steered", "dual ascent", "threshold"]
GREEN, RED, UNSCORED = "G", "r", "."  # a token's state in a record


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One way of marking, on one corpus.

    ``gamma`` is None for unmarked text. ``delta`` is the constant bias, or where the dual ascent
    begins; ``target`` is the dual ascent's gain or the threshold's beta; ``steering`` a schedule.
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
        """16 hexadecimal digits that tell cells apart, whatever their number of texts."""
        parts = json.dumps(asdict(replace(self, texts=0)), sort_keys=True)
        return blake2b(parts.encode(), digest_size=8).hexdigest()


def run(
    lab: Lab, cells: Sequence[Cell], sampling: Sampling, *, batch: int, first_prompt: int = 0
) -> list[Record]:
    """Return the records of all cells, writing what is not there yet.

    Every cell begins with the same prompt of its corpus, number ``first_prompt``.

    A record has its cell's ``cell`` name and ``number`` of the prompt, ids and text, KL and green
    rate of every step (``kl_plain`` at temperature 1), and the ``colours`` of its tokens.
    """
    jobs = [(cell, number) for cell in cells for number in range(cell.texts)]
    most = {c.corpus: max(d.texts for d in cells if d.corpus == c.corpus) for c in cells}
    prompts = {corpus: lab.openings(corpus, count, first_prompt) for corpus, count in most.items()}
    described = [[cell.name, cell.texts] for cell in cells]
    parts: dict[str, Any] = {"model": lab.model.digest, **asdict(sampling)}
    line = signature(
        "run",
        **parts,
        cells=blake2b(json.dumps(described).encode(), digest_size=8).hexdigest(),
        key=lab.key.fingerprint,
        seed=lab.seed,
        batch=batch,
        prompts=digest_of_prompts([p for corpus in sorted(prompts) for p in prompts[corpus]]),
    )
    with Records(lab.path(line, "jsonl"), line, batch, len(jobs)) as records:
        begun, before = time.monotonic(), records.done
        batches = (
            (part, [prompts[cell.corpus][number] for cell, number in part], sampling, first)
            for first in range(records.done, len(jobs), batch)
            for part in [jobs[first : first + batch]]
        )
        for rows in lab.spread(lab, _write, batches):
            records.append([{**row, "signature": line} for row in rows])
            done = rows[-1]["index"] + 1
            rate = (time.monotonic() - begun) / (done - before)
            left = rate * (len(jobs) - done) / 60
            lab.say(f"{done} of {len(jobs)} texts, about {left:.0f} min left")
        return records.rows()


def _write(
    lab: Lab, jobs: list[tuple[Cell, int]], prompts: list[str], sampling: Sampling, first: int
) -> list[Record]:
    """Return the records of one batch."""
    from powermark.integrations.row_groups import RowGroups

    groups = [(cell, len(list(rows))) for cell, rows in groupby(jobs, key=lambda job: job[0])]
    config = RowGroups(
        [(size, _mark(lab, cell, sampling)) for cell, size in groups],
        temperature=sampling.temperature,
    )
    rows = write_batch(
        lab.model, prompts, sampling, seed=lab.seed, first=first, config=config, on_step=lab.on_step
    )
    texts = [record["token_ids"] for record in rows]
    colours: list[str] = []
    for cell, size in groups:
        colours += _colours(lab, cell.gamma, texts[len(colours) :][:size])
    for row, ((cell, number), record) in enumerate(zip(jobs, rows, strict=True)):
        steps = len(record["token_ids"])
        if sampling.temperature != 1.0:
            record["kl_plain"] = config.plain.kl[:steps, row].tolist()
        record |= {"corpus": cell.corpus, "method": cell.method, "cell": cell.name}
        record |= {"number": number, "colours": colours[row]}
    return rows


def with_colours(lab: Lab, records: Sequence[Record], gamma: float) -> list[Record]:
    """Return records with the colours that their tokens have under another green share."""
    colours = _colours(lab, gamma, [record["token_ids"] for record in records])
    return [{**record, "colours": row} for record, row in zip(records, colours, strict=True)]


def _mark(lab: Lab, cell: Cell, sampling: Sampling) -> RowMark | None:
    """Return what marks a cell's rows."""
    from powermark.evaluation.baselines import DualAscent, Threshold
    from powermark.integrations.transformers import WatermarkProcessor

    if cell.gamma is None:
        return None
    spec, scheme = lab.spec(cell.gamma, cell.delta), lab.scheme(cell.gamma)
    chooses: DualAscent | Threshold | None = None
    if cell.rule == "dual ascent":
        chooses = DualAscent(scheme, cell.target, cell.delta)
    elif cell.rule == "threshold":
        chooses = Threshold(scheme, cell.target)
    return WatermarkProcessor(
        replace(spec, steering=cell.steering),
        lab.key,
        lab.model.tokenizer,
        place="after_temperature",
        temperature=sampling.temperature,
        deltas=chooses,
    )


def _colours(lab: Lab, gamma: float | None, texts: Sequence[list[int]]) -> list[str]:
    """Return a letter for each token: GREEN or RED where it counts, UNSCORED where not."""
    if gamma is None:
        return [UNSCORED * len(ids) for ids in texts]
    scores = score(lab.scheme(gamma), texts)
    letters = np.where(scores.green, GREEN, RED)
    letters[scores.state != SCORED] = UNSCORED
    ends = zip(scores.offsets[:-1], scores.offsets[1:], strict=True)
    return ["".join(letters[first:last]) for first, last in ends]
