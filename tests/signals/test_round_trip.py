"""Round trips of a profile's texts: laws of the count against brute simulation, files."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy.interpolate import CubicSpline

from powermark import Edits, evaluate, plan
from powermark.detection.text import sources_of
from powermark.errors import FileProblem, InvalidInput
from powermark.signals.edits import CONTEXT_WIDTH
from powermark.signals.profile import Profile
from powermark.signals.profile_file import load_profile, profile_digest, save_profile
from powermark.steering.goal import BIASES, Goal
from powermark.steering.recursion import steer
from tests.signals.profiles import STEPS, TEXTS, copied

H = CONTEXT_WIDTH
OLD = Path(__file__).parent.parent / "golden" / "profile-0.1.npz"


def signal_in(profile: Profile) -> list[np.ndarray]:
    """Return, of each text's counted tokens, whether it and its context are the sampled ones."""
    assert profile.round_trip is not None
    rows = profile.round_trip.step.reshape(TEXTS, STEPS) >= 0
    return [
        np.array([row[t - H : t + 1].all() for t in range(H + 1, STEPS)])
        for row in rows
    ]  # fmt: skip


@given(some.lists(some.integers(0, 3)), some.lists(some.integers(0, 3)))
def test_ids_that_come_back_are_the_same_and_in_order(old: list[int], new: list[int]) -> None:
    places = sources_of(old, new)
    own = places[places >= 0]
    assert (np.diff(own) > 0).all()
    assert [old[place] for place in own] == [
        token for token, place in zip(new, places, strict=True) if place >= 0
    ]
    if old == new:
        assert own.tolist() == list(range(len(old)))


def test_one_word_that_is_merged_otherwise() -> None:
    assert sources_of([1, 2, 3, 4, 5], [1, 2, 9, 5]).tolist() == [0, 1, -1, 4]
    assert sources_of([1, 2, 3], [7, 8, 2, 3]).tolist() == [-1, -1, 1, 2]
    assert sources_of([], [1]).tolist() == [-1]
    far = list(range(2_000))
    assert (sources_of(far, [*far[1:], -5][::-1]) >= 0).sum() == 0  # not looked at more closely


@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_powers_are_those_of_what_a_detector_sees(lost: float) -> None:
    """20,000 drawn texts for each of ten: 4.5 standard errors; clean and edited."""
    profile, n, gamma, delta = copied(lost), STEPS - H - 1, 0.5, 2.0
    rng, draws, edits = np.random.default_rng(3), 20_000, Edits(edit_rate=0.05)
    told = evaluate(gamma, delta, n_tokens=n, alpha=0.05, signal=profile, edits=edits)
    rates = profile.texts.mass.rates(gamma, delta)
    assert rates.size == TEXTS * STEPS
    clean, edited, means = [], [], []
    for text, whole in enumerate(signal_in(profile)):
        own = rates[text * STEPS + H + 1 : (text + 1) * STEPS]
        chance = np.where(whole, own, gamma)
        colours = rng.random((draws, n)) < chance
        kept = rng.random((draws, n + H)) > 0.05
        untouched = np.all([kept[:, i : n + i] for i in range(H + 1)], axis=0)
        left = np.where(untouched, colours, rng.random((draws, n)) < gamma)
        means.append(chance.mean())
        clean.append((colours.sum(axis=1) >= told.critical_count).mean())
        edited.append((left.sum(axis=1) >= told.critical_count).mean())
    error = 4.5 * np.sqrt(0.25 / (draws * TEXTS))
    assert told.gamma_prime == pytest.approx(np.mean(means), abs=1e-9)
    assert told.power == pytest.approx(np.mean(clean), abs=error)
    assert told.attacked_power == pytest.approx(np.mean(edited), abs=error)
    shown = np.concatenate(signal_in(profile)).mean()
    assert profile.text_survival == pytest.approx(shown)
    assert profile.scored_share() == pytest.approx(n / STEPS)


