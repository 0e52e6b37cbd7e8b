"""Whether steering saves the promised KL, and how steered texts of other lengths fare.

A schedule aims at n tokens; its power at another length has to be measured. The report states the
power of an intact text with as many counted tokens; it cannot know of an inserted paragraph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate, product
from math import inf

import numpy as np

from powermark.detection.detector import Detection, Detector
from powermark.errors import Infeasible
from powermark.generation.writing import Sampling
from powermark.measuring.estimates import share
from powermark.measuring.promise import enough
from powermark.paper.experiments_plans import (
    AUTHORS_POINT,
    BATCH,
    CORPUS,
    EDIT_RATE,
    LENGTHS,
    LEVELS,
    POWER,
    PROFILED,
    Sample,
    efficiency_measured,
    marked_by,
    measured,
)
from powermark.paper.results import Row
from powermark.paper.workspace import Workspace
from powermark.planning.design import Design, evaluate
from powermark.planning.plan import Plan, plan
from powermark.planning.request import Steering
from powermark.signals.signal import SignalModel
from powermark.watermark.keys import SecretKey

BIASES = (("constant", POWER), ("steered", POWER), ("steered", 0.97))  # and the power planned for
GAMMAS = (0.25, 0.5, 0.8, 0.9418, None)  # None for the best
_BOTH = (*((gamma, None) for gamma in GAMMAS), (None, EDIT_RATE))
CELLS = (  # temperature, n_tokens, alpha; texts under each key; gamma and edit rate of the plans
    (1.0, 50, 0.05, (200, 176), _BOTH),
    (0.7, 50, 0.05, (200, 100), _BOTH),
    (1.0, 200, 0.001, (100, 100), ((0.5, None), (None, None))),
)
N_TOKENS, ALPHA, GAMMA = 50, 0.05, 0.5  # of the texts that are cut, go on or are interrupted


def steering_table(workspace: Workspace) -> Iterator[Row]:
    """Yield a row for each temperature, length, gamma, amount of editing and kind of bias.

    One key colours common words alike in all texts, and for all gammas, whose green lists contain
    one another: so there are two keys, with other prompts under the second. The detector does not
    get the prompt. Some steered plans have a little more power than the constant ones, so that
    both can be compared at the same measured TPR. Efficiency is the information limit at the
    TPR measured and the size that the test has, over the KL measured.
    """
    workspaces = two_keys(workspace)
    for temperature, n, alpha, sizes, pairs in CELLS:
        recorded = Sampling(n_tokens=n, temperature=temperature)
        profile = workspace.profile(workspace.prompts(CORPUS, 0, PROFILED), recorded)
        sampling = Sampling(n_tokens=enough(n), temperature=temperature)
        firsts = accumulate(sizes[:-1], initial=PROFILED)
        fresh = [workspace.prompts(CORPUS, *span) for span in zip(firsts, sizes, strict=True)]
        for bias, design in _designs(profile, n, alpha, pairs):
            samples = [
                Sample(
                    mine,
                    marked_by(design, mine, prompts, sampling),
                    workspace.texts(prompts, sampling, batch=BATCH),
                )
                for mine, prompts in zip(workspaces, fresh, strict=True)
            ]
            row: Row = {"temperature": temperature, "bias": bias}
            row |= measured(design, samples, with_prompts=False)
            yield row | efficiency_measured(row)


def two_keys(workspace: Workspace) -> tuple[Workspace, Workspace]:
    """Return the workspace, and the same with another key."""
    second = blake2b(workspace.key.fingerprint.encode(), digest_size=32).digest()
    return workspace, replace(workspace, key=SecretKey(second))


def _designs(
    signal: SignalModel, n: int, alpha: float, pairs: Iterable[tuple[float | None, float | None]]
) -> Iterator[tuple[str, Design]]:
    """Yield the feasible plans, and the authors' point at its own length and level."""
    for (gamma, rate), (bias, power) in product(pairs, BIASES):
        with suppress(Infeasible):
            yield (
                bias,
                plan(
                    n_tokens=n,
                    alpha=alpha,
                    power=power,
                    signal=signal,
                    gamma=gamma,
                    edit_rate=rate,
                    steer=Steering(kl_cap=inf) if bias == "steered" else False,
                ),
            )
    if (n, alpha) == (LENGTHS[0], LEVELS[0]):
        point = evaluate(*AUTHORS_POINT, n_tokens=n, alpha=alpha, signal=signal, test="z")
        yield "authors' point", point


def lengths_table(workspace: Workspace, *, texts: int = 100) -> Iterator[Row]:
    """Yield a row for each schedule and change to its texts, ``texts`` under each of two keys.

    ``power`` is the mean of the reported powers, ``tpr`` the share detected. One schedule is for
    its end alone, the other has a checkpoint at half of it.
    """
    profile = workspace.profile(workspace.prompts(CORPUS, 0, PROFILED), Sampling(n_tokens=N_TOKENS))
    for checkpoints in ((), (N_TOKENS // 2,)):
        design = plan(
            n_tokens=N_TOKENS,
            alpha=ALPHA,
            power=POWER,
            gamma=GAMMA,
            signal=profile,
            steer=Steering(checkpoints=checkpoints, kl_cap=inf),
        )
        found: dict[str, list[Detection]] = {}
        for which, mine in enumerate(two_keys(workspace)):
            prompts = workspace.prompts(CORPUS, PROFILED + which * texts, texts)
            for name, reports in _reports(mine, design, prompts).items():
                found.setdefault(name, []).extend(reports)
        for name, reports in found.items():
            seen = share([row.verdict == "watermarked" for row in reports])
            yield {
                "checkpoint": checkpoints[0] if checkpoints else None,
                "text": name,
                "texts": seen.texts,
                "counted": float(np.mean([row.scored for row in reports])),
                "power": float(np.mean([row.power for row in reports])),
                "tpr": seen.value,
                "tpr_low": seen.low,
                "tpr_high": seen.high,
            }


def _reports(workspace: Workspace, design: Plan, prompts: list[str]) -> dict[str, list[Detection]]:
    """Return the detector's reports on steered texts, by what was done to them."""
    sampling = Sampling(n_tokens=enough(2 * N_TOKENS))
    plain = workspace.texts(prompts, sampling, batch=BATCH)
    written = workspace.texts(prompts, sampling, gamma=GAMMA, steering=design.steering, batch=BATCH)
    foreign, marked = ([row["token_ids"] for row in rows] for rows in (plain, written))
    spec = replace(workspace.spec(GAMMA, design.delta), steering=design.steering)
    detector = Detector(spec, workspace.key, tokenizer=workspace.model.tokenizer, alpha=ALPHA)
    half, width = N_TOKENS // 2, spec.context_width  # the first tokens do not count
    changed = {
        "cut to half": [ids[: half + width] for ids in marked],
        "as planned": [ids[: N_TOKENS + width] for ids in marked],
        "twice as long": [ids[: 2 * N_TOKENS + width] for ids in marked],
        "a paragraph of half its length put in": [
            [*ids[:half], *other[:half], *ids[half : N_TOKENS + width]]
            for ids, other in zip(marked, foreign, strict=True)
        ],
    }
    return {name: detector.detect_many(texts) for name, texts in changed.items()}
