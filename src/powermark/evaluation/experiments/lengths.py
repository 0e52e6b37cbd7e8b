"""A steered text that is cut, goes on, or has a paragraph put in: what is reported, and what is.

The schedule aims at n tokens, so its power at any other length is its own matter. The report states
the power of an untouched text with as many counted tokens; it cannot know of a foreign paragraph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from powermark.calibration.plan import plan
from powermark.detection.detection import Detector
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.experiments.promises import BATCH, CORPUS, PROFILED
from powermark.evaluation.experiments.steering import POWER
from powermark.evaluation.measure import share
from powermark.evaluation.promise import enough
from powermark.evaluation.writing import Sampling

N_TOKENS, ALPHA, GAMMA = 50, 0.05, 0.5


def lengths_table(lab: Lab, *, texts: int = 200) -> list[dict[str, Any]]:
    """Return a row for each schedule and thing done to its texts.

    ``power`` is the mean of what the reports say, ``tpr`` the share that was found. One schedule
    knows only its end, the other is to be found at half of it too.
    """
    return list(_rows(lab, texts))


def _rows(lab: Lab, texts: int) -> Iterator[dict[str, Any]]:
    fresh = lab.prompts(CORPUS, PROFILED, texts)
    profile = lab.profile(lab.prompts(CORPUS, 0, PROFILED), Sampling(n_tokens=N_TOKENS))
    sampling = Sampling(n_tokens=enough(2 * N_TOKENS))
    foreign = [row["token_ids"] for row in lab.texts(fresh, sampling, batch=BATCH)]
    half = N_TOKENS // 2
    for checkpoints in ((), (half,)):
        design = plan(
            n_tokens=N_TOKENS,
            alpha=ALPHA,
            power=POWER,
            gamma=GAMMA,
            signal=profile,
            steer=True,
            checkpoints=checkpoints,
        )
        records = lab.texts(fresh, sampling, gamma=GAMMA, steering=design.steering, batch=BATCH)
        marked = [row["token_ids"] for row in records]
        width = lab.scheme(GAMMA).context_width  # the first tokens do not count
        spec = replace(lab.spec(GAMMA, design.delta), steering=design.steering)
        detector = Detector(spec, lab.key, alpha=ALPHA)
        for name, changed in {
            "cut to half": [ids[: half + width] for ids in marked],
            "as planned": [ids[: N_TOKENS + width] for ids in marked],
            "twice as long": [ids[: 2 * N_TOKENS + width] for ids in marked],
            "a paragraph of half its length put in": [
                [*ids[:half], *other[:half], *ids[half : N_TOKENS + width]]
                for ids, other in zip(marked, foreign, strict=True)
            ],
        }.items():
            found = detector.detect_many(changed)
            seen = share([row.verdict == "watermarked" for row in found])
            yield {
                "checkpoint": checkpoints[0] if checkpoints else None,
                "text": name,
                "texts": seen.texts,
                "counted": float(np.mean([row.scored for row in found])),
                "power": float(np.mean([row.power for row in found])),
                "tpr": seen.value,
                "tpr_low": seen.low,
                "tpr_high": seen.high,
            }
