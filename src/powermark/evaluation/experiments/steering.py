"""Does steering save what it promises? Constant and steered plans on fresh texts of one model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate, product
from typing import Any

from powermark.calibration.design import Design, evaluate
from powermark.calibration.plan import plan
from powermark.calibration.signal import SignalModel
from powermark.errors import Infeasible
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.experiments.promises import (
    AUTHORS_POINT,
    BATCH,
    CORPUS,
    LENGTHS,
    LEVELS,
    PROFILED,
    Sample,
    efficiency_measured,
    marked_by,
    measured,
)
from powermark.evaluation.promise import enough
from powermark.evaluation.writing import Sampling
from powermark.watermark.keys import SecretKey

POWER, EDIT_RATE = 0.95, 0.1
BIASES = (("constant", POWER), ("steered", POWER), ("steered", 0.97))  # and the power planned for
GAMMAS = (0.25, 0.5, 0.8, 0.9418, None)  # None for the best
_BOTH = (*((gamma, None) for gamma in GAMMAS), (None, EDIT_RATE))
CELLS = (  # temperature, n_tokens, alpha; texts under each key; gamma and edit rate of the plans
    (1.0, 50, 0.05, (200, 176), _BOTH),
    (0.7, 50, 0.05, (200, 100), _BOTH),
    (1.0, 200, 0.001, (100, 100), ((0.5, None), (None, None))),
)


def steering_table(lab: Lab) -> list[dict[str, Any]]:
    """Return a row for each temperature, length, gamma, amount of editing and kind of bias.

    Under one key the colours of common words are the luck of all texts, and of all gammas, whose
    green lists contain one another: so there are two keys, and other prompts under the second.
    Detection is not told the prompt. Steered plans for a little more power than the constant ones
    are there to be compared at the TPR that is measured. Efficiency is the information limit at the
    TPR measured and the size that the test has, over the KL measured.
    """
    return list(_rows(lab))


def two_keys(lab: Lab) -> tuple[Lab, Lab]:
    """Return the lab, and the same with another key."""
    second = blake2b(lab.key.fingerprint.encode(), digest_size=32).digest()
    return lab, replace(lab, key=SecretKey(second))


def _rows(lab: Lab) -> Iterator[dict[str, Any]]:
    labs = two_keys(lab)
    for temperature, n, alpha, sizes, pairs in CELLS:
        recorded = Sampling(n_tokens=n, temperature=temperature)
        profile = lab.profile(lab.prompts(CORPUS, 0, PROFILED), recorded)
        sampling = Sampling(n_tokens=enough(n), temperature=temperature)
        firsts = accumulate(sizes[:-1], initial=PROFILED)
        fresh = [lab.prompts(CORPUS, *span) for span in zip(firsts, sizes, strict=True)]
        for bias, design in _designs(profile, n, alpha, pairs):
            samples = [
                Sample(
                    mine,
                    marked_by(design, mine, prompts, sampling),
                    lab.texts(prompts, sampling, batch=BATCH),
                )
                for mine, prompts in zip(labs, fresh, strict=True)
            ]
            row: dict[str, Any] = {"temperature": temperature, "bias": bias}
            row |= measured(design, samples, told_prompts=False)
            yield row | efficiency_measured(row)


def _designs(
    signal: SignalModel, n: int, alpha: float, pairs: Iterable[tuple[float | None, float | None]]
) -> Iterator[tuple[str, Design]]:
    """Yield the plans that there are, and the authors' point where it is theirs."""
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
                    steer=bias == "steered",
                ),
            )
    if (n, alpha) == (LENGTHS[0], LEVELS[0]):
        point = evaluate(*AUTHORS_POINT, n_tokens=n, alpha=alpha, signal=signal, test="z")
        yield "authors' point", point
