"""Solve for each quantity in turn and recover it.

How closely: gamma is rounded down to a multiple of 2^-32 and delta up to a float32, so continuous
quantities come back to about 1e-6, and to one step of delta where that is coarser (short texts);
n_tokens comes back exactly. With a fixed gamma the level is a
tail probability of an integer count: solving for alpha returns the exact size of that count.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powermark import Dirichlet, Plan, plan

OPTIONS = [
    {},
    {"survival": 0.85, "attacked_power": 0.7},
    {"edit_rate": 0.05},
    {"signal": Dirichlet(32_000, 1e-3)},
    {"variance_inflation": 1.3},
]


def granularity(design: Plan) -> float:
    """What one float32 step of delta is worth in log(alpha): n dKL / power, twice for safety."""
    rate = design.gamma_prime
    step = float(np.spacing(np.float32(design.delta)))
    return 2 * design.n_tokens * design.delta * rate * (1 - rate) * step / design.power


def check_round_trip(first: Plan, **options: object) -> None:
    known = {"n_tokens": first.n_tokens, "alpha": first.alpha, "power": first.asked["power"]}
    known["kl"] = first.kl
    for missing, value in known.items():
        given = {name: known[name] for name in known if name != missing}
        again = plan(**given, **options)  # type: ignore[arg-type]
        if missing == "n_tokens":
            assert again.n_tokens == value
        elif missing == "power" and first.attacked_power is not None:
            # clean power may exceed what was asked where the attacked power is what binds
            assert again.power >= value - 1e-6
        else:
            assert getattr(again, missing) == pytest.approx(value, rel=2e-6 + granularity(first))
        if "kl" in given:
            assert again.kl <= first.kl


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_quantity_comes_back(options: dict[str, object]) -> None:
    check_round_trip(plan(n_tokens=60, alpha=0.01, power=0.9, **options), **options)  # type: ignore[arg-type]


@given(st.integers(8, 3000), st.floats(-6, -1).map(lambda e: 10.0**e), st.floats(0.5, 0.995))
@settings(max_examples=25, deadline=None)
def test_every_quantity_comes_back_for_random_requests(n: int, alpha: float, power: float) -> None:
    check_round_trip(plan(n_tokens=n, alpha=alpha, power=power))


@pytest.mark.parametrize("gamma", [0.25, 0.5, 0.9])
def test_fixed_gamma_comes_back_to_the_granularity_of_counts(gamma: float) -> None:
    first = plan(n_tokens=150, alpha=0.01, power=0.9, gamma=gamma)
    by_kl = plan(n_tokens=150, alpha=0.01, kl=first.kl, gamma=gamma)
    assert by_kl.power == pytest.approx(first.power, abs=1e-7)
    by_alpha = plan(n_tokens=150, power=0.9, kl=first.kl * (1 + 1e-6), gamma=gamma)
    assert by_alpha.alpha == pytest.approx(first.size, rel=1e-6)  # the level the count really has
    by_length = plan(alpha=0.01, power=0.9, kl=first.kl * (1 + 1e-6), gamma=gamma)
    assert by_length.n_tokens <= 150  # a shorter text on an earlier tooth may do
    assert by_length.power >= 0.9


def test_fixed_delta_comes_back() -> None:
    first = plan(n_tokens=80, alpha=0.02, power=0.9, delta=1.5)
    again = plan(n_tokens=80, alpha=0.02, kl=first.kl, delta=1.5)
    assert again.kl <= first.kl
    assert again.power >= 0.9 - 1e-6
    assert again.delta == 1.5


def test_the_papers_method_comes_back() -> None:
    first = plan(n_tokens=80, alpha=0.02, power=0.9, method="paper")
    n = plan(alpha=0.02, power=0.9, kl=first.kl * (1 + 1e-9), method="paper")
    alpha = plan(n_tokens=80, power=0.9, kl=first.kl, method="paper")
    assert n.n_tokens == 80
    assert alpha.alpha == pytest.approx(0.02, rel=1e-6)
    assert first.normal_power == pytest.approx(0.9, abs=1e-6)
