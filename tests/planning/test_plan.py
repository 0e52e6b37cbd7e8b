"""The numbers that powermark promises, and the shape of what it returns."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from powermark import (
    BetaMixture,
    Dirichlet,
    Edits,
    Infeasible,
    InvalidInput,
    Plan,
    Steering,
    TopicMixture,
    evaluate,
    plan,
)
from powermark.planning import solver
from powermark.planning.request import Request
from powermark.planning.solver import Candidate, Problem, least_kl
from powermark.theory import binomial_tail, gamma_roots, kl_divergence


def test_short_text_all_green() -> None:
    found = plan(n_tokens=50, alpha=0.05, power=0.95)
    assert found.critical_count == 50
    assert found.gamma == pytest.approx(0.9418, abs=5e-5)
    assert found.delta == pytest.approx(4.10, abs=5e-3)
    assert found.kl == pytest.approx(0.0547, abs=5e-5)
    assert found.efficiency == pytest.approx(0.97, abs=5e-3)
    assert found.size <= 0.05
    assert found.power >= 0.95
    assert found.tokens_needed == {"0.5": 50, "0.8": 50, "0.95": 50, "0.99": 80}


@pytest.mark.parametrize("steer", [False, True])
def test_a_context_width_is_kept_where_no_edits_are_planned_for(steer: bool) -> None:
    found = plan(n_tokens=30, alpha=0.05, power=0.9, gamma=0.5, context_width=4, steer=steer)
    assert found.context_width == 4


def test_strict_level() -> None:
    found = plan(n_tokens=200, alpha=1e-5, power=0.95)
    assert (found.critical_count, round(found.kl, 4), round(found.gamma, 3)) == (200, 0.0559, 0.944)


@pytest.mark.parametrize(
    ("survival", "gamma", "delta", "kl", "k"),
    [(0.9, 0.909, 2.64, 0.0698, 49), (0.8, 0.777, 1.42, 0.0932, 44)],
)
def test_edits_change_the_regime(
    survival: float, gamma: float, delta: float, kl: float, k: int
) -> None:
    found = plan(n_tokens=50, alpha=0.05, power=0.95, survival=survival, attacked_power=0.8)
    assert found.critical_count == k
    assert found.gamma == pytest.approx(gamma, abs=5e-4)
    assert found.delta == pytest.approx(delta, abs=5e-3)
    assert found.kl == pytest.approx(kl, abs=5e-5)
    assert found.power >= 0.95
    assert found.attacked_power is not None
    assert found.attacked_power >= 0.8


def test_heavy_editing_wants_few_strong_tokens() -> None:
    assert plan(n_tokens=50, alpha=0.05, power=0.9, survival=0.5, attacked_power=0.8).gamma < 0.1


def test_edits_without_a_power_of_their_own_keep_the_full_power() -> None:
    found = plan(n_tokens=120, alpha=0.01, power=0.9, edit_rate=0.1, context_width=2)
    assert found.attacked_power == pytest.approx(0.9, abs=1e-6)
    assert found.power > 0.99
    assert found.survival == pytest.approx(0.9**3)
    assert "edit:0.1|h:2" in found.signature


def test_a_plan_is_what_evaluating_its_design_gives() -> None:
    found = plan(n_tokens=80, alpha=1e-3, power=0.9, edit_rate=0.05)
    again = evaluate(found.gamma, found.delta, n_tokens=80, alpha=1e-3, edits=Edits(edit_rate=0.05))
    for name in ("kl", "power", "size", "critical_count", "attacked_power", "efficiency"):
        assert getattr(found, name) == getattr(again, name)


def test_where_the_design_lies() -> None:
    found = plan(n_tokens=100, alpha=0.01, power=0.9)
    low, high = gamma_roots(found.delta, found.kl)
    assert (found.gamma_l, found.gamma_h) == (float(low), float(high))
    assert found.gamma_h == pytest.approx(found.gamma, rel=1e-6)
    assert found.gamma_l < found.gamma_zero < found.gamma_h
    # gamma_star bounds the normal approximation only: the exact optimum lies above it here
    assert found.gamma_star < found.gamma


def test_plan_for_a_finite_vocabulary() -> None:
    flat, spiky = (
        plan(n_tokens=50, alpha=0.05, power=0.95, signal=s)
        for s in (Dirichlet(50_257), Dirichlet(50_257, 1e-4))
    )
    assert flat.kl == pytest.approx(0.0547, abs=5e-5)
    assert spiky.kl > 1.1 * flat.kl
    assert spiky.signal == "dirichlet(V=50257,a=0.0001)"


def test_fixed_gamma_or_delta() -> None:
    at_gamma = plan(n_tokens=50, alpha=0.05, power=0.95, gamma=0.5)
    assert (at_gamma.gamma, at_gamma.critical_count) == (0.5, 32)
    assert at_gamma.efficiency == pytest.approx(0.46, abs=0.01)
    at_delta = plan(n_tokens=50, alpha=0.05, power=0.95, delta=2.0)
    assert at_delta.delta == 2.0
    assert at_delta.power >= 0.95


def test_least_tokens_at_a_fixed_gamma_is_the_first_that_does() -> None:
    found = plan(alpha=0.01, power=0.9, kl=0.1, gamma=0.9)
    assert found.kl <= 0.1
    shorter = range(max(1, found.n_tokens - 60), found.n_tokens)
    for n in shorter:
        try:
            assert plan(n_tokens=n, alpha=0.01, power=0.9, gamma=0.9).kl > 0.1
        except Infeasible:
            continue


def test_least_tokens_where_texts_differ() -> None:
    """Many more than independent tokens would need, and found in few steps."""
    topics = TopicMixture((BetaMixture((1.0,), (0.5,)), BetaMixture((1.0,), (60.0,))), (0.3, 0.3))
    request: dict[str, Any] = {"alpha": 0.05, "power": 0.8, "gamma": 0.5, "signal": topics}
    found = plan(**request, kl=0.1)
    assert found.kl <= 0.1
    for n in range(found.n_tokens - 12, found.n_tokens):
        assert plan(**request, n_tokens=n).kl > 0.1
    asked: list[float] = []

    def counted(problem: Problem) -> Candidate:
        asked.append(problem.n_tokens)
        return least_kl(problem)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "least_kl", counted)
        spiky = replace(topics, topics=(BetaMixture((1.0,), (0.2,)), topics.topics[1]))
        far = plan(alpha=0.01, power=0.95, kl=0.05, gamma=0.5, signal=spiky)
    assert far.n_tokens > 1_000
    assert 10 < len(asked) < 100


def test_a_text_is_longer_than_its_variance_inflation() -> None:
    found = plan(alpha=0.05, power=0.5, kl=1.0, variance_inflation=30)
    assert (found.n_tokens, found.kl <= 1.0, found.power >= 0.5) == (31, True, True)


def test_least_tokens_with_edits_and_fixed_gamma() -> None:
    found = plan(alpha=0.01, power=0.9, kl=0.1, gamma=0.6, survival=0.9)
    assert found.kl <= 0.1
    assert found.attacked_power is not None
    assert found.attacked_power >= 0.9
    with pytest.raises(AssertionError):
        assert (
            plan(n_tokens=found.n_tokens - 4, alpha=0.01, power=0.9, gamma=0.6, survival=0.9).kl
            < 0.1
        )


def test_lengths_beyond_all_texts_are_left_open() -> None:
    weak = plan(n_tokens=1_000_000, alpha=0.05, power=0.06, gamma=0.5)
    assert weak.tokens_needed["0.99"] is None
    assert "0.99: -" in str(weak)


def test_a_budget_that_rounding_would_overspend_takes_one_token_more() -> None:
    """delta is rounded up to a float32: the least KL before rounding is not quite enough."""
    budget = least_kl(Problem(n_tokens=60, alpha=0.01, power=0.9)).kl * (1 + 1e-12)
    found = plan(alpha=0.01, power=0.9, kl=budget)
    assert found.n_tokens == 61
    assert found.kl <= budget


def test_overdispersion_never_buys_power() -> None:
    """Taken literally, c near n would find power .95 in all-green texts without any mark."""
    for c in (1.5, 20.0, 192.8):
        loose = plan(n_tokens=193, alpha=0.05, power=0.95, variance_inflation=c)
        assert loose.kl >= plan(n_tokens=193, alpha=0.05, power=0.95).kl * (1 - 1e-6)
        assert loose.efficiency <= 1.0
    weaker = evaluate(0.5, 0.6, n_tokens=100, alpha=0.05, variance_inflation=2.0)
    assert weaker.power < evaluate(0.5, 0.6, n_tokens=100, alpha=0.05).power
    assert weaker.variance_inflation == 2.0


def test_extreme_requests_get_answers() -> None:
    """Found by fuzzing: certain green, nothing surviving, no valley in the guide, a hard mark."""
    certain = plan(n_tokens=120, alpha=0.3, kl=0.5, edit_rate=0.0, variance_inflation=3.0)
    assert certain.power > 0.99
    gone = plan(n_tokens=120, alpha=0.01, power=0.6, survival=1e-9, attacked_power=0.001)
    assert gone.survival == 0.0
    assert gone.power >= 0.6
    rough = plan(n_tokens=20, alpha=0.05, power=0.99, edit_rate=0.1, context_width=4)
    assert rough.attacked_power is not None
    assert rough.attacked_power >= 0.99
    hard = plan(n_tokens=50, alpha=0.05, power=0.9, delta=49.0)
    assert (hard.power, hard.gamma_prime) == (1.0, 1.0)
    barely = plan(n_tokens=100, alpha=0.05, power=0.05 + 1e-11)
    assert barely.tokens_needed["0.99"] is None
    weak = plan(n_tokens=7, alpha=1e-3, power=1.1e-3, delta=1.0, variance_inflation=1.5)
    assert weak.power >= 1.1e-3


def test_json_is_plain_and_the_table_reads_well() -> None:
    found = plan(n_tokens=50, alpha=0.05, power=0.95, survival=0.9)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["gamma"] == found.gamma
    assert data["asked"] == {"n_tokens": 50, "alpha": 0.05, "power": 0.95}
    text = str(found)
    assert text.startswith("exact plan, solved for kl\n")
    assert "attacked_power" in text
    assert text.endswith(found.signature)
    assert found.signature.startswith("powermark|plan|method:exact|solve:kl|signal:plug-in|n:50|")


def test_equal_signatures_equal_numbers() -> None:
    first, second = (plan(n_tokens=90, alpha=0.01, kl=0.04) for _ in range(2))
    assert first == second


def test_all_green_plans_carry_a_warning() -> None:
    assert any("one edited token" in w for w in plan(n_tokens=50, alpha=0.05, power=0.95).warnings)
    assert plan(n_tokens=50, alpha=0.05, power=0.95, gamma=0.5).warnings == ()


def test_budgets_that_are_more_than_enough() -> None:
    rich = plan(n_tokens=50, alpha=0.05, kl=0.5)
    assert rich.power == pytest.approx(1 - 1e-6, abs=1e-8)
    assert rich.kl < 0.06
    assert "more would buy nothing" in rich.warnings[0]
    strict = plan(n_tokens=10_000, power=0.9, kl=0.5)
    assert strict.alpha == pytest.approx(1e-240)
    assert "smallest level computed" in strict.warnings[0]
    assert strict.size > 0.0
    assert strict.efficiency <= 1.0


def test_budgets_that_are_not_enough() -> None:
    with pytest.raises(Infeasible, match=r"buys no power above 0\.05"):
        plan(n_tokens=50, alpha=0.05, kl=1e-22)
    with pytest.raises(Infeasible, match="at no alpha below the power"):
        plan(n_tokens=5, power=0.9, kl=1e-24)
    with pytest.raises(Infeasible, match="within 10,000,000 tokens"):
        plan(alpha=0.05, power=0.9, kl=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_tokens": 50, "alpha": 0.05}, "missing: `power`, `kl`"),
        ({"n_tokens": 50, "alpha": 0.05, "power": 0.9, "kl": 0.1}, "all were given"),
        ({"n_tokens": 50, "alpha": 0.0, "power": 0.9}, r"alpha must be in \[1e-240, 1\); got 0"),
        ({"n_tokens": 50, "alpha": 0.05, "power": 0.9, "gamma": 1.2}, r"gamma must be in \(0, 1\)"),
        ({"n_tokens": 50, "alpha": 0.05, "power": 0.04}, "power must exceed alpha = 0.05"),
        (
            {"n_tokens": 50, "alpha": 0.05, "power": 0.9, "delta": 60.0},
            r"delta must be in \(0, 50\]",
        ),
        ({"n_tokens": 1.5, "alpha": 0.05, "power": 0.9}, "n_tokens must be a whole number"),
        ({"n_tokens": 50, "alpha": 0.05, "power": 0.9, "method": "magic"}, "method must be one of"),
        ({"n_tokens": 50, "alpha": 0.05, "power": 0.9, "gamma": 0.5, "delta": 2.0}, "not both"),
        ({"n_tokens": 50, "alpha": 0.05, "power": 0.9, "attacked_power": 0.8}, "know the attack"),
        ({"n_tokens": 50, "alpha": 0.05, "power": 0.9, "variance_inflation": 60.0}, r"\[1, 50\)"),
        (
            {"n_tokens": 50, "alpha": 0.05, "power": 0.9, "method": "paper", "survival": 0.9},
            "takes neither edits nor a fixed delta",
        ),
    ],
)
def test_wrong_requests_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        plan(**arguments)  # type: ignore[arg-type]


def test_values_and_their_shorthands_are_one_request() -> None:
    asked: dict[str, Any] = {"n_tokens": 20, "alpha": 0.05, "power": 0.8, "gamma": 0.5}
    edits, steer = Edits(edit_rate=0.02, context_width=1), Steering(checkpoints=(15,), kl_cap=1.5)
    by_value = Request.of(**asked, edits=edits, steer=steer)
    flat: dict[str, Any] = {"edit_rate": 0.02, "context_width": 1, "checkpoints": [15]}
    assert Request.of(**asked, **flat, steer=True, kl_cap=1.5) == by_value
    flat.pop("checkpoints")
    assert plan(**asked, **flat) == plan(**asked, edits=edits)
    for wrong, message in (
        ({"edits": edits, "edit_rate": 0.1}, "give either `edits` or `edit_rate`"),
        ({"checkpoints": [15]}, "`checkpoints`, `delta_cap` and `kl_cap` need `steer`"),
        ({"kl_cap": 2.0, "steer": steer}, "`kl_cap` are given in `steer`"),
        ({"steer": True, "delta_cap": 60.0}, r"delta_cap must be in \(0, 50\]"),
        ({"steer": True, "variance_inflation": 2.0}, "steering chooses delta itself"),
        ({"n_tokens": 2_001, "steer": True}, "n_tokens must be at most 2,000 for a steered plan"),
        ({"method": "authors", "gamma": None, "detector": "evalue"}, "authors is for the count"),
        ({"detector": "evalue", "method": "paper"}, "`detector` evalue takes no `method`"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Request.of(**asked | wrong)


def test_kl_above_what_any_gamma_allows() -> None:
    with pytest.raises(Infeasible, match=r"below -log\(gamma\) = 4.605 for the smallest gamma"):
        plan(n_tokens=50, alpha=0.05, kl=7.0)
    with pytest.raises(Infeasible, match=r"below -log\(gamma\) = 0.6931 for this gamma, 0.5"):
        plan(n_tokens=50, alpha=0.05, kl=0.7, gamma=0.5)


def test_spiky_models_can_spend_more_than_the_plug_in() -> None:
    spiky = Dirichlet(50_000, 1e-5)
    assert float(spiky.kl(0.5, 20.0)) > 1.0
    assert plan(n_tokens=50, alpha=0.05, kl=1.0, gamma=0.5, signal=spiky).kl <= 1.0


def test_one_token_is_a_length_too() -> None:
    assert plan(n_tokens=1, alpha=0.01, power=0.5).tokens_needed["0.5"] == 1


def test_a_fixed_delta_is_compared_at_every_count() -> None:
    assert plan(n_tokens=192, alpha=0.01, power=0.6614, delta=0.5).kl < 0.0195


def test_hints_travel_as_notes() -> None:
    with pytest.raises(InvalidInput) as caught:
        plan(n_tokens=50, alpha=0.05)
    assert caught.value.hint is not None
    assert caught.value.__notes__ == [f"Hint: {caught.value.hint}"]


def test_evaluate_edge_cases() -> None:
    nothing = evaluate(0.5, 0.0, n_tokens=50, alpha=0.05)
    assert (nothing.kl, nothing.efficiency) == (0.0, 0.0)
    assert nothing.power == pytest.approx(nothing.size)
    hard = evaluate(0.5, 60.0, n_tokens=500, alpha=0.05)
    assert hard.power == 1.0
    assert hard.kl == pytest.approx(float(kl_divergence(0.5, 60.0)))
    hopeless = evaluate(0.99, 2.0, n_tokens=50, alpha=0.05)
    assert (hopeless.critical_count, hopeless.size, hopeless.power) == (51, 0.0, 0.0)
    assert evaluate(0.5, 1.0, n_tokens=1, alpha=0.6).critical_count == 1
    with pytest.raises(InvalidInput, match="test must be one of"):
        evaluate(0.5, 1.0, n_tokens=5, alpha=0.1, test="t")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="variance_inflation must be in"):
        evaluate(0.5, 1.0, n_tokens=5, alpha=0.1, variance_inflation=5.0)


@pytest.mark.parametrize("chunk", range(8))
def test_size_never_above_alpha_in_ten_thousand_plans(chunk: int) -> None:
    """1,250 random requests a chunk: exact size <= alpha and power >= the one asked, always."""
    rng = np.random.default_rng([2026, chunk])
    done = 0
    while done < 1250:
        n = int(np.exp(rng.uniform(np.log(5), np.log(2000))))
        alpha, power = 10 ** rng.uniform(-8, -0.5), rng.uniform(0.35, 0.999)
        if 0.01**n > alpha:
            continue
        found: Plan = plan(n_tokens=n, alpha=alpha, power=power)
        assert float(binomial_tail(n, found.critical_count, found.gamma)) <= alpha
        assert found.size <= alpha
        assert found.power >= power
        assert found.efficiency <= 1 + 1e-9
        done += 1
