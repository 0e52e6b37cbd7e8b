"""Steered schedules: the information limit in the flat world, simulation everywhere."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from scipy.interpolate import CubicSpline

from powermark import BetaMixture, Edits, InvalidInput, PlugIn, SignalModel, plan
from powermark.errors import Infeasible
from powermark.signals.profile import Profile
from powermark.steering.goal import BIASES, Goal, Tilt, edited_reward, read_reward
from powermark.steering.recursion import backward, edited_power, forward, steer
from powermark.steering.schedule import LONGEST, Schedule
from powermark.theory import gamma_prime, kl_divergence, token_green_rate, token_kl
from powermark.theory.bounds import information_limit
from powermark.theory.power import binomial_tail, critical_count
from tests.signals.profiles import STEPS, TEXTS, sample


@pytest.mark.parametrize("n", [50, 200])
@pytest.mark.parametrize("gamma", [0.1, 0.25, 0.5, 0.8, 0.9418])
def test_the_flat_world_spends_the_information_limit(gamma: float, n: int) -> None:
    """At the price that the limit's own tilt gives, the recursion is the limit, to 1e-9."""
    goal, tilt = Goal.of(gamma, 0.05, [n]), Tilt.of(PlugIn(), gamma, n)
    size = float(binomial_tail(n, goal.critical_counts[0], gamma))
    value = float(special.logit(0.95) - special.logit(size))
    found = forward(goal, tilt, backward(goal, tilt, value))
    assert found.powers[0] == pytest.approx(0.95, abs=1e-9)
    assert found.kl == pytest.approx(float(information_limit(n, size, 0.95)), abs=1e-9)
    assert found.law.sum() == pytest.approx(1.0)
    assert found.errors is None


def test_a_simulation_of_the_flat_world() -> None:
    """50,000 texts of 50 tokens under the schedule: 4.5 standard errors."""
    gamma, n, texts = 0.5, 50, 50_000
    goal = Goal.of(gamma, 0.05, [n])
    schedule, told = steer(goal, PlugIn(), 0.9)
    assert told.powers[0] >= 0.9
    rng = np.random.default_rng(1)
    greens, spent = np.zeros(texts, int), np.zeros(texts)
    for t in range(n):
        delta = schedule(np.full(texts, t), greens)
        spent += kl_divergence(gamma, delta)
        greens += rng.random(texts) < gamma_prime(gamma, delta)
    found = (greens >= goal.critical_counts[0]).mean()
    assert found == pytest.approx(told.powers[0], abs=4.5 * np.sqrt(0.09 / texts))
    error = spent.std() / np.sqrt(texts) / n
    assert spent.mean() / n == pytest.approx(told.kl, abs=4.5 * error)
    assert spent.std() / n == pytest.approx(told.kl_sd, rel=0.03)
    drawn = schedule.draw(20_000, n, rng).sum(axis=1)
    assert (drawn >= goal.critical_counts[0]).mean() == pytest.approx(found, abs=0.012)


def test_no_schedule_does_better() -> None:
    """Three tokens: every perturbation of the best biases loses value, at any price."""
    goal = Goal.of(0.4, 0.2, [3])
    for signal in (PlugIn(), BetaMixture((0.5, 0.5), (1.0, 30.0))):
        tilt = Tilt.of(signal, 0.4, 3)
        best = backward(goal, tilt, 4.0)

        def worth(deltas: np.ndarray, tilt: Tilt = tilt) -> float:
            found = forward(goal, tilt, deltas)
            return 4.0 * found.powers[0] - 3 * found.kl

        for t, s in itertools.product(range(3), range(3)):
            for change in (-0.05, 0.05):
                other = best.copy()
                other[t, s] = max(0.0, other[t, s] + change)
                assert worth(other) <= worth(best) + 1e-7


