"""Plans on profiles of many texts: short cuts against the exact recursion and all texts."""

from typing import Any

import numpy as np
import pytest

from benchmarks.chat_profile import chat_profile
from powermark import Edits, plan
from powermark.planning.solver import Problem, _Costs
from powermark.signals import counts
from powermark.signals.profile import Profile
from powermark.steering import recursion
from powermark.steering.goal import Goal
from powermark.steering.recursion import steer

ASKED: dict[str, Any] = {"alpha": 0.01, "power": 0.95, "edit_rate": 0.05}


@pytest.mark.parametrize("n", [60, 120])
def test_counts_compared_on_some_texts(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As cheap as the best count on all texts, to a thousandth."""
    profile = chat_profile(40, n)
    found = plan(n_tokens=n, signal=profile, **ASKED)
    monkeypatch.setattr(Profile, "representative", lambda self, _texts=0: self)
    best = plan(n_tokens=n, signal=profile, **ASKED)
    assert found.kl == pytest.approx(best.kl, rel=1e-3)
    assert found.attacked_power is not None
    assert found.attacked_power >= 0.95


def test_counts_that_are_dear_on_some_texts_are_left_out() -> None:
    problem = Problem(n_tokens=60, alpha=0.01, power=0.95, signal=chat_profile(10, 60))
    few = _Costs(problem)
    few(58)
    few(40)
    assert few.tried[40].kl > 1.1 * few.tried[58].kl
    costs = _Costs(problem, few)
    assert costs(40) == np.inf
    assert costs(58) == pytest.approx(few.tried[58].kl, rel=1e-3)
    assert costs.tried.keys() == {58}


def test_long_texts_have_their_exact_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 tokens and 200 texts: below the work from which two moments are matched."""
    monkeypatch.setattr(counts, "matched_tail", None)
    rates = np.random.default_rng(0).uniform(0.6, 1.0, (200, 1_000))
    tails = counts.edited_tail(rates, 700, gamma=0.5, edit_rate=0.1, context_width=2)
    assert ((tails > 0.0) & (tails < 1.0)).all()


@pytest.mark.parametrize(("n", "gamma", "edit_rate"), [(60, 0.4, 0.1), (80, 0.8, 0.05)])
def test_steered_texts_by_moments(
    n: int, gamma: float, edit_rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moments of each text and exact recursions for some: as following every text exactly."""
    profile = chat_profile(48, n, seed=1)
    goal = Goal.of(gamma, 0.05, [n], edits=Edits(edit_rate=edit_rate))
    _, fast = steer(goal, profile, 0.9)
    monkeypatch.setattr(recursion, "_FEW", 48)
    _, exact = steer(goal, profile, 0.9)
    assert fast.kl == pytest.approx(exact.kl, rel=1e-3)
    assert exact.attacked_power == pytest.approx(0.9, abs=1e-3)
