from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powermark import BetaMixture, Dirichlet, Edits, PlugIn, SignalModel
from powermark.errors import Infeasible
from powermark.planning.request import GAMMA_MIN
from powermark.planning.solver import GAMMA_GRID, Problem, least_kl, rate_for, settle
from powermark.theory import bernoulli_kl, binomial_tail, critical_count
from tests import golden

levels = st.floats(-7.0, -0.7).map(lambda e: 10.0**e)


@pytest.mark.parametrize(
    "row", golden.rows("exact_designs.csv"), ids=lambda r: f"k={r['critical_count']:g}"
)
def test_designs_of_exact_size_per_critical_count(row: dict[str, float]) -> None:
    k = row["critical_count"]
    gamma = float(rate_for(50, k, 0.05))
    assert gamma == pytest.approx(row["gamma"], abs=5e-5)
    for name, power in (("kl_80", 0.8), ("kl_95", 0.95), ("kl_99", 0.99)):
        problem = Problem(n_tokens=50, alpha=0.05, power=power, gamma=gamma - 1e-12)
        assert least_kl(problem).kl == pytest.approx(row[name], abs=5e-5)


@given(st.integers(2, 4000), levels, st.floats(0.25, 0.999))
@settings(max_examples=60)
def test_no_critical_count_is_cheaper(n: int, alpha: float, power: float) -> None:
    """The sparse comparison of critical counts against all of them."""
    if GAMMA_MIN**n > alpha or power <= alpha * 1.01:
        return
    ks = np.arange(float(critical_count(n, GAMMA_MIN, alpha)), n + 1)
    every = bernoulli_kl(rate_for(n, ks, power), rate_for(n, ks, alpha))
    found = least_kl(Problem(n_tokens=n, alpha=alpha, power=power))
    assert found.kl == pytest.approx(float(every.min()), rel=1e-9)


@pytest.mark.parametrize(
    ("signal", "edits", "c"),
    [
        (PlugIn(), Edits(survival=0.8), 1.0),
        (PlugIn(), Edits(edit_rate=0.1), 1.0),
        (PlugIn(), Edits(survival=0.5), 1.0),
        (PlugIn(), Edits(removal=0.2), 1.4),
        (Dirichlet(50_257, 1e-4), Edits(), 1.0),
        (BetaMixture((0.4, 0.6), (2.0, 60.0)), Edits(survival=0.85), 1.0),
        (BetaMixture((0.4, 0.6), (8.0, 60.0)), Edits(), 1.3),
    ],
    ids=str,
)
def test_the_net_finds_what_trying_every_count_finds(
    signal: SignalModel, edits: Edits, c: float
) -> None:
    problem = Problem(
        n_tokens=40,
        alpha=0.02,
        power=0.9,
        attacked_power=0.75 if edits else None,
        edits=edits,
        signal=signal,
        variance_inflation=c,
    )
    costs = []
    for k in range(int(critical_count(40, GAMMA_MIN, 0.02)), 41):
        gamma = float(rate_for(40, k, 0.02)) * (1 - 1e-12)
        try:
            fixed = Problem(
                n_tokens=40,
                alpha=0.02,
                power=0.9,
                attacked_power=problem.attacked_power,
                edits=edits,
                signal=signal,
                variance_inflation=c,
                gamma=gamma,
            )
            costs.append(least_kl(fixed).kl)
        except Infeasible:
            continue
    assert least_kl(problem).kl == pytest.approx(min(costs), rel=1e-6)


def test_a_smaller_gamma_at_the_same_count_never_helps() -> None:
    """For a given k the largest gamma is the cheapest, also with edits: checked on a grid."""
    for edits in (Edits(), Edits(survival=0.8)):
        for k in (20, 35, 44, 48):
            top = float(rate_for(50, k, 0.05)) * (1 - 1e-12)
            costs = []
            for gamma in top * np.linspace(0.97, 1.0, 7):
                problem = Problem(
                    n_tokens=50,
                    alpha=0.05,
                    power=0.9,
                    attacked_power=0.6 if edits else None,
                    edits=edits,
                    gamma=gamma,
                )
                if int(critical_count(50, gamma, 0.05)) == k:
                    costs.append(least_kl(problem).kl)
            assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("delta", [1.0, 2.0, 8.0])