def test_rewards_are_those_of_edited_counts() -> None:
    n, k, gamma = 12, 8, 0.4
    alone = Edits(edit_rate=0.3, context_width=0)  # then each position survives on its own
    stays, turns = 0.7 + 0.3 * gamma, 0.3 * gamma
    for s, got in enumerate(edited_reward(n, k, gamma, alone)):
        greens, reds = stats.binom(s, stays), stats.binom(n - s, turns)
        want = sum(greens.pmf(i) * reds.sf(k - i - 1) for i in range(s + 1))
        assert got == pytest.approx(want, abs=1e-12)
    fixed = Edits(survival=0.5)
    for s, got in enumerate(edited_reward(n, k, gamma, fixed)):
        want = sum(
            stats.hypergeom(n, s, 6).pmf(i) * stats.binom(6, gamma).sf(k - i - 1) for i in range(7)
        )
        assert got == pytest.approx(want, abs=1e-12)
    assert edited_reward(4, 3, 0.5, Edits(survival=1.0)).tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert read_reward(3, 2, 0.5, 0).tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("edits", [{"edit_rate": 0.1}, {"edit_rate": 0.05}, {"removal": 0.2}])
def test_edited_power_is_that_of_edited_texts(edits: dict[str, float]) -> None:
    """40,000 texts of 40 tokens, rewritten with context width 2: 4.5 standard errors."""
    found = plan(n_tokens=40, alpha=0.05, power=0.9, gamma=0.5, steer=True, **edits)  # type: ignore[arg-type]
    schedule = Schedule.from_dict(found.steering, found.gamma)
    rng, texts = np.random.default_rng(5), 40_000
    colours = schedule.draw(texts, 40, rng)
    if "edit_rate" in edits:
        kept = rng.random((texts, 42)) > edits["edit_rate"]
        whole = kept[:, 2:] & kept[:, 1:-1] & kept[:, :-2]
    else:
        first = rng.integers(0, 41 - 10, (texts, 1))  # eight tokens and the two after them
        whole = (np.arange(40) < first) | (np.arange(40) >= first + 10)
    left = np.where(whole, colours, rng.random(colours.shape) < 0.5).sum(axis=1)
    share = (left >= found.critical_count).mean()
    assert found.attacked_power is not None
    assert found.attacked_power >= 0.9
    # a block is one of many ways in which as many positions can be lost; steered texts are alike
    slack = 0.0 if "edit_rate" in edits else 0.01
    error = np.sqrt(share * (1 - share) / texts)
    assert found.attacked_power == pytest.approx(share, abs=4.5 * error + slack)


@pytest.mark.parametrize("n", [40, 120])
@pytest.mark.parametrize("signal", [PlugIn(), BetaMixture((0.5, 0.5), (1.0, 30.0))])
def test_edited_power_of_texts_that_are_alike(n: int, signal: SignalModel) -> None:
    """The recursion with their one green rate in each state, short or long."""
    goal = Goal.of(0.5, 0.05, [n], edits=Edits(edit_rate=0.05))
    schedule, told = steer(goal, signal, 0.8)
    rates = np.asarray(signal.green_rate(0.5, schedule.deltas))
    # the spline through the mixture's rates is good to 1e-5
    assert told.attacked_power == pytest.approx(edited_power(goal, rates), abs=1e-5)


def uneven() -> Profile:
    """Twelve texts, three of them nearly without choice."""
    rng, steps = np.random.default_rng(0), 60
    rows = [rng.dirichlet(np.full(32, a), steps) for a in [0.02] * 3 + [0.8] * 9]
    head = np.sort(np.concatenate(rows), axis=1)[:, ::-1].astype(np.float32)
    text, nothing = np.repeat(np.arange(12), steps), np.zeros(12 * steps, np.float32)
    ids = np.arange(12 * steps, dtype=np.int32)
    return Profile(head, nothing, nothing, text.astype(np.int32), ids, nothing)


@pytest.mark.parametrize("n", [60, 120])
def test_without_edits_a_profile_has_one_power(n: int) -> None:
    """An edit rate of 0, where texts are followed one by one and where one stands for all."""
    goal = Goal.of(0.5, 0.05, [n], edits=Edits(edit_rate=0.0))
    _, told = steer(goal, uneven(), 0.8, attacked_power=0.5)
    assert told.attacked_power == pytest.approx(told.powers[0], abs=1e-9)
    assert told.errors is not None
    assert told.errors["attacked_power"] == pytest.approx(told.errors["power"], abs=1e-9)


