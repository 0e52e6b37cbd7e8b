"""Does steering save what it promises? Constant and steered plans on fresh texts of one model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from powermark.calibration.plan import Plan, plan
from powermark.calibration.profile import Profile
from powermark.errors import Infeasible
from powermark.evaluation.attacks import substitute
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.experiments.promises import BATCH, CORPUS, PROFILED, enough, spread
from powermark.evaluation.measure import detected, green_counts, kl_until
from powermark.evaluation.writing import Record, Sampling
from powermark.theory.bounds import efficiency

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
                        yield about | _measured(lab, design, marked, unmarked)


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


def _measured(
    lab: Lab, design: Plan, marked: list[Record], unmarked: list[Record]
) -> dict[str, Any]:
    """Return what a plan promises and what its texts show."""
    n, k, scheme = design.n_tokens, design.critical_count, lab.scheme(design.gamma)
    ids = [record["token_ids"] for record in marked]
    if design.edit_rate is not None:
        ids = [text.tolist() for text in substitute(ids, design.edit_rate, seed=lab.seed)]
    row: dict[str, Any] = {
        "n_tokens": n,
        "alpha": design.alpha,
        "edit_rate": design.edit_rate,
        "gamma": design.gamma,
        "delta": design.delta,
        "size": design.size,
        "power": design.power if design.attacked_power is None else design.attacked_power,
        "kl": design.kl,
    }
    plain = [record["token_ids"] for record in unmarked]
    row |= spread("tpr", detected(green_counts(scheme, ids, n), k))
    row |= spread("fpr", detected(green_counts(scheme, plain, n), k))
    row |= spread("kl_measured", kl_until(scheme, marked, n))
    limit = efficiency(n, max(design.alpha, design.size), row["tpr"], row["kl_measured"])
    return row | {"efficiency_measured": float(limit)}
