"""The methods compared, as cells of each run: baselines, the authors' points, our plans."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import inf
from typing import Any

from powermark.errors import Infeasible
from powermark.generation.writing import Sampling
from powermark.paper.baselines import fixed_pair
from powermark.paper.runner import Cell
from powermark.paper.settings import ALPHA, AUTHORS_TEMPERATURE, FITTED, N_TOKENS, TOKENS, Scale
from powermark.paper.workspace import Workspace
from powermark.planning.paper_method import published_points
from powermark.planning.plan import plan
from powermark.planning.request import Steering
from powermark.signals.profile import Profile
from powermark.signals.signal import PlugIn, SignalModel
from powermark.signature import signature

REMOVED = (0.1, 0.15, 0.2)  # shares of a text that the attack replaces
OURS = ("exact", "profile", "steered")
FOR_WINDOWS = "profile, for winmax-c"
FOR_REMOVAL = ("profile, for removal", "steered, for removal", FOR_WINDOWS)
INFLATED = (0.2, 1.0)  # gamma and delta of the paper's c-hat


def profile_of(
    workspace: Workspace, corpus: str, scale: Scale, temperature: float = 1.0
) -> Profile:
    """Return the model's profile on prompts that no cell uses."""
    prompts = workspace.openings(corpus, scale.profiled, first=scale.profiled_from)
    return workspace.profile(prompts, Sampling(n_tokens=TOKENS, temperature=temperature))


def rivals(corpus: str, scale: Scale) -> Iterator[Cell]:
    """Yield unmarked text and every other method, at temperature 1."""
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


def ours(workspace: Workspace, corpus: str, scale: Scale) -> Iterator[Cell]:
    """Yield our plans for the model on a corpus, at temperature 1."""
    profile = profile_of(workspace, corpus, scale)
    for power, method in product(scale.powers, OURS):
        signal = PlugIn() if method == "exact" else profile
        yield from planned(workspace, corpus, method, scale.many, power, signal)
    for power, method in product(scale.attacked_powers, FOR_REMOVAL):
        yield from planned(
            workspace, corpus, method, scale.many, power, profile, removal=REMOVED[-1]
        )


def planned(
    workspace: Workspace,
    corpus: str,
    method: str,
    texts: int,
    power: float,
    signal: SignalModel,
    removal: float | None = None,
) -> Iterator[Cell]:
    """Yield the cell of a plan, if there is a plan; plans are kept on disk."""
    line = signature("planned", signal=signal.name, method=method, p=power, removal=removal)
    found = workspace.remembered(line, lambda: _plan(method, power, signal, removal))
    if found:
        yield Cell(corpus=corpus, method=method, texts=texts, target=power, **found)


def _plan(method: str, power: float, signal: SignalModel, removal: float | None) -> dict[str, Any]:
    """Return a plan as arguments of a cell; empty if no plan has such power."""
    request: dict[str, Any] = {"n_tokens": N_TOKENS, "alpha": ALPHA, "power": power}
    request |= {"signal": signal, "removal": removal}
    try:
        if method == FOR_WINDOWS:
            design = plan(**request, detector="winmax-c")
            return {"gamma": design.gamma, "delta": design.delta}
        steer = Steering(kl_cap=inf) if method.startswith("steered") else False
        found = plan(**request, steer=steer)
    except Infeasible:
        return {}
    rule = "constant" if found.steering is None else "steered"
    steering = found.steering
    return {"gamma": found.gamma, "delta": found.delta, "rule": rule, "steering": steering}


def fitted(corpus: str, scale: Scale) -> list[Cell]:
    """Return the cells of the linear fits as the authors ran them: delta before temperature .7."""
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