@pytest.mark.parametrize(("n", "slack"), [(30, 0.0), (60, 0.0), (120, 0.004)])
@pytest.mark.parametrize("edit_rate", [0.02, 0.05])
def test_edited_texts_of_a_profile(n: int, slack: float, edit_rate: float) -> None:
    """10,000 texts for each of the profile's twelve, by its own rates: 4.5 standard errors.

    Mean rates over texts promise .01 to .04 more. Above 100 tokens what neighbours have in common
    is that of mean rates, a few thousandths off.
    """
    profile = uneven()
    goal = Goal.of(0.5, 0.05, [n], edits=Edits(edit_rate=edit_rate))
    schedule, told = steer(goal, profile, 0.8, attacked_power=0.5)
    rng, draws = np.random.default_rng(7), 10_000
    rates, _, _ = profile.text_rates(0.5, BIASES, n)
    shares = []
    for mine in rates:
        colours, greens = np.zeros((draws, n), bool), np.zeros(draws, int)
        for t in range(n):
            chance = CubicSpline(BIASES, mine[t])(schedule(np.full(draws, t), greens))
            colours[:, t] = rng.random(draws) < chance
            greens += colours[:, t]
        kept = rng.random((draws, n + 2)) > edit_rate
        whole = kept[:, 2:] & kept[:, 1:-1] & kept[:, :-2]
        left = np.where(whole, colours, rng.random(colours.shape) < 0.5).sum(axis=1)
        shares.append((left >= goal.critical_counts[0]).mean())
    error = np.sqrt(0.25 / (draws * len(shares)))
    assert told.attacked_power == pytest.approx(np.mean(shares), abs=4.5 * error + slack)
    by_mean = edited_power(goal, Tilt.of(profile, 0.5, n).of_states(schedule.deltas))
    assert by_mean > told.attacked_power + 0.01


def test_texts_of_other_strengths_do_not_count() -> None:
    """Of two levels the weak marks' is the nine texts with a choice, as if there were no other."""
    profile = uneven()
    spiky = profile.text < 3
    both = dataclasses.replace(profile, strength=np.where(spiky, 0.5, 0.0).astype(np.float32))
    names = ("head", "tail_mass", "tail_square", "text", "ids", "strength")
    alone = Profile(**{name: getattr(profile, name)[~spiky] for name in names})
    goal = Goal.of(0.5, 0.05, [40], edits=Edits(edit_rate=0.05))
    (_, one), (_, other) = (steer(goal, of, 0.8) for of in (both.at_strength(0.0), alone))
    assert one.attacked_power == pytest.approx(other.attacked_power, abs=1e-12)
    assert one.kl == pytest.approx(other.kl, abs=1e-12)


@pytest.mark.parametrize("gamma", [0.5, 0.9])
def test_a_profile_is_followed_text_by_text(gamma: float) -> None:
    """Simulated from the distributions themselves, 10,000 texts: 4.5 standard errors and .004."""
    full, profile = sample()
    goal = Goal.of(gamma, 0.05, [STEPS])
    schedule, told = steer(goal, profile, 0.8)
    assert told.errors is not None
    assert told.errors["power"] > 0.0
    rng, found, spent = np.random.default_rng(2), 0, []
    text, texts = np.arange(TEXTS), full.reshape(TEXTS, STEPS, -1)
    for _ in range(1_000):
        greens, cost = np.zeros(TEXTS, int), np.zeros(TEXTS)
        for t in range(STEPS):
            p = texts[text, t]
            y = np.clip((p * (rng.random(p.shape) < gamma)).sum(axis=1), 0.0, 1.0)
            delta = schedule(np.full(TEXTS, t), greens)
            cost += token_kl(y, delta)
            greens = greens + (rng.random(TEXTS) < np.asarray(token_green_rate(y, delta)))
        found += int((greens >= goal.critical_counts[0]).sum())
        spent.append(cost)
    assert found / 10_000 == pytest.approx(told.powers[0], abs=4.5 * np.sqrt(0.16 / 10_000) + 0.004)
    kl = np.concatenate(spent) / STEPS
    assert kl.mean() == pytest.approx(told.kl, rel=0.02)