@pytest.mark.parametrize(("n", "slack"), [(27, 0.003), (120, 0.015)])
def test_steered_texts_that_lose_tokens(n: int, slack: float) -> None:
    """10,000 texts for each of ten, by the schedule; what is lost is exchangeable to .003.

    Above 100 tokens edits on top of it are followed by mean rates.
    """
    profile, gamma = copied(0.04), 0.5
    goal = Goal.of(gamma, 0.05, [n], edits=Edits(edit_rate=0.03))
    schedule, told = steer(goal, profile, 0.85, attacked_power=0.5)
    rates, weights, kept = profile.text_rates(gamma, BIASES, n)
    assert weights == pytest.approx(np.full(TEXTS, 1 / TEXTS))
    tiled = [np.resize(whole, n) for whole in signal_in(profile)]
    assert (kept == np.array(tiled)).all()
    rng, draws = np.random.default_rng(5), 10_000
    clean, edited = [], []
    for mine, whole in zip(rates, kept, strict=True):
        seen, greens = np.zeros((draws, n), bool), np.zeros(draws, int)
        for t in range(n):
            chance = CubicSpline(BIASES, mine[t])(schedule(np.full(draws, t), greens))
            colour = rng.random(draws) < chance
            greens += colour
            seen[:, t] = colour if whole[t] else rng.random(draws) < gamma
        alone = rng.random((draws, n + H)) > 0.03
        untouched = np.all([alone[:, i : n + i] for i in range(H + 1)], axis=0)
        left = np.where(untouched, seen, rng.random((draws, n)) < gamma)
        clean.append((seen.sum(axis=1) >= goal.critical_counts[0]).mean())
        edited.append((left.sum(axis=1) >= goal.critical_counts[0]).mean())
    error = 4.5 * np.sqrt(0.25 / (draws * TEXTS))
    assert told.powers[0] == pytest.approx(np.mean(clean), abs=error + 0.003)
    assert told.attacked_power == pytest.approx(np.mean(edited), abs=error + slack)
    on_ids, _ = steer(goal, profile.seen_from("ids"), 0.85, attacked_power=0.5)
    assert on_ids.largest != schedule.largest


def test_lost_tokens_cost_kl() -> None:
    profile = copied(0.04)
    asked: dict[str, Any] = {"n_tokens": 40, "alpha": 0.01, "power": 0.9}
    by_text = plan(**asked, signal=profile)
    by_ids = plan(**asked, signal=profile.seen_from("ids"))
    assert by_text.kl > 1.05 * by_ids.kl
    assert (by_text.profile or {})["source"] == "text"
    assert (by_ids.profile or {})["source"] == "ids"
    assert any("given the sampled token ids" in note for note in by_ids.warnings)
    assert not any("token ids" in note for note in by_text.warnings)
    assert profile.seen_from("text") is profile
    assert profile.name != profile.seen_from("ids").name


def test_a_fixed_share_survives_besides() -> None:
    """Of what edits leave, the text keeps its own share."""
    assert Edits(survival=0.5).thinned(0.8, 100).surviving_share(100) == pytest.approx(0.4)
    assert Edits(removal=0.2).thinned(0.5, 100).surviving_share(100) == pytest.approx(0.39)
    rate = Edits(edit_rate=0.1, context_width=1)
    lost = rate.thinned(0.0, 9)  # a copy loses all
    assert lost.surviving_share(9) == pytest.approx(0.0, abs=1e-12)
    assert rate.thinned(0.9, 9).surviving_share(9) == pytest.approx(0.9 * 0.81)
    assert rate.thinned(1.0, 9) is rate
    assert Edits(removal=0.99).thinned(0.5, 100).surviving_share(100) == 0.0


def test_copies_are_kept_on_disk(tmp_path: Path) -> None:
    found = copied(0.1)
    found.about["digest"] = profile_digest(found)
    save_profile(found, tmp_path / "p.npz")
    again = load_profile(tmp_path / "p.npz")
    assert again.round_trip is not None
    assert again.source == "text"
    assert again.power(20, 15, 0.5, 2.0) == found.power(20, 15, 0.5, 2.0)
    assert again.thinned().text_survival == pytest.approx(
        np.concatenate(signal_in(found)[::2]).mean()
    )
    shares = again.round_trip.shares()
    assert shares["copy"] == pytest.approx((found.round_trip.step >= 0).mean())  # type: ignore[union-attr]
    assert shares["text"] == shares["behind_prompt"] == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": lambda x: x + 1}, "own steps"),
        ({"step": lambda x: np.where(x < 0, -2, x).astype(np.int32)}, "own steps"),
        ({"step": lambda x: x[::-1].copy()}, "in their order"),
        ({"text": lambda x: x[::-1].copy()}, "in their order"),
        ({"ids": lambda x: x[1:]}, "for each token"),
        ({"ids": lambda x: x.astype(np.float32)}, "for each token"),
        ({"returns": lambda x: x[1:]}, "for each token"),
    ],
)
def test_copies_that_do_not_fit_are_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    found = copied(0.1)
    assert found.round_trip is not None
    changed = {name: how(getattr(found.round_trip, name)) for name, how in change.items()}
    object.__setattr__(found, "round_trip", dataclasses.replace(found.round_trip, **changed))
    found.about["digest"] = profile_digest(found)
    save_profile(found, tmp_path / "p.npz")
    with pytest.raises(FileProblem, match=message):
        load_profile(tmp_path / "p.npz")


def test_a_profile_of_0_1_is_read_for_ids() -> None:
    """A real file of powermark 0.1.0: six texts of eight tokens by SmolLM2."""
    found = load_profile(OLD)
    assert found.about["made_by"] == "powermark 0.1.0"
    assert (found.source, found.round_trip, found.text.size) == ("ids", None, 48)
    design = plan(n_tokens=30, alpha=0.05, power=0.8, signal=found)
    assert any("record the profile anew" in note for note in design.warnings)
    with pytest.raises(InvalidInput, match="does not know what its texts lose"):
        found.seen_from("text")
