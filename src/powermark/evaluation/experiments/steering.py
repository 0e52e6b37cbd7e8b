"""Does steering save what it promises? Constant and steered plans on fresh texts of one model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from powermark.calibration.plan import Plan, plan
from powermark.calibration.profile import Profile
from powermark.errors import Infeasible
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.experiments.promises import (
    BATCH,
    CORPUS,
    PROFILED,
    efficiency_measured,
    measured,
)
from powermark.evaluation.promise import enough
from powermark.evaluation.writing import Sampling

POWER, EDIT_RATE = 0.95, 0.1
GAMMAS = (0.25, 0.5, 0.8, 0.9418, None)  # None for the best
CELLS = (  # temperature, n_tokens, alpha; gamma and edit rate of each pair of plans
    (1.0, 50, 0.05, (*((gamma, None) for gamma in GAMMAS), (None, EDIT_RATE))),
    (0.7, 50, 0.05, (*((gamma, None) for gamma in GAMMAS), (None, EDIT_RATE))),
    (1.0, 200, 0.001, ((0.5, None), (None, None))),
)


def steering_table(lab: Lab, *, texts: int = 200) -> list[dict[str, Any]]:
    """Return a row for each temperature, length, gamma, amount of editing and kind of bias.

    Detection is not told the prompt. Efficiency is the information limit at the TPR measured and
    the size that the test has, over the KL measured.
    """
    return list(_rows(lab, texts))


def _rows(lab: Lab, texts: int) -> Iterator[dict[str, Any]]:
    fresh = lab.prompts(CORPUS, PROFILED, texts)
    for temperature, n, alpha, pairs in CELLS:
        recorded = Sampling(n_tokens=n, temperature=temperature)
        profile = lab.profile(lab.prompts(CORPUS, 0, PROFILED), recorded)
        sampling = Sampling(n_tokens=enough(n), temperature=temperature)
        unmarked = lab.texts(fresh, sampling, batch=BATCH)
        for (gamma, rate), steered in product(pairs, (False, True)):
            design = _planned(profile, n, alpha, gamma, rate, steered)
            if design is None:
                continue
            marked = lab.texts(
                fresh,
                sampling,
                gamma=design.gamma,
                deltas=None if steered else design.delta,
                steering=design.steering,
                batch=BATCH,
            )
            row: dict[str, Any] = {"temperature": temperature}
            row |= {"bias": "steered" if steered else "constant"}
            row |= measured(lab, design, marked, unmarked, told_prompts=False)
            yield row | efficiency_measured(row)


def _planned(
    profile: Profile, n: int, alpha: float, gamma: float | None, rate: float | None, steered: bool
) -> Plan | None:
    try:
        return plan(
            n_tokens=n,
            alpha=alpha,
            power=POWER,
            signal=profile,
            gamma=gamma,
            edit_rate=rate,
            steer=steered,
        )
    except Infeasible:
        return None