@pytest.mark.parametrize("gamma", [0.25, 0.5, 0.8])
def test_steering_costs_less_than_a_constant_bias(gamma: float) -> None:
    _, profile = sample()
    request: dict[str, Any] = {"n_tokens": STEPS, "alpha": 0.05, "power": 0.8, "gamma": gamma}
    for signal in (PlugIn(), profile):
        plain, steered = (plan(**request, signal=signal, steer=on) for on in (False, True))
        assert steered.power >= 0.8
        assert steered.kl < 0.75 * plain.kl
        assert steered.constant is not None
        assert steered.constant["kl"] == plain.kl
        assert (steered.size, steered.critical_count) == (plain.size, plain.critical_count)
        assert "steering saves" in str(steered)
        assert "largest bias; it follows the count" in str(steered)
        assert "|steered|" in steered.signature


@pytest.mark.parametrize(("cap", "efficiency"), [(np.inf, 1.0), (None, 0.9988)])
def test_every_form_of_plan(cap: float | None, efficiency: float) -> None:
    """What one form finds, the others find again."""
    steered: dict[str, Any] = {"steer": True, "kl_cap": cap}
    flat = plan(n_tokens=60, alpha=0.02, power=0.9, **steered)
    assert flat.efficiency == pytest.approx(efficiency, abs=1e-3)
    assert plan(n_tokens=60, alpha=0.02, kl=flat.kl, **steered).power == pytest.approx(
        0.9, abs=2e-3
    )
    assert plan(alpha=0.02, power=0.9, kl=flat.kl * 1.001, **steered).n_tokens == 60
    least = plan(n_tokens=60, power=0.9, kl=flat.kl, **steered).alpha
    assert least == pytest.approx(0.02, rel=0.02)


def test_every_form_of_plan_on_a_profile() -> None:
    _, profile = sample()
    request: dict[str, Any] = {"n_tokens": STEPS, "alpha": 0.05, "signal": profile, "gamma": 0.5}
    real = plan(**request, power=0.8, steer=True)
    assert plan(**request, kl=real.kl, steer=True).power == pytest.approx(0.8, abs=5e-3)


def test_a_power_that_chance_reaches() -> None:
    """A level next to the power, which the search for the strictest level begins with."""
    goal = Goal.of(0.5, 0.9, [20])
    size = float(binomial_tail(20, goal.critical_counts[0], 0.5))
    schedule, told = steer(goal, PlugIn(), size - 1e-9)
    assert told.powers[0] >= size - 1e-9
    assert schedule.largest <= 1 / 1024


def test_gamma_is_searched_for() -> None:
    """On a signal that is not flat: no gamma of those looked at is cheaper than the one chosen."""
    signal = BetaMixture((0.6, 0.4), (2.0, 40.0))
    request: dict[str, Any] = {"n_tokens": 50, "alpha": 0.05, "power": 0.8, "signal": signal}
    best = plan(**request, steer=True)
    assert best.size <= 0.05
    for gamma in (0.2, 0.5, 0.8):
        assert plan(**request, gamma=gamma, steer=True).kl > best.kl - 1e-4
    again = plan(alpha=0.05, power=0.8, kl=best.kl * 1.02, signal=signal, steer=True)
    assert again.n_tokens <= 50


def test_edits_are_steered_for() -> None:
    request: dict[str, Any] = {"n_tokens": 40, "alpha": 0.05, "power": 0.9, "gamma": 0.5}
    plain, steered = (plan(**request, edit_rate=0.05, steer=on) for on in (False, True))
    assert steered.attacked_power is not None
    assert steered.attacked_power >= 0.9
    assert steered.kl < plain.kl
    assert "Plan with an edit rate" not in " ".join(steered.warnings)
    # clean text decides where little is asked of edited text
    clean = plan(**request, survival=0.97, attacked_power=0.3, steer=True)
    assert clean.power >= 0.9
    assert clean.attacked_power is not None
    assert clean.attacked_power >= 0.3
    searched = plan(n_tokens=20, alpha=0.1, power=0.7, edit_rate=0.05, steer=True)
    assert searched.attacked_power is not None
    assert searched.attacked_power >= 0.7