@pytest.mark.parametrize("signal", [PlugIn(), Dirichlet(1000, 0.05)], ids=lambda s: s.name)
def test_fixed_delta_against_a_grid_of_gammas(delta: float, signal: SignalModel) -> None:
    n, alpha, power = 60, 0.05, 0.9
    found = least_kl(Problem(n_tokens=n, alpha=alpha, power=power, delta=delta, signal=signal))
    assert found.delta == delta
    gammas = np.linspace(GAMMA_MIN, 0.97, 4000)
    counts = critical_count(n, gammas, alpha)
    rates = signal.green_rate(gammas, delta)
    good = (counts <= n) & (binomial_tail(n, np.minimum(counts, n), rates) >= power)
    best = float(np.min(signal.kl(gammas, delta)[good]))
    assert found.kl <= best * (1 + 1e-9)
    assert found.kl >= best * 0.98  # the grid is a little coarse
    assert float(binomial_tail(n, found.critical_count, found.gamma)) <= alpha * (1 + 1e-12)


@pytest.mark.parametrize(("delta", "survival"), [(2.0, 0.3), (3.0, 0.4), (3.0, 0.5)])
def test_fixed_delta_may_want_the_smaller_gamma(delta: float, survival: float) -> None:
    """Below gamma_zero the KL falls with gamma: then the least gamma that will do is the best."""
    problem = Problem(
        n_tokens=60,
        alpha=0.05,
        power=0.9,
        attacked_power=0.7,
        edits=Edits(survival=survival),
        delta=delta,
    )
    found = settle(problem, least_kl(problem))
    assert problem.margin(found.critical_count, found.gamma, delta) >= 0.0
    for gamma in np.linspace(GAMMA_MIN, 0.95, 500):
        k = int(critical_count(60, gamma, 0.05))
        if k <= 60 and problem.margin(k, gamma, delta) >= 0.0:
            assert float(PlugIn().kl(gamma, delta)) >= found.kl * (1 - 1e-6)


def test_settled_designs_lie_on_the_grid_and_on_the_safe_side() -> None:
    problem = Problem(n_tokens=120, alpha=1e-3, power=0.9)
    settled = settle(problem, least_kl(problem))
    assert settled.gamma / GAMMA_GRID == np.floor(settled.gamma / GAMMA_GRID)
    assert float(np.float32(settled.delta)) == settled.delta
    assert float(binomial_tail(120, settled.critical_count, settled.gamma)) <= 1e-3
    assert problem.margin(settled.critical_count, settled.gamma, settled.delta) >= 0.0
    assert settled.kl == pytest.approx(least_kl(problem).kl, rel=1e-6)


def test_impossible_problems_name_the_bound() -> None:
    with pytest.raises(
        Infeasible, match=r"all 3 tokens are green by chance .* smallest gamma, 0.01"
    ):
        least_kl(Problem(n_tokens=3, alpha=1e-9, power=0.9))
    with pytest.raises(Infeasible, match=r"no test of level alpha = 0.05 exists at gamma = 0.99"):
        least_kl(Problem(n_tokens=50, alpha=0.05, power=0.9, gamma=0.99))
    with pytest.raises(Infeasible, match=r"no design at delta = 0.2 reaches power 0.95"):
        least_kl(Problem(n_tokens=50, alpha=0.05, power=0.95, delta=0.2))
    edits = Edits(survival=0.02)
    hopeless = Problem(n_tokens=50, alpha=0.01, power=0.9, attacked_power=0.9, edits=edits)
    with pytest.raises(Infeasible, match=r"attacked_power 0.9 with 2% surviving"):
        least_kl(hopeless)


def test_gamma_steps_down_where_the_grid_would_break_the_level() -> None:
    """Levels one ulp below the size of a gamma on the grid: rounding down once is not enough."""
    for k in range(30, 51):
        on_grid = float(np.floor(rate_for(50, k, 0.05) / GAMMA_GRID) * GAMMA_GRID)
        alpha = float(np.nextafter(binomial_tail(50, k, on_grid), 0.0))
        problem = Problem(n_tokens=50, alpha=alpha, power=0.9)
        settled = settle(problem, replace(least_kl(problem), critical_count=k, gamma=on_grid))
        assert settled.gamma < on_grid
        assert float(binomial_tail(50, k, settled.gamma)) <= alpha
