"""The cells of each run: baselines, the authors' points, and our plans for the same model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from powermark.calibration.authors import published_points
from powermark.calibration.plan import plan
from powermark.calibration.profile import Profile
from powermark.calibration.signal import PlugIn, SignalModel
from powermark.detection.window_plan import plan_for_windows
from powermark.errors import Infeasible
from powermark.evaluation.baselines import fixed_pair
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.reproduction.scales import (
    ALPHA,
    AUTHORS_TEMPERATURE,
    FITTED,
    N_TOKENS,
    TOKENS,
    Scale,
)
from powermark.evaluation.runner import Cell
from powermark.evaluation.writing import Sampling
from powermark.signature import signature

REMOVED = (0.1, 0.15, 0.2)  # shares of a text that the attack replaces
OURS = ("exact", "profile", "steered")
FOR_WINDOWS = "profile, for winmax-c"
FOR_REMOVAL = ("profile, for removal", "steered, for removal", FOR_WINDOWS)
INFLATED = (0.2, 1.0)  # gamma and delta of the paper's c-hat


def profile_of(lab: Lab, corpus: str, scale: Scale, temperature: float = 1.0) -> Profile:
    """Return the model's profile on prompts that no cell has."""
    prompts = lab.openings(corpus, scale.profiled, first=scale.profiled_from)
    return lab.profile(prompts, Sampling(n_tokens=TOKENS, temperature=temperature))


def rivals(corpus: str, scale: Scale) -> Iterator[Cell]:
    """Yield unmarked text and every method of others, at temperature 1."""
    yield Cell(corpus=corpus, method="unmarked", texts=scale.most)
    for gamma, delta in product(scale.gammas, scale.deltas):
        texts = scale.most if (gamma, delta) == INFLATED else scale.few
        yield Cell(corpus=corpus, method="grid", texts=texts, gamma=gamma, delta=delta)
    for gamma, beta in product(scale.gammas, scale.betas):
        yield Cell(
            corpus=corpus,
            method="opt",
            texts=scale.few,
            gamma=gamma,
            rule="threshold",
            target=beta,
        )
    for gain in scale.gains:
        gamma, delta = fixed_pair(gain)
        yield Cell(corpus=corpus, method="dp, fixed", texts=scale.few, gamma=gamma, delta=delta)
        yield Cell(
            corpus=corpus,
            method="dp, dual ascent",
            texts=scale.few,
            gamma=gamma,
            delta=delta,
            rule="dual ascent",
            target=gain,
        )
    for gamma, delta in published_points(N_TOKENS, ALPHA):
        yield Cell(corpus=corpus, method="authors", texts=scale.few, gamma=gamma, delta=delta)


def ours(lab: Lab, corpus: str, scale: Scale) -> Iterator[Cell]:
    """Yield our plans for the model on a corpus, at temperature 1."""
    profile = profile_of(lab, corpus, scale)
    for power, method in product(scale.powers, OURS):
        signal = PlugIn() if method == "exact" else profile
        yield from planned(lab, corpus, method, scale.many, power, signal)
    for power, method in product(scale.attacked_powers, FOR_REMOVAL):
        yield from planned(lab, corpus, method, scale.many, power, profile, removal=REMOVED[-1])


def planned(
    lab: Lab,
    corpus: str,
    method: str,
    texts: int,
    power: float,
    signal: SignalModel,
    removal: float | None = None,
) -> Iterator[Cell]:
    """Yield the cell of a plan, where there is one; plans are kept on disk."""
    line = signature("planned", signal=signal.name, method=method, p=power, removal=removal)
    found = lab.remembered(line, lambda: _plan(method, power, signal, removal))
    if found:
        yield Cell(corpus=corpus, method=method, texts=texts, target=power, **found)


def _plan(method: str, power: float, signal: SignalModel, removal: float | None) -> dict[str, Any]:
    """Return what a cell needs of a plan; nothing where no plan has such power."""
    asked: dict[str, Any] = {"n_tokens": N_TOKENS, "alpha": ALPHA, "power": power}
    asked |= {"signal": signal, "removal": removal}
    try:
        if method == FOR_WINDOWS:
            design = plan_for_windows(**asked)
            return {"gamma": design.gamma, "delta": design.delta}
        found = plan(**asked, steer=method.startswith("steered"))
    except Infeasible:
        return {}
    rule = "constant" if found.steering is None else "steered"
    return {
        "gamma": found.gamma,
        "delta": found.delta,
        "rule": rule,
        "steering": found.steering,
    }


def fitted(corpus: str, scale: Scale) -> list[Cell]:
    """Return the cells of the linear fits as the authors wrote them: cooler, delta before that."""
    return [
        Cell(
            corpus=corpus,
            method="grid",
            texts=scale.fitted,
            gamma=gamma,
            delta=delta / AUTHORS_TEMPERATURE,
        )
        for gamma, delta in product(scale.gammas, FITTED)
    ]


def long(corpus: str, scale: Scale) -> list[Cell]:
    """Return the cells of the Q-Q plots: gamma .2, unmarked and with delta 1."""
    gamma, delta = INFLATED
    return [
        Cell(corpus=corpus, method="unmarked", texts=scale.long_texts),
        Cell(corpus=corpus, method="grid", texts=scale.long_texts, gamma=gamma, delta=delta),
    ]
