"""Does steering save what it promises? Constant and steered plans on fresh texts of one model."""

from __future__ import annotations

from collections.abc import Iterator
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
TEMPERATURES = (1.0, 0.7)
CELLS = (  # n_tokens, alpha, gammas; None for the best
    (50, 0.05, (0.25, 0.5, 0.8, 0.9418, None)),
    (200, 0.001, (0.5, None)),
)


def steering_table(lab: Lab, *, texts: int = 200) -> list[dict[str, Any]]:
    """Return a row for each temperature, length, gamma, amount of editing and kind of bias.

    Detection is not told the prompt. Efficiency is the information limit at the TPR measured and
    the size that the test has, over the KL measured.
    """
    return list(_rows(lab, texts))


def _rows(lab: Lab, texts: int) -> Iterator[dict[str, Any]]:
    fresh = lab.prompts(CORPUS, PROFILED, texts)
    for temperature in TEMPERATURES:
        for n, alpha, gammas in CELLS:
            recorded = Sampling(n_tokens=n, temperature=temperature)
            profile = lab.profile(lab.prompts(CORPUS, 0, PROFILED), recorded)
            sampling = Sampling(n_tokens=enough(n), temperature=temperature)
            unmarked = lab.texts(fresh, sampling, batch=BATCH)
            edits = (None, EDIT_RATE) if n == CELLS[0][0] else (None,)
            for rate in edits:
                for gamma in gammas if rate is None else (None,):
                    for steered in (False, True):
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
                        about = {
                            "temperature": temperature,
                            "bias": "steered" if steered else "constant",
                        }
                        row = about | measured(lab, design, marked, unmarked, told_prompts=False)
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
