"""The compact law in a spec: powers at other lengths, within thousandths of the profile's own."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark import Detector, InvalidInput, PlugIn, plan
from powermark.signals.profile import Profile
from powermark.signals.spread import Spread
from powermark.steering.goal import BIASES, Goal, Tilt
from powermark.steering.recursion import forward
from powermark.steering.schedule import Schedule
from powermark.theory.power import binomial_tail, critical_count
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from tests.signals.profiles import copied

KEY = SecretKey(bytes(range(32)))
OLD = Path(__file__).parent.parent / "golden" / "steered-0.1.json"
ASKED: dict[str, Any] = {"n_tokens": 60, "alpha": 0.01, "power": 0.9}


@pytest.fixture(scope="module")
def profile() -> Profile:
    return copied(0.02)


@pytest.mark.parametrize("gamma", [0.25, 0.5, 0.75])
def test_reports_state_the_power_of_the_profile(profile: Profile, gamma: float) -> None:
    """Of every length, by the spec alone, to .012; the mean rate alone is twice as far off."""
    design = plan(**ASKED, gamma=gamma, signal=profile)
    spec = WatermarkSpec.from_dict(WatermarkSpec.from_plan(design, vocab_size=500).to_dict())
    detector = Detector(spec, KEY)
    worst = at_mean = 0.0
    for n in range(2, 200):
        k = int(critical_count(n, gamma, 0.01))
        own = profile.power(n, k, gamma, design.delta)
        worst = max(worst, abs(detector.power_at(n) - own))
        at_mean = max(at_mean, abs(float(binomial_tail(n, k, design.gamma_prime)) - own))
    assert worst < 0.012
    assert at_mean > 2 * worst
    assert len(json.dumps(design.spread)) < 500


def test_too_short_a_text_is_inconclusive() -> None:
    """Where four of five would be found at the mean rate, and fewer as texts differ."""
    spec = WatermarkSpec.from_plan(plan(**ASKED, gamma=0.5), vocab_size=500)
    plain, design = Detector(spec, KEY), spec.design or {}
    rate = design["gamma_prime"]
    varied = {**design, "spread": [[2.0, rate, 0.05], [240.0, rate, 0.05]]}
    detector = Detector(dataclasses.replace(spec, design=varied), KEY)
    n = next(n for n in range(2, 60) if plain.power_at(n) >= 0.8)
    assert detector.power_at(n) < 0.77
    ids = np.random.default_rng(1).permutation(500)[: n + 2]
    assert plain.detect(ids).verdict == "no watermark found"
    assert detector.detect(ids).verdict == "inconclusive"
    assert plain.tokens_needed is not None
    assert detector.tokens_needed is not None
    assert detector.tokens_needed > plain.tokens_needed
    assert detector.power_at(detector.tokens_needed) >= 0.8
    other = Detector(dataclasses.replace(spec, design=varied), KEY, gamma_prime=0.8)
    k = int(critical_count(n, 0.5, 0.01))
    assert other.power_at(n) == pytest.approx(float(binomial_tail(n, k, 0.8)))


@pytest.mark.parametrize("kind", ["evalue", "winmax-c"])
def test_other_detectors_know_that_texts_differ(profile: Profile, kind: Any) -> None:
    """Against the profile's own texts, drawn or followed one by one."""
    from powermark.statistics.evalue import EvalueTest
    from powermark.statistics.windows import WindowTest

    design = plan(**ASKED, gamma=0.5, signal=profile)
    detector = Detector(WatermarkSpec.from_plan(design, vocab_size=500), KEY, detector=kind)
    rates, weights, kept = profile.text_rates(0.5, np.array([design.delta]), 60)
    each = np.where(kept, rates[..., 0], 0.5)
    if kind == "evalue":
        own = float(weights @ EvalueTest(60, 0.5, detector.bet).powers(each, 0.01))
    else:
        own = WindowTest(kind, 60, 0.5).power(each, 0.01, weights=weights)
    assert detector.power_at(60) == pytest.approx(own, abs=0.04)


def test_tokens_that_are_independent_have_no_spread() -> None:
    assert plan(**ASKED).spread is None
    alone = Spread(np.array([2.0]), np.array([0.7]), np.zeros(1))
    assert alone.power(30, 20) == pytest.approx(float(binomial_tail(30, 20, 0.7)))
    assert alone.text_rates(30, 5).tolist() == [0.7]
    wide = Spread(np.array([2.0]), np.array([0.7]), np.array([0.1]))
    assert wide.text_rates(30, 400).mean() == pytest.approx(0.7, abs=0.002)
    assert Spread.from_list(wide.to_list()).moments(9) == wide.moments(9)