def test_caps_and_checkpoints() -> None:
    request: dict[str, Any] = {"n_tokens": 50, "alpha": 0.05, "power": 0.8, "gamma": 0.5}
    free = plan(**request, steer=True)
    capped = plan(**request, steer=True, delta_cap=1.5)
    assert capped.delta <= 1.5 + 1e-3 < free.delta
    assert capped.kl > free.kl
    half = plan(**request, steer=True, checkpoints=[25])
    schedules = [Schedule.from_dict(p.steering, p.gamma) for p in (free, half)]
    k = int(critical_count(25, 0.5, 0.05))
    assert schedules[1].power(25, k) > schedules[0].power(25, k) + 0.1
    assert half.power >= 0.8
    assert "after 25 tokens the power is" in half.warnings[-2]
    assert Goal.of(0.5, 0.05, [50, 25]).lengths == (25, 50)
    with pytest.raises(InvalidInput, match="lengths must differ"):
        Goal.of(0.5, 0.05, [50, 50])
    with pytest.raises(InvalidInput, match="checkpoints must be below n_tokens, 50"):
        plan(**request, steer=True, checkpoints=[50])
    free_gamma = plan(n_tokens=40, alpha=0.05, power=0.8, steer=True, checkpoints=[20])
    assert "after 20 tokens the power is" in free_gamma.warnings[-2]
    assert plan(n_tokens=40, alpha=0.05, power=0.9, steer=True, delta_cap=3.0).power >= 0.9
    with pytest.raises(Infeasible, match="no test of level"):
        Goal.of(0.9, 0.001, [10])


def test_a_text_of_any_length_has_a_power() -> None:
    """Half the length, twice and a bit more: against drawn texts, 20,000 each."""
    schedule, _ = steer(Goal.of(0.5, 0.05, [40]), PlugIn(), 0.9)
    rng = np.random.default_rng(3)
    for n in (20, 40, 80, 95):
        k = int(critical_count(n, 0.5, 0.05))
        share = (schedule.draw(20_000, n, rng).sum(axis=1) >= k).mean()
        assert schedule.power(n, k) == pytest.approx(share, abs=4.5 * np.sqrt(0.25 / 20_000))
        assert schedule.law(n).sum() == pytest.approx(1.0)
    assert schedule.power(100_000, 50_000) > 0.999
    assert schedule.powers(0.05)[40] == pytest.approx(schedule.power(40, 26), abs=1e-12)


def test_what_cannot_be_steered() -> None:
    with pytest.raises(InvalidInput, match="steering chooses delta itself"):
        plan(n_tokens=50, alpha=0.05, power=0.9, delta=2.0, steer=True)
    with pytest.raises(InvalidInput, match=f"at most {LONGEST:,} for a steered plan"):
        plan(n_tokens=5_000, alpha=0.05, power=0.9, steer=True)
    for deltas, rates, message in (
        (np.full((2, 3), 60.0), np.zeros(BIASES.size), "biases are from 0 to 50"),
        (np.zeros((2, 3)), np.full(BIASES.size, 2.0), "rates, weights and shares are from 0 to 1"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Schedule(0.5, deltas, rates)
    with pytest.raises(Infeasible, match="no schedule reaches power"):
        steer(Goal.of(0.5, 0.05, [20]), PlugIn(), 0.95, cap=0.01)
    with pytest.raises(InvalidInput, match="n rows of n\\+1 biases"):
        Schedule(0.5, np.zeros((3, 3)), np.zeros(BIASES.size))
    spiky = BetaMixture((1.0,), (0.3,))
    found = plan(n_tokens=20, alpha=0.05, kl=0.4, signal=spiky, steer=True, gamma=0.5)
    assert dataclasses.asdict(found)["kl"] <= 0.4
