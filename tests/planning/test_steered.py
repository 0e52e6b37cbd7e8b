"""Plans with a steered bias: caps, checkpoints, and what is said of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from powermark import BetaMixture, InvalidInput, PlugIn, WatermarkSpec, plan
from powermark.errors import Infeasible
from powermark.planning.invert import Lengths, least_tokens
from powermark.signals.signal import SignalModel
from powermark.steering.schedule import STEP, Schedule
from powermark.theory import largest_kl, token_kl
from tests.signals.profiles import sample

HALF: dict[str, Any] = {"n_tokens": 50, "alpha": 0.05, "power": 0.8, "gamma": 0.5, "steer": True}


def schedule_of(found: Any) -> Schedule:
    return Schedule.from_dict(found.steering, found.gamma)


@pytest.mark.parametrize("signal", [PlugIn(), BetaMixture((0.5, 0.5), (1.0, 30.0)), sample()[1]])
def test_no_step_costs_more_than_its_cap(signal: SignalModel) -> None:
    """Whatever the green mass of a step; the largest bias is the last below the cap."""
    request = HALF | {"n_tokens": 40, "power": 0.6}
    free, capped = (plan(**request, signal=signal, kl_cap=cap) for cap in (np.inf, 0.2))
    masses = np.linspace(0.0, 1.0, 2_001)[:, None]
    within, beyond = token_kl(masses, capped.delta + STEP * np.arange(2)).max(axis=0)
    assert within <= 0.2 < beyond
    assert capped.delta < free.delta
    assert capped.kl > free.kl
    assert capped.power >= 0.6
    assert (capped.kl_cap, free.kl_cap) == (0.2, None)
    assert "|kl_cap:0.2|" in capped.signature
    assert "|kl_cap:inf|" in free.signature
    # of two caps the narrower counts
    assert plan(**request, signal=signal, kl_cap=0.2, delta_cap=1.0).delta <= 1.0 < capped.delta
    assert plan(**request, signal=signal, kl_cap=0.2, delta_cap=40.0).delta == capped.delta


@pytest.mark.parametrize("edits", [{}, {"edit_rate": 0.05}])
def test_steps_are_capped_by_default(edits: dict[str, Any]) -> None:
    request: dict[str, Any] = {"n_tokens": 50, "alpha": 0.05, "power": 0.95, "steer": True} | edits
    free, capped = plan(**request, kl_cap=np.inf), plan(**request)
    assert largest_kl(free.delta) > 3.0
    assert capped.kl_cap == 2.0
    assert largest_kl(capped.delta) == pytest.approx(2.0, abs=1e-3)
    assert "a step costs at most 2.00 nats" in str(capped)
    assert free.kl < capped.kl < 1.03 * free.kl
    written = WatermarkSpec.from_plan(capped, vocab_size=100).to_dict()
    assert written["design"]["kl_cap"] == 2.0


def test_a_given_gamma_may_need_dearer_steps() -> None:
    """A constant bias reaches the power there, so a steered one must; 2 nats are not enough."""
    spiky = BetaMixture((0.5, 0.5), (1.0, 30.0))
    request: dict[str, Any] = {"n_tokens": 50, "alpha": 0.05, "power": 0.95, "gamma": 0.94}
    constant, found = (plan(**request, signal=spiky, steer=on) for on in (False, True))
    assert found.kl_cap == pytest.approx(float(largest_kl(constant.delta)), abs=1e-2)
    assert found.kl_cap is not None
    assert found.kl_cap > 2.0
    assert found.kl <= constant.kl
    with pytest.raises(Infeasible, match="no schedule reaches power") as caught:
        plan(**request, signal=spiky, steer=True, kl_cap=2.0)
    assert "a larger cap" in str(caught.value.hint)


def test_caps_out_of_range_are_refused() -> None:
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(InvalidInput, match=r"kl_cap must be in \(0, inf\]"):
            plan(**HALF, kl_cap=wrong)


def test_a_spec_without_a_cap_is_read() -> None:
    """Specs of 0.1 know no cap."""
    spec = WatermarkSpec.from_plan(plan(**HALF), vocab_size=100)
    assert spec.design is not None
    old = {name: value for name, value in spec.design.items() if name != "kl_cap"}
    kept = replace(spec, design=old)
    assert WatermarkSpec.from_dict(kept.to_dict()) == kept
    with pytest.raises(InvalidInput, match=r"design.kl_cap must be in \(0, inf\)"):
        replace(spec, design=spec.design | {"kl_cap": 0.0})


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
        lengths = Lengths(uneven=3, longest=2_000)
        return least_tokens(lambda n: 0.0 if n >= first else np.inf, 0.01, 0.05, 0.9, lengths)

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


def test_caps_that_keep_schedules_from_the_constant_plan() -> None:
    """No schedule with so small a bias does as well; longer texts, laxer levels, less power do."""
    given = {"n_tokens": 20, "alpha": 0.05, "power": 0.9, "kl": 0.1}
    for left_out, worse in (("n_tokens", 1.0), ("alpha", 1.0), ("power", -1.0)):
        request: dict[str, Any] = {k: v for k, v in given.items() if k != left_out}
        found = plan(**request, steer=True, delta_cap=0.4)
        assert found.constant is not None
        assert found.delta <= 0.4
        assert found.kl <= 0.1
        assert worse * getattr(found, left_out) > worse * found.constant[left_out]
    with pytest.raises(Infeasible, match="no schedule reaches power"):
        plan(n_tokens=20, alpha=0.05, power=0.9, steer=True, delta_cap=0.4)


def test_without_caps_a_budget_buys_what_the_information_limit_allows() -> None:
    found = plan(n_tokens=40, alpha=0.05, kl=0.05, steer=True, kl_cap=np.inf)
    assert 0.999 < found.efficiency <= 1.0
