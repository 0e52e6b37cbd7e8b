"""A steered text that is cut, goes on, or has a paragraph put in: what is reported, and what is.

The schedule aims at n tokens, so its power at any other length is its own matter. The report states
the power of an untouched text with as many counted tokens; it cannot know of a foreign paragraph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from powermark.calibration.plan import Plan, plan
from powermark.detection.detection import Detection, Detector
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.experiments.promises import BATCH, CORPUS, PROFILED
from powermark.evaluation.experiments.steering import POWER, two_keys
from powermark.evaluation.measure import share
from powermark.evaluation.promise import enough
from powermark.evaluation.writing import Sampling

N_TOKENS, ALPHA, GAMMA = 50, 0.05, 0.5


def lengths_table(lab: Lab, *, texts: int = 100) -> list[dict[str, Any]]:
    """Return a row for each schedule and thing done to its texts, so many under each of two keys.

    ``power`` is the mean of what the reports say, ``tpr`` the share that was found. One schedule
    knows only its end, the other is to be found at half of it too.
    """
    return list(_rows(lab, texts))


def _rows(lab: Lab, texts: int) -> Iterator[dict[str, Any]]:
    profile = lab.profile(lab.prompts(CORPUS, 0, PROFILED), Sampling(n_tokens=N_TOKENS))
    for checkpoints in ((), (N_TOKENS // 2,)):
        design = plan(
            n_tokens=N_TOKENS,
            alpha=ALPHA,
            power=POWER,
            gamma=GAMMA,
            signal=profile,
            steer=True,
            checkpoints=checkpoints,
        )
        found: dict[str, list[Detection]] = {}
        for which, mine in enumerate(two_keys(lab)):
            prompts = lab.prompts(CORPUS, PROFILED + which * texts, texts)
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


def _reports(lab: Lab, design: Plan, prompts: list[str]) -> dict[str, list[Detection]]:
    """Return what the detector says of a lab's texts, by what was done to them."""
    sampling = Sampling(n_tokens=enough(2 * N_TOKENS))
    plain = lab.texts(prompts, sampling, batch=BATCH)
    written = lab.texts(prompts, sampling, gamma=GAMMA, steering=design.steering, batch=BATCH)
    foreign, marked = ([row["token_ids"] for row in rows] for rows in (plain, written))
    spec = replace(lab.spec(GAMMA, design.delta), steering=design.steering)
    detector = Detector(spec, lab.key, tokenizer=lab.model.tokenizer, alpha=ALPHA)
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
