"""Plans with a steered bias: caps, checkpoints, and what is said of them."""

from typing import Any

import numpy as np
import pytest

from powermark import BetaMixture, InvalidInput, PlugIn, plan
from powermark.calibration.invert import least_tokens
from powermark.calibration.schedule import STEP, Schedule
from powermark.calibration.signal import SignalModel
from powermark.calibration.tilt import Tilt
from powermark.errors import Infeasible
from powermark.theory import kl_divergence
from tests.calibration.test_profile import STEPS, sample

HALF: dict[str, Any] = {"n_tokens": 50, "alpha": 0.05, "power": 0.8, "gamma": 0.5, "steer": True}


def schedule_of(found: Any) -> Schedule:
    return Schedule.from_dict(found.steering, found.gamma)


@pytest.mark.parametrize("signal", [PlugIn(), BetaMixture((0.5, 0.5), (1.0, 30.0))])
def test_no_step_costs_more_than_its_cap(signal: SignalModel) -> None:
    """The largest bias is the last below the cap, and a step in its state costs no more."""
    free, capped = (plan(**HALF, signal=signal, kl_cap=cap) for cap in (np.inf, 0.2))
    biases = capped.delta + STEP * np.arange(2)
    within, beyond = signal.kl(0.5, biases)
    assert within <= 0.2 < beyond + 1e-6
    assert capped.delta < free.delta
    assert capped.kl > free.kl
    assert capped.power >= 0.8
    assert "|kl_cap:0.2|" in capped.signature
    assert "kl_cap" not in free.signature
    # of two caps the narrower counts
    assert plan(**HALF, signal=signal, kl_cap=0.2, delta_cap=1.2).delta <= 1.2 < capped.delta
    assert plan(**HALF, signal=signal, kl_cap=0.2, delta_cap=40.0).delta == capped.delta


def test_a_cap_on_kl_is_one_on_the_mean_of_a_profile() -> None:
    _, profile = sample()
    request: dict[str, Any] = {"n_tokens": STEPS, "alpha": 0.05, "power": 0.6, "gamma": 0.5}
    found = plan(**request, signal=profile, steer=True, kl_cap=0.25)
    settled = profile.at_strength(max(found.gamma_prime - 0.5, 0.0))
    costs = Tilt.of(settled, 0.5, STEPS).kl(schedule_of(found).deltas)
    assert costs.max() == pytest.approx(0.25, abs=1e-2)  # the strength is settled in two rounds


def test_a_cap_on_kl_follows_gamma() -> None:
    found = plan(n_tokens=40, alpha=0.05, power=0.9, steer=True, kl_cap=0.3)
    assert found.power >= 0.9
    assert kl_divergence(found.gamma, found.delta) <= 0.3
    with pytest.raises(Infeasible, match="no schedule reaches power") as caught:
        plan(**HALF, kl_cap=0.01)
    assert "a larger cap" in str(caught.value.hint)
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(InvalidInput, match=r"kl_cap must be in \(0, inf\]"):
            plan(**HALF, kl_cap=wrong)


def test_the_kl_of_a_bias_is_the_signals_own() -> None:
    """The spline between 56 biases, against quadrature: 1e-5 nats."""
    deltas = np.linspace(0.0, 12.0, 50)
    for signal in (PlugIn(), BetaMixture((0.5, 0.5), (1.0, 30.0))):
        np.testing.assert_allclose(
            Tilt.of(signal, 0.4, 20).kl(deltas), signal.kl(0.4, deltas), atol=1e-5
        )


