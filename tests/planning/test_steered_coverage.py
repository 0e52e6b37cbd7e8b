"""Steered plans for answers of any length, against simulated texts."""

import dataclasses
import json

import numpy as np
import pytest

from powermark import Lengths, PlugIn, Profile, Sampling, Steering, plan
from powermark.errors import Infeasible, InvalidInput
from powermark.generation.writing import write_pairs
from powermark.measuring.record_profile import record_profile
from powermark.measuring.verify import verify
from powermark.models import LanguageModel
from powermark.planning.plan import Plan
from powermark.signals.edits import Edits
from powermark.steering.answers import Answers
from powermark.steering.goal import matched_reward, read_reward
from powermark.steering.schedule import LONGEST, Schedule
from powermark.theory.power import critical_count
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from tests.conftest import VOCAB
from tests.planning.test_coverage import uneven
from tests.signals.profiles import copied

KEY = SecretKey(bytes(range(32)))
DRAWS = 4_000


def simulated(profile: Profile, found: Plan, edits: Edits) -> tuple[float, float, float]:
    """Write every text of a profile many times; return coverage, coverage after edits, and KL."""
    rng, of = np.random.default_rng(5), profile.texts
    schedule = Schedule.from_dict(found.steering, found.gamma)
    biases = np.linspace(0.0, schedule.largest, 400)
    rates = np.stack([of.mass.rates(found.gamma, float(d)) for d in biases], axis=-1)
    costs = np.stack([of.mass.costs(found.gamma, float(d)) for d in biases], axis=-1)
    clean, attacked, spent, tokens = list[float](), list[float](), 0.0, 0.0
    weights = profile.text_weights(found.gamma, 1.0)
    for weight, steps, seen in zip(weights, of.steps, of.seen, strict=True):
        n, late = seen.size, steps[of.unread :]
        greens, kl, colours = np.zeros(DRAWS, int), np.zeros(DRAWS), np.zeros((DRAWS, n), bool)
        for t in range(n):
            step = late[t % late.size]
            bias = schedule(np.full(DRAWS, t), greens)
            colours[:, t] = rng.random(DRAWS) < np.interp(bias, biases, rates[step])
            kl += np.interp(bias, biases, costs[step])
            greens += colours[:, t]
        lost = ~np.isin(np.resize(late, n), seen)
        k = int(critical_count(n, found.gamma, found.alpha))
        touched = rng.random((DRAWS, n + 2)) < (edits.edit_rate or 0.0)
        hit = touched[:, 2:] | touched[:, 1:-1] | touched[:, :-2]
        for gone, results in ((np.broadcast_to(lost, hit.shape), clean), (hit | lost, attacked)):
            read = np.where(gone, rng.random(gone.shape) < found.gamma, colours)
            results.append((read.sum(axis=1) >= k).mean())
        spent, tokens = spent + weight * kl.mean(), tokens + weight * n
    return float(weights @ clean), float(weights @ attacked), float(spent / tokens)


@pytest.mark.parametrize("edit_rate", [None, 0.05])
def test_a_plan_keeps_its_promise_on_simulated_texts(edit_rate: float | None) -> None:
    profile = uneven()
    constant = plan(alpha=0.05, coverage=0.7, signal=profile, edit_rate=edit_rate)
    found = plan(alpha=0.05, coverage=0.7, signal=profile, edit_rate=edit_rate, steer=True)
    clean, attacked, kl = simulated(profile, found, Edits(edit_rate=edit_rate))
    assert found.coverage == pytest.approx(clean, abs=0.01)
    assert found.kl == pytest.approx(kl, rel=0.01)
    if edit_rate is not None:
        assert found.attacked_coverage == pytest.approx(attacked, abs=0.012)
    reached = found.coverage if edit_rate is None else found.attacked_coverage
    assert reached is not None
    assert 0.7 <= reached < 0.71
    assert found.kl < 0.85 * constant.kl  # steering is worth its name
    assert found.constant is not None
    assert found.constant["kl"] == pytest.approx(constant.kl)
    assert found.standard_errors is not None
    assert found.standard_errors["coverage"] > 0.0
    again = Plan.from_dict(json.loads(json.dumps(found.to_dict())), found.steering)
    assert (again.coverage, again.power_by_length) == (found.coverage, found.power_by_length)


def test_the_longest_texts_may_be_those_of_another_strength() -> None:
    """Texts written under a much stronger mark say nothing of this one; two are the longest."""
    profile = uneven()
    strength = profile.strength.copy()
    strength[np.isin(profile.text, [3, 8])] = 0.5
    strength[np.isin(profile.text, [22, 23])] = 5.0
    other = dataclasses.replace(profile, strength=strength)
    found = plan(alpha=0.05, coverage=0.7, signal=other, steer=True)
    longest = np.bincount(other.text)[:22].max()
    assert Schedule.from_dict(found.steering, found.gamma).n_tokens == longest
    names = ("head", "tail_mass", "tail_square", "text", "ids", "strength")
    rest = {name: getattr(other, name)[other.text < 22] for name in names}
    without = plan(alpha=0.05, coverage=0.7, signal=dataclasses.replace(other, **rest), steer=True)
    assert found.coverage == pytest.approx(without.coverage, abs=1e-3)
    assert found.kl == pytest.approx(without.kl, rel=0.01)


def test_tokens_that_a_copy_loses_are_in_the_coverage() -> None:
    profile = copied(0.1)
    found = plan(alpha=0.2, coverage=0.6, signal=profile, steer=True)
    clean, _, kl = simulated(profile, found, Edits())
    assert found.coverage == pytest.approx(clean, abs=0.012)
    assert found.kl == pytest.approx(kl, rel=0.015)


