"""The compiled recursions of steering against readable twins in NumPy and plain Python."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from powermark import BetaMixture, Edits, PlugIn, SignalModel
from powermark.signals.profile import Profile
from powermark.steering import steering_kernels as kernels
from powermark.steering.goal import BIASES, Goal, Tilt
from powermark.theory import gamma_prime, kl_divergence
from tests.signals.profiles import sample

N, GAMMA = 9, 0.4
SIGNALS: list[SignalModel] = [PlugIn(), BetaMixture((0.5, 0.5), (1.0, 30.0)), sample()[1]]


def effect(tilt: Tilt, text: int, step: int, delta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Green rate and KL of biases at a step: the spline, and the integral of it."""
    if tilt.exact:
        return gamma_prime(tilt.gamma, delta), kl_divergence(tilt.gamma, delta)
    steps = tilt.nodes[text]
    spline = CubicSpline(BIASES, steps[min(step, len(steps) - 1), 0])
    rate = spline(delta)
    return np.clip(rate, 0.0, 1.0), np.maximum(delta * rate - spline.antiderivative()(delta), 0.0)


def some_deltas(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.0, 4.0, (N, N + 1))


@pytest.mark.parametrize("signal", SIGNALS[:2], ids=lambda signal: signal.name)
@pytest.mark.parametrize("cap", [1.0, 50.0])
def test_best_biases(signal: SignalModel, cap: float) -> None:
    """The recursion of the module's docstring, all s of a t at once."""
    goal, tilt = Goal.of(GAMMA, 0.1, [5, N]), Tilt.of(signal, GAMMA, N)
    rewards, going = 3.0 * goal.rewards(tilt), np.linspace(1.0, 0.4, N)
    lengths = np.array([5, N])
    got = kernels.best_biases(rewards, lengths, going, tilt.average, GAMMA, tilt.exact, cap)
    worth, want = np.zeros(N + 1), np.zeros((N, N + 1))
    for t in range(N, 0, -1):
        for length, reward in zip((5, N), rewards, strict=True):
            worth = worth + reward[: worth.size] * (length == t)
        gain = np.diff(worth)
        want[t - 1, :t] = delta = np.clip(gain / going[t - 1], 0.0, cap)
        rate, cost = effect(tilt, 0, 0, delta)
        worth = worth[:-1] + rate * gain - going[t - 1] * cost
    np.testing.assert_allclose(got, want, atol=1e-10)


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_follow(signal: SignalModel) -> None:
    """Every sequence of colours of a text, with its probability and its KL."""
    goal, tilt, deltas = Goal.of(GAMMA, 0.1, [5, N]), Tilt.of(signal, GAMMA, N), some_deltas(1)
    texts = 3 if isinstance(signal, Profile) else 1
    lengths, nodes = np.array([5, N]), tilt.nodes[:texts]
    lost, reach = np.resize([[0, 1], [1, 2]], (texts, 2)), goal.reach(2)
    got = kernels.follow(deltas, lengths, reach, lost, nodes, GAMMA, tilt.exact)
    colours = np.arange(2**N)[:, None] >> np.arange(N) & 1
    before = np.cumsum(colours, axis=1) - colours  # greens before each token
    for text, found in enumerate(zip(*got, strict=True)):
        each = [effect(tilt, text, t, deltas[t, before[:, t]]) for t in range(N)]
        rates, costs = (np.stack(values, axis=1) for values in zip(*each, strict=True))
        chance = np.where(colours, rates, 1.0 - rates).prod(axis=1)
        spent, greens = costs.sum(axis=1), colours.sum(axis=1)
        powers = [
            chance @ reach[i, lost[text, i]][colours[:, :n].sum(axis=1)]
            for i, n in enumerate(lengths)
        ]
        law = np.bincount(greens, chance)
        want = (law, chance @ spent, chance @ spent**2, chance @ greens, powers)
        for mine, theirs in zip(found, want, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-10)


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_follow_answers(signal: SignalModel) -> None:
    """To its last end a text is followed as any text of that length is."""
    tilt, deltas, ends = Tilt.of(signal, GAMMA, N), some_deltas(1), np.array([[3, 7], [2, N]])
    rewards = np.random.default_rng(2).random((2, 2, 2, N + 1))
    found, kls, greens = kernels.follow_answers(
        deltas, ends, rewards, tilt.nodes, GAMMA, tilt.exact
    )
    for text, end in np.ndindex(2, 2):
        n = ends[text, end]
        nodes = tilt.nodes[min(text, len(tilt.nodes) - 1)][None]
        none = np.zeros((1, 1), int)
        reach = rewards[text, end, 0][None, None]
        law, kl, _, green, power = kernels.follow(
            deltas[:n, : n + 1], np.array([n]), reach[:, :, : n + 1], none, nodes, GAMMA, tilt.exact
        )
        assert found[text, end, 0] == pytest.approx(power[0, 0], abs=1e-12)
        assert found[text, end, 1] == pytest.approx(law[0] @ rewards[text, end, 1, : n + 1])
        assert (kls[text, end], greens[text, end]) == pytest.approx((kl[0], green[0]), abs=1e-12)


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.name)
def test_the_rates_of_states_are_those_of_biases(signal: SignalModel) -> None:
    tilt, deltas = Tilt.of(signal, GAMMA, N), some_deltas(4)
    for bias, rate in zip(deltas[0], tilt.of_states(deltas)[0], strict=True):
        assert rate == pytest.approx(float(signal.green_rate(GAMMA, bias)), abs=0.02)