@pytest.mark.parametrize("gamma", [0.1, 0.5])
def test_a_schedule_knows_the_texts_it_was_planned_for(profile: Profile, gamma: float) -> None:
    """Every length of a block, against each text followed on its own."""
    design = plan(**ASKED, gamma=gamma, signal=profile, steer=True)
    assert design.steering is not None
    assert design.spread is None
    schedule = Schedule.from_dict(design.steering, gamma)
    assert schedule.weights.size > 2
    assert schedule.lost.max() > 0.0
    lengths = [10, 20, 30, 40, 50, 60]
    goal = Goal.of(gamma, 0.01, lengths)
    signal = profile.at_strength(design.gamma_prime - gamma)
    told = forward(goal, Tilt.of(signal, gamma, 60), schedule.deltas).powers
    mean = Schedule(gamma, schedule.deltas, schedule.weights @ schedule.rates)
    off, plain = (
        max(
            abs(each.power(n, k) - own)
            for n, k, own in zip(lengths, goal.critical_counts, told, strict=True)
        )
        for each in (schedule, mean)
    )
    assert off < 0.03
    assert plain > 2 * off
    drawn = schedule.draw(4_000, 60, np.random.default_rng(0)).sum(axis=1)
    share = (drawn >= goal.critical_counts[-1]).mean()
    assert share == pytest.approx(schedule.power(60, goal.critical_counts[-1]), abs=0.03)


def test_a_steered_spec_of_0_1_is_read_and_counts_as_it_was_written() -> None:
    """A real file of powermark 0.1.0: its texts are marked from the third token on."""
    spec = WatermarkSpec.load(OLD)
    schedule = spec.schedule
    assert schedule is not None
    assert (schedule.skipped, schedule.weights.tolist(), schedule.lost.tolist()) == (
        0,
        [1.0],
        [0.0],
    )
    ids = np.random.default_rng(0).permutation(200)[:14]
    assert Detector(spec, KEY).detect(ids).scored == 12
    assert spec.to_dict() == json.loads(OLD.read_text())
    again = Schedule.from_dict(schedule.to_dict(), spec.gamma)
    assert again.skipped == 0
    assert again.power(12, 9) == pytest.approx(schedule.power(12, 9), abs=1e-4)
    assert plan(n_tokens=12, alpha=0.05, power=0.8, steer=True).steering["skipped"] == 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [0.5]}, "add up to 1"),
        ({"weights": [0.5, 0.5]}, "for each of its 2 groups"),
        ({"lost": [2.0]}, "are from 0 to 1"),
        ({"lost": [0.0, 0.0]}, "a share lost for each"),
        ({"rates": [0.5] * 56}, "must be a schedule"),
        ({"weights": [1 / 17] * 17}, "must be a schedule"),
        ({"skipped": 2}, "must be a schedule"),
        ({"skipped": True}, "must be a schedule"),
        ({"more": 1}, "must be a schedule"),
    ],
)
def test_groups_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    sound = Schedule(0.5, np.zeros((2, 3)), np.full(BIASES.size, 0.5)).to_dict()
    with pytest.raises(InvalidInput, match=message):
        Schedule.from_dict(sound | change, 0.5)


@pytest.mark.parametrize(
    ("spread", "message"),
    [
        ([], "must be rows of a length"),
        ([[2.0, 0.5]], "must be rows of a length"),
        ([[2.0, 1.5, 0.0]], "rates must be in"),
        ([[0.0, 0.5, 0.0]], "lengths must be in"),
        ([[2.0, 0.5, 3.0]], "correlations must be in"),
        ([[3.0, 0.5, 0.0], [2.0, 0.5, 0.0]], "lengths must ascend"),
        (None, None),
    ],
)
def test_an_invalid_spread_is_refused(spread: Any, message: str | None) -> None:
    design = plan(**ASKED, signal=PlugIn())
    whole = WatermarkSpec.from_plan(design, vocab_size=500)
    changed = {**(whole.design or {}), "spread": spread}
    if message is None:
        assert dataclasses.replace(whole, design=changed) == whole
        return
    with pytest.raises(InvalidInput, match=message):
        dataclasses.replace(whole, design=changed)
