"""The cells of each run: baselines, the authors' points, and our plans for the same model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from powermark.calibration.authors import published_points
from powermark.calibration.plan import Plan, plan
from powermark.calibration.profile import Profile
from powermark.calibration.signal import PlugIn, SignalModel
from powermark.errors import Infeasible
from powermark.evaluation.baselines import fixed_pair
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.reproduction.scales import ALPHA, FITTED, N_TOKENS, TOKENS, Scale
from powermark.evaluation.runner import Cell
from powermark.evaluation.writing import Sampling

REMOVED = (0.1, 0.15, 0.2)  # shares of a text that the attack replaces
OURS = ("exact", "profile", "steered")
INFLATED = (0.2, 1.0)  # gamma and delta of the paper's c-hat


def profile_of(lab: Lab, corpus: str, scale: Scale, temperature: float = 1.0) -> Profile:
    """Return the model's profile on prompts that no cell has."""
    prompts = lab.openings(corpus, scale.profiled, first=max(scale.few, 2 * scale.many))
    return lab.profile(prompts, Sampling(n_tokens=TOKENS, temperature=temperature))


def compared(lab: Lab, corpus: str, scale: Scale) -> list[Cell]:
    """Return every method on a corpus, at temperature 1."""
    return [*_unmarked(corpus, scale), *_rivals(corpus, scale), *_ours(lab, corpus, scale)]


def _unmarked(corpus: str, scale: Scale) -> Iterator[Cell]:
    yield Cell(corpus=corpus, method="unmarked", texts=2 * scale.many)


def _rivals(corpus: str, scale: Scale) -> Iterator[Cell]:
    for gamma, delta in product(scale.gammas, scale.deltas):
        texts = scale.many if (gamma, delta) == INFLATED else scale.few
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
    for rank, (gamma, delta) in enumerate(published_points(N_TOKENS, ALPHA)):
        texts = scale.few if rank else scale.many  # the first is their plan, others are weaker
        yield Cell(corpus=corpus, method="authors", texts=texts, gamma=gamma, delta=delta)


def _ours(lab: Lab, corpus: str, scale: Scale) -> Iterator[Cell]:
    profile = profile_of(lab, corpus, scale)
    for power in scale.powers:
        for method in OURS:
            signal = PlugIn() if method == "exact" else profile
            yield from _planned(corpus, method, scale.many, power, signal)
    for method in ("profile", "steered"):
        name = f"{method}, for removal"
        yield from _planned(corpus, name, scale.many, 0.95, profile, removal=REMOVED[-1])


def _planned(
    corpus: str,
    method: str,
    texts: int,
    power: float,
    signal: SignalModel,
    removal: float | None = None,
) -> Iterator[Cell]:
    """Yield the cell of a plan, where there is one."""
    try:
        found: Plan = plan(
            n_tokens=N_TOKENS,
            alpha=ALPHA,
            power=power,
            signal=signal,
            removal=removal,
            steer=method.startswith("steered"),
        )
    except Infeasible:
        return
    yield Cell(
        corpus=corpus,
        method=method,
        texts=texts,
        gamma=found.gamma,
        delta=found.delta,
        rule="constant" if found.steering is None else "steered",
        steering=found.steering,
        target=power,
    )


def fitted(corpus: str, scale: Scale) -> list[Cell]:
    """Return the cells of the linear fits, for another temperature."""
    return [
        Cell(corpus=corpus, method="grid", texts=scale.fitted, gamma=gamma, delta=delta)
        for gamma, delta in product(scale.gammas, FITTED)
    ]


def long(corpus: str, scale: Scale) -> list[Cell]:
    """Return the cells of the Q-Q plots: gamma .2, unmarked and with delta 1."""
    gamma, delta = INFLATED
    return [
        Cell(corpus=corpus, method="unmarked", texts=scale.long_texts),
        Cell(corpus=corpus, method="grid", texts=scale.long_texts, gamma=gamma, delta=delta),
    ]