def edited_by_state(rates: np.ndarray, kept: np.ndarray, k: int, edit_rate: float, h: int) -> float:
    """P(k greens or more are left)."""
    law = edited_law(rates, kept, edit_rate, h)
    return sum(mass for (_, left), mass in law.items() if left >= k)


def edited_law(
    rates: np.ndarray, kept: np.ndarray, edit_rate: float, h: int
) -> dict[tuple[int, int], float]:
    """Law of greens written and left, by the state (written, left, run): a twin to be read."""
    state_law = {(0, 0, h): (1.0 - edit_rate) ** h}
    for run in range(h):
        state_law[0, 0, run] = (1.0 - edit_rate) ** run * edit_rate
    for t in range(N):
        after: dict[tuple[int, int, int], float] = {}
        for (written, left, run), mass in state_law.items():
            for green, colour in ((1, rates[t, written]), (0, 1.0 - rates[t, written])):
                for touched, edit in ((True, edit_rate), (False, 1.0 - edit_rate)):
                    next_run = 0 if touched else min(run + 1, h)
                    intact = not touched and run == h and kept[t]
                    outcomes = [(green, 1.0)] if intact else [(1, GAMMA), (0, 1.0 - GAMMA)]
                    for seen, chance in outcomes:
                        state = (written + green, left + seen, next_run)
                        after[state] = after.get(state, 0.0) + mass * colour * edit * chance
        state_law = after
    law: dict[tuple[int, int], float] = {}
    for (written, left, _), mass in state_law.items():
        law[written, left] = law.get((written, left), 0.0) + mass
    return law


@pytest.mark.parametrize("h", [0, 1, 3])
@pytest.mark.parametrize("k", [1, 5, N])
def test_edited_power(h: int, k: int) -> None:
    rng = np.random.default_rng(h)
    rates, kept = rng.random((N, N + 1)), rng.random(N) < 0.7
    got = kernels.edited_power(rates, kept, k, GAMMA, 0.2, h)
    assert got == pytest.approx(edited_by_state(rates, kept, k, 0.2, h), abs=1e-11)


def test_edited_powers() -> None:
    """Each text with its own rates; a text without weight is not followed."""
    tilt, deltas, k, edits = Tilt.of(SIGNALS[2], GAMMA, N), some_deltas(2), 5, Edits(edit_rate=0.1)
    weights, kept = np.array([0.5, 0.0, 0.5]), np.random.default_rng(3).random((3, N)) < 0.8
    rule = (edits.edit_rate, edits.context_width)
    got = kernels.edited_powers(deltas, k, tilt.nodes[:3], kept, weights, GAMMA, tilt.exact, *rule)
    assert got[1] == 0.0
    for text in (0, 2):
        rates = np.stack([effect(tilt, text, t, deltas[t])[0] for t in range(N)])
        assert edits.edit_rate is not None
        want = edited_by_state(rates, kept[text], k, edits.edit_rate, edits.context_width)
        assert got[text] == pytest.approx(want, abs=1e-10)


@pytest.mark.parametrize("h", [0, 2])
def test_edited_moments(h: int) -> None:
    """The law of (written, left), every state followed: its moments by greens written."""
    tilt, deltas = Tilt.of(SIGNALS[2], GAMMA, N), some_deltas(4)
    kept = np.random.default_rng(5).random((3, N)) < 0.8
    got = kernels.edited_moments(deltas, tilt.nodes[:3], kept, GAMMA, tilt.exact, 0.2, h)
    for text in range(3):
        rates = np.stack([effect(tilt, text, t, deltas[t])[0] for t in range(N)])
        want = np.zeros((3, N + 1))
        for (written, left), mass in edited_law(rates, kept[text], 0.2, h).items():
            want[:, written] += mass * np.array([1.0, left, left**2])
        np.testing.assert_allclose([each[text] for each in got], want, atol=1e-10)