def test_what_a_constant_bias_does_of_what_was_solved_for() -> None:
    """Each form of plan names the quantity that it solves for; only what is spent can be saved."""
    given = {"n_tokens": 50, "alpha": 0.05, "power": 0.9, "kl": 0.1}
    remarks = {}
    for left_out in given:
        request: dict[str, Any] = {k: v for k, v in given.items() if k != left_out}
        found = plan(**request, gamma=0.5, steer=True)
        assert found.constant is not None
        name, value, remarks[left_out] = found.rows()[-1]
        assert (name, found.solved_for) == ("constant", left_out)
        assert float(value) == pytest.approx(found.constant[left_out], rel=5e-3)
        plain = plan(**request, gamma=0.5)
        assert found.constant[left_out] == getattr(plain, left_out)
        words = {"n_tokens": "tokens"}.get(left_out, left_out)
        assert remarks[left_out].startswith(f"{words} with the best constant bias (gamma 0.5000,")
        if left_out in ("n_tokens", "kl"):
            saved = 1.0 - getattr(found, left_out) / getattr(plain, left_out)
            assert remarks[left_out].endswith(f"; steering saves {saved:.0%}")
        else:
            assert remarks[left_out].endswith(")")
    costly = plan(n_tokens=20, alpha=0.05, power=0.9, steer=True, checkpoints=[15])
    assert costly.rows()[-1][2].endswith("; steering costs 9% more")


def test_no_bounds_of_a_constant_bias_are_printed() -> None:
    assert "gamma_zero" not in str(plan(**HALF))
    assert "gamma_zero" in str(plan(**HALF | {"steer": False}))


@pytest.mark.parametrize("gamma", [None, 0.5])
def test_the_fewest_tokens_lie_beyond_the_checkpoints(gamma: float | None) -> None:
    """A budget that a shorter text would do with: the first length after the checkpoint."""
    request: dict[str, Any] = {"alpha": 0.05, "power": 0.95, "kl": 0.15, "gamma": gamma}
    assert plan(**request, steer=True).n_tokens <= 25
    found = plan(**request, steer=True, checkpoints=[25])
    assert found.n_tokens >= 26
    assert found.kl <= 0.15
    for n in range(26, found.n_tokens):
        shorter = plan(**request | {"kl": None, "n_tokens": n}, steer=True, checkpoints=[25])
        assert shorter.kl > 0.15
    # between a checkpoint and the longest schedule there is no doubling
    far = plan(alpha=0.05, power=0.8, kl=0.1, gamma=0.5, steer=True, checkpoints=[1_100])
    assert far.n_tokens == 1_101


def test_lengths_that_cannot_be_had() -> None:
    for left_out in ("alpha", "power", "kl"):
        request: dict[str, Any] = {"n_tokens": 18, "alpha": 0.05, "power": 0.95, "kl": 0.15}
        del request[left_out]
        with pytest.raises(InvalidInput, match="checkpoints must be below n_tokens, 18"):
            plan(**request, gamma=0.5, steer=True, checkpoints=[10, 25])
    for gamma in (None, 0.5):
        with pytest.raises(Infeasible, match=r"kl = 0.0005 does not reach .* within 2,000 tokens"):
            plan(alpha=0.05, power=0.95, kl=5e-4, gamma=gamma, steer=True)


def test_the_longest_is_looked_at_before_it_is_given_up() -> None:
    """Doubling alone would pass from 1,904 to 3,808."""

    def least(first: int) -> int:
        return least_tokens(
            lambda n: 0.0 if n >= first else np.inf, 0.01, 0.05, 0.9, uneven=3, longest=2_000
        )

    assert [least(first) for first in (500, 1_950, 2_000)] == [500, 1_950, 2_000]
    with pytest.raises(Infeasible, match="within 2,000 tokens"):
        least(2_001)


@pytest.mark.parametrize(
    "request_",
    [
        {"n_tokens": 50, "alpha": 0.05, "kl": 0.05},
        {"n_tokens": 20, "alpha": 0.01, "kl": 0.1},
        {"n_tokens": 30, "power": 0.9, "kl": 0.05},
        {"alpha": 0.05, "power": 0.9, "kl": 0.05},
        {"n_tokens": 40, "alpha": 0.05, "kl": 0.02, "gamma": 0.5},
    ],
)
def test_a_budget_is_an_upper_bound(request_: dict[str, Any]) -> None:
    """Biases are rounded up; what is solved for pays for it, and is still better than constant."""
    found, constant = (plan(**request_, steer=on) for on in (True, False))
    assert 0.98 * request_["kl"] < found.kl <= request_["kl"]
    better = {"power": 1.0, "alpha": -1.0, "n_tokens": -1.0}[found.solved_for]
    name = found.solved_for
    assert better * getattr(found, name) > better * getattr(constant, name)