def test_no_other_green_share_is_cheaper() -> None:
    best = plan(alpha=0.05, coverage=0.7, signal=uneven(), steer=True)
    for gamma in (0.1, 0.25, 0.5):
        other = plan(alpha=0.05, coverage=0.7, signal=uneven(), steer=True, gamma=gamma)
        assert best.kl < 1.03 * other.kl


def test_given_lengths_without_a_profile() -> None:
    lengths = Lengths.of([0, *range(20, 60)])
    found = plan(alpha=0.01, coverage=0.9, lengths=lengths, steer=True)
    constant = plan(alpha=0.01, coverage=0.9, lengths=lengths)
    assert found.kl < constant.kl
    assert found.n_tokens <= 59
    assert found.power_by_length is not None
    assert found.power_by_length["50"] > 0.9
    assert found.standard_errors is None
    one = plan(n_tokens=50, alpha=0.01, power=0.9, lengths=lengths, steer=True, edit_rate=0.05)
    assert one.coverage is not None
    assert one.attacked_coverage is not None
    assert one.attacked_coverage < one.coverage < 0.9  # most answers are shorter than 50
    strict = plan(n_tokens=50, alpha=0.01, power=0.9, lengths=Lengths.of([1]), steer=True)
    assert strict.coverage == 0.0  # no test at this length


@pytest.mark.parametrize("edit_rate", [0.02, 0.1])
@pytest.mark.parametrize(("n", "gamma"), [(40, 0.3), (150, 0.5)])
def test_a_reward_by_moments(edit_rate: float, n: int, gamma: float) -> None:
    """Against edits at random, averaged over the counts of marked texts."""
    edits, k = Edits(edit_rate=edit_rate), int(critical_count(n, gamma, 0.01))
    rng, draws = np.random.default_rng(n), 40_000
    greens = rng.random((draws, n)) < gamma + 0.25
    touched = rng.random((draws, n + 2)) < edit_rate
    hit = touched[:, 2:] | touched[:, 1:-1] | touched[:, :-2]
    read = np.where(hit, rng.random(hit.shape) < gamma, greens).sum(axis=1)
    found = matched_reward(n, k, gamma, edits)[greens.sum(axis=1)].mean()
    assert found == pytest.approx((read >= k).mean(), abs=0.01)
    assert matched_reward(n, k, gamma, Edits()) == pytest.approx(read_reward(n, k, gamma, 0))


def test_what_a_steered_coverage_cannot_be() -> None:
    some = Lengths.of([50])
    with pytest.raises(InvalidInput, match="`coverage` takes no `checkpoints`"):
        plan(coverage=0.9, lengths=some, alpha=0.05, steer=Steering(checkpoints=(20,)))
    with pytest.raises(InvalidInput, match="`detector` evalue takes no `lengths`"):
        plan(n_tokens=50, alpha=0.05, power=0.9, lengths=some, detector="evalue")
    with pytest.raises(InvalidInput, match=f"answers of up to {LONGEST:,} tokens"):
        plan(coverage=0.9, lengths=Lengths.of([50, 5_000]), alpha=0.05, steer=True)
    with pytest.raises(Infeasible, match=r"no schedule finds a share 0\.95"):
        plan(coverage=0.95, lengths=some, alpha=0.01, steer=True, delta_cap=0.1)


def test_where_nothing_is_needed_the_bias_is_none() -> None:
    answers = Answers(
        PlugIn(), 0.5, alpha=0.3, ends=np.array([[30]]), shares=np.ones(1), edits=Edits()
    )
    found = plan(alpha=0.3, coverage=0.301, lengths=Lengths.of([31]), steer=True)
    assert found.kl < 1e-3
    assert answers.forward(np.zeros((30, 31))).kl == 0.0


def test_answers_of_which_nothing_counts_are_not_found(writer: LanguageModel) -> None:
    whole = uneven()
    some = dataclasses.replace(whole, about={"answered": 0.8})
    options = {"alpha": 0.05, "gamma": 0.25, "coverage": 0.5}
    full, part = plan(signal=whole, **options), plan(signal=some, **options)  # type: ignore[arg-type]
    assert part.kl > full.kl
    assert part.lengths is not None
    assert part.lengths["q5"] == 0.0
    steered = plan(signal=some, steer=True, **options)  # type: ignore[arg-type]
    assert steered.coverage == pytest.approx(0.5, abs=0.005)
    with pytest.raises(Infeasible):
        plan(signal=some, alpha=0.05, coverage=0.85)
    recorded = record_profile(writer, [f"w{i}" for i in range(2, 14)], Sampling(n_tokens=20))
    assert recorded.about["answered"] == 1.0


def test_verify_knows_a_steered_coverage(writer: LanguageModel) -> None:
    prompts = [f"w{i}" for i in range(2, 74)]
    profile = record_profile(writer, prompts, Sampling(n_tokens=60))
    found = plan(alpha=0.05, coverage=0.8, signal=profile, edit_rate=0.02, steer=True)
    spec = WatermarkSpec.from_plan(found, vocab_size=VOCAB)
    assert spec.plan is not None
    mark = Watermark(spec, KEY)
    marked, unmarked = write_pairs(mark, writer, prompts, Sampling(n_tokens=60), seed=9, batch=36)
    result = verify(mark, spec.plan, marked, unmarked, tokenizer=writer.tokenizer, profile=profile)
    assert result.broken == []
    checks = {check.name: check for check in result.checks}
    assert checks.keys() == {"gamma_prime", "kl", "coverage", "size", "attacked_coverage"}
    for name in ("coverage", "attacked_coverage", "gamma_prime"):
        theirs = checks[name].profile
        assert theirs == pytest.approx(checks[name].promised, abs=0.05), name
    assert checks["kl"].profile == pytest.approx(checks["kl"].promised, rel=0.1)
