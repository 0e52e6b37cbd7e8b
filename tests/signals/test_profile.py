"""Profiles: the signal of given distributions, against lists drawn at random and exact laws."""

import dataclasses
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from powermark import Edits, evaluate, plan
from powermark.errors import FileProblem, InvalidInput
from powermark.signals.green_mass import GreenMass, beta_quadrature
from powermark.signals.profile import Profile
from powermark.signals.profile_file import load_profile, save_profile
from powermark.theory.distortion import token_kl
from powermark.theory.green_rate import token_green_rate
from powermark.theory.roots import fixed_point
from tests.signals.profiles import STEPS, TEXTS, VOCAB, sample


@pytest.mark.parametrize("gamma", [0.25, 0.5, 0.9, 0.95])
@pytest.mark.parametrize("delta", [0.5, 2.0, 5.0])
def test_rates_and_costs_are_those_of_random_lists(gamma: float, delta: float) -> None:
    """Averages over 60 lists a step; 4.5 standard errors, plus .001 for the quadrature."""
    full, profile = sample()
    rng = np.random.default_rng(1)
    masses = np.array([(full * (rng.random(full.shape) < gamma)).sum(axis=1) for _ in range(60)])
    masses = np.clip(masses, 0.0, 1.0)
    for function, got in ((token_green_rate, profile.green_rate), (token_kl, profile.kl)):
        drawn = np.asarray(function(masses, delta)).mean(axis=1)
        error = drawn.std(ddof=1) / np.sqrt(drawn.size)
        assert abs(float(got(gamma, delta)) - drawn.mean()) < 4.5 * error + 0.001


def test_flat_distributions_are_the_plug_in() -> None:
    steps = 5
    flat = Profile(
        np.full((steps, 64), 1e-5, np.float32),
        np.full(steps, 1 - 64e-5, np.float32),
        np.full(steps, 1e-5, np.float32),
        np.zeros(steps, np.int32),
        np.arange(steps, dtype=np.int32),
        np.zeros(steps, np.float32),
    )
    ours = evaluate(0.9, 3.0, n_tokens=60, alpha=0.05, signal=flat)
    theirs = evaluate(0.9, 3.0, n_tokens=60, alpha=0.05)
    assert ours.kl == pytest.approx(theirs.kl, rel=1e-3)
    assert ours.power == pytest.approx(theirs.power, abs=1e-3)
    assert ours.signal == "profile(unnamed)"
    assert ours.standard_errors is None  # one text says nothing of others
    alone = plan(n_tokens=60, alpha=0.05, power=0.9, signal=flat)
    assert "one text, which says nothing about others" in alone.warnings[0]


def test_quadrature_has_the_moments_of_the_beta_law() -> None:
    a, b = np.array([0.02, 0.5, 3.0, 400.0]), np.array([0.3, 0.5, 1.0, 100.0])
    x, w = beta_quadrature(a, b)
    for power in range(8):  # four nodes are exact to degree seven
        want = [stats.beta(i, j).moment(power) if power else 1.0 for i, j in zip(a, b, strict=True)]
        np.testing.assert_allclose((w * x**power).sum(axis=1), want, rtol=1e-9)


def test_power_is_the_share_of_texts_that_are_found() -> None:
    """Simulated from the distributions themselves: 40,000 texts, 4.5 standard errors and .003."""
    full, profile = sample()
    gamma, delta, n, k = 0.8, 3.0, STEPS, 29
    rng, found = np.random.default_rng(3), 0
    for _ in range(4_000):
        y = np.clip((full * (rng.random(full.shape) < gamma)).sum(axis=1), 0.0, 1.0)
        green = rng.random(y.size) < np.asarray(token_green_rate(y, delta))
        found += int((green.reshape(TEXTS, n).sum(axis=1) >= k).sum())
    share = found / 40_000
    power = profile.power(n, k, gamma, delta)
    assert power == pytest.approx(share, abs=4.5 * np.sqrt(share / 40_000) + 0.003)
    assert profile.variance_inflation(200, 0.25, 3.0) > 1.1  # texts differ
    nothing, sure = np.zeros_like(profile.tail_mass), np.zeros_like(profile.head)
    sure[:, 0] = 1.0
    certain = dataclasses.replace(profile, head=sure, tail_mass=nothing, tail_square=nothing)
    assert certain.variance_inflation(10, 0.5, 700.0) >= 1.0
    errors = profile.standard_errors(n, k, gamma, delta)
    assert errors is not None
    assert errors.keys() == {"gamma_prime", "kl", "power"}
    assert all(0.0 < error < 0.2 for error in errors.values())


@pytest.mark.parametrize("edits", [{}, {"edit_rate": 0.05}])
def test_plans_reach_their_power_on_the_profile(edits: dict[str, Any]) -> None:
    _, profile = sample()
    best = plan(n_tokens=60, alpha=0.05, power=0.8, signal=profile, **edits)
    assert best.power >= 0.8
    assert best.size <= 0.05
    assert best.signal == profile.name
    if edits:
        assert best.attacked_power is not None
        assert best.power > best.attacked_power >= 0.8
    else:
        assert profile.power(60, best.critical_count, best.gamma, best.delta) == best.power
        inflated = evaluate(
            best.gamma, best.delta, n_tokens=60, alpha=0.05, signal=profile, variance_inflation=3.0
        )
        assert inflated.power <= best.power


def test_repeats_are_not_counted() -> None:
    _, profile = sample()
    looped = dataclasses.replace(profile, ids=np.zeros_like(profile.ids))
    assert looped.scored_share(2) == pytest.approx(3 / STEPS)  # two after the prompt, and one
    assert 0.8 < profile.scored_share() <= 1.0
    assert profile.scored_share(200) == 1.0
    # a loop does not count: the same profile as without it
    ids = profile.ids.copy()
    again = (np.arange(ids.size) % STEPS) >= 20
    ids[again] = 7
    ids[np.roll(again, -1) & ~again] = 7
    looping = dataclasses.replace(profile, ids=ids)
    place = np.arange(ids.size) % STEPS
    without = _part(dataclasses.replace(profile, ids=ids), place < 22)
    assert float(looping.kl(0.5, 2.0)) == pytest.approx(float(without.kl(0.5, 2.0)), rel=1e-9)


def test_profiles_come_back_from_their_file(tmp_path: Path) -> None:
    _, profile = sample()
    path = tmp_path / "p.npz"
    save_profile(profile, path)
    again = load_profile(path)
    assert again.about == profile.about
    assert again.name == profile.name == f"profile({profile.about['digest'][:12]})"
    assert float(again.kl(0.5, 2.0)) == float(profile.kl(0.5, 2.0))
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 0xFF
    for wrong in (bytes(damaged),):
        path.write_bytes(wrong)
        with pytest.raises(FileProblem):
            load_profile(path)
    for broken in (b"", b"PK", content[: len(content) // 2], b"no profile"):
        path.write_bytes(broken)
        with pytest.raises(FileProblem, match="not a profile, or is cut off"):
            load_profile(path)
    with pytest.raises(FileProblem, match="cannot read"):
        load_profile(tmp_path / "none.npz")
    with pytest.raises(FileProblem, match="cannot read"):
        load_profile(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "is not a profile"),
        ({"version": 3}, "has version 3; this powermark reads up to 2"),
        ({"version": "1"}, "is not a profile"),
        ({"temperature": 0.7}, "was changed after it was written"),
    ],
)
def test_changed_profiles_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    _, profile = sample()
    path = tmp_path / "p.npz"
    save_profile(profile, path)
    with np.load(path) as found:
        arrays = dict(found)
    arrays["about"] = np.array(json.dumps(json.loads(str(arrays["about"])) | change))
    np.savez(path, **arrays)
    with pytest.raises(FileProblem, match=message):
        load_profile(path)


def test_shapes_are_checked() -> None:
    _, profile = sample()
    for wrong in (
        {"text": profile.text[:-1]},
        {"head": profile.head[0, 0]},
        {"head": profile.head[:, :0]},
        {"ids": profile.ids.astype(str)},
    ):
        with pytest.raises(InvalidInput, match="for each step"):
            dataclasses.replace(profile, **wrong)
    with pytest.raises(InvalidInput, match="needs unmarked text"):
        dataclasses.replace(profile, strength=profile.strength + 0.5)


def test_edited_power_is_that_of_edited_texts() -> None:
    """4,000 rounds of 10 texts with substituted tokens: 4.5 standard errors and .003."""
    full, profile = sample()
    edits, gamma, delta, k = Edits(edit_rate=0.1, context_width=2), 0.5, 3.0, 20
    rng, found = np.random.default_rng(4), 0
    for _ in range(4_000):
        y = np.clip((full * (rng.random(full.shape) < gamma)).sum(axis=1), 0.0, 1.0)
        rates = np.asarray(token_green_rate(y, delta)).reshape(TEXTS, STEPS)
        kept = rng.random((TEXTS, STEPS + 2)) > 0.1  # two tokens stand before the first
        whole = kept[:, 2:] & kept[:, 1:-1] & kept[:, :-2]
        green = rng.random(rates.shape) < np.where(whole, rates, gamma)
        found += int((green.sum(axis=1) >= k).sum())
    share = found / 40_000
    power = profile.attacked_power(edits, STEPS, k, gamma, delta)
    assert power == pytest.approx(share, abs=4.5 * np.sqrt(share / 40_000) + 0.003)
    cut = profile.attacked_power(Edits(removal=0.5, context_width=2), STEPS, k, gamma, delta)
    assert cut < profile.power(STEPS, k, gamma, delta)


def test_strong_marks_are_read_off_texts_written_under_strong_marks() -> None:
    """Flat steps under a mark, spiky ones without: the design's own strength says which count."""
    _, profile = sample()
    spiky = profile.text < TEXTS // 2
    both = dataclasses.replace(profile, strength=np.where(spiky, 0.0, 0.5).astype(np.float32))
    alone = _part(profile, spiky)
    weak, strong = (0.9, 0.01), (0.25, 3.0)
    assert float(both.kl(*weak)) == pytest.approx(float(alone.kl(*weak)), rel=0.01)
    fixed = both.at_strength(0.5)
    assert (fixed.name, fixed.origin) == (both.name, both.origin)
    assert float(both.green_rate(*strong)) > float(alone.green_rate(*strong)) + 0.01
    # at the strength that it has itself: a fixed point between the two levels
    marked = _part(profile, ~spiky)
    rates = [float(part.green_rate(0.6, 2.0)) for part in (alone, marked)]
    strength = float(both.green_rate(0.6, 2.0)) - 0.6
    want = rates[0] + (rates[1] - rates[0]) * strength / 0.5
    assert float(both.green_rate(0.6, 2.0)) == pytest.approx(want, abs=1e-6)
    assert both.power(STEPS, 20, 0.6, 2.0) > alone.power(STEPS, 20, 0.6, 2.0)
    one = dataclasses.replace(
        profile, strength=np.where(profile.text == 0, 0.5, 0.0).astype(np.float32)
    )
    lone, many = (p.standard_errors(STEPS, 20, 0.6, 2.0) for p in (one, profile))
    assert lone is not None
    assert many is not None
    assert lone["power"] > many["power"]  # one marked text stands for all others


def test_a_profile_of_unmarked_text_has_one_strength() -> None:
    _, profile = sample()
    assert profile.at_strength(0.3) is profile


def test_the_strength_is_the_designs_own() -> None:
    levels = np.array([0.0, 0.3, 0.7])
    assert fixed_point(levels, np.array([0.0, 0.1, 0.2])) == 0.0
    assert fixed_point(levels, np.array([0.9, 0.9, 0.8])) == 0.8  # beyond the last level
    for values in ([0.2, 0.1, 0.5], [0.4, 0.5, 0.1]):
        found = fixed_point(levels, np.array(values))
        assert np.interp(found, levels, values) == pytest.approx(found, abs=1e-12)


@pytest.mark.parametrize("kept", [3, 10, 40])
@pytest.mark.parametrize(("gamma", "delta"), [(0.1, 6.0), (0.25, 10.0), (0.9, 6.0)])
def test_truncated_sampling(kept: int, gamma: float, delta: float) -> None:
    """After top-k all candidates can be red; 400 lists a step, 4.5 standard errors and .01."""
    full, profile = sample()
    head = full[:, :kept] / full[:, :kept].sum(axis=1, keepdims=True)
    none = np.zeros(head.shape[0])
    rng = np.random.default_rng(7)
    y = np.stack([(head * (rng.random(head.shape) < gamma)).sum(axis=1) for _ in range(400)])
    mass = GreenMass(head, none, none)
    for of, got in ((token_green_rate, mass.rates), (token_kl, mass.costs)):
        drawn = np.asarray(of(np.clip(y, 0.0, 1.0), delta)).mean(axis=0)
        error = drawn.std() / np.sqrt(drawn.size * 400)
        assert abs(got(gamma, delta).mean() - drawn.mean()) < 4.5 * error + 0.01 * drawn.mean()
    del profile


def test_certain_power_is_not_above_one() -> None:
    _, profile = sample()
    assert profile.power(STEPS, 1, 0.25, 4.8) <= 1.0
    assert evaluate(0.25, 20.0, n_tokens=STEPS, alpha=0.5, signal=profile).power <= 1.0
    again = pickle.loads(pickle.dumps(profile))
    assert float(again.kl(0.5, 2.0)) == float(profile.kl(0.5, 2.0))


def _part(profile: Profile, mine: np.ndarray) -> Profile:
    names = ("head", "tail_mass", "tail_square", "text", "ids", "strength")
    return Profile(**{name: getattr(profile, name)[mine] for name in names})


def test_a_small_profile_is_said_to_be_small() -> None:
    _, profile = sample()
    request: dict[str, Any] = {"n_tokens": 60, "alpha": 0.05, "power": 0.8, "signal": profile}
    (note, *_) = plan(**request, precision=1e-5).warnings
    assert "10 texts leave the power uncertain" in note
    assert "for 1e-05 record" in note
    assert "positions" in note
    assert not any("uncertain" in note for note in plan(**request, precision=0.9).warnings)
    with pytest.raises(InvalidInput, match="precision"):
        plan(**request, precision=0.0)


def test_a_profile_that_swells_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.npz"
    np.savez_compressed(path, about=np.array("{}"), head=np.zeros(3_000_000, np.float32))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr("powermark.signals.profile_file.LARGEST", 2**23)
    with pytest.raises(FileProblem, match="holds more than 8 MB, too much for a profile"):
        load_profile(path)
    monkeypatch.setattr("powermark.signals.profile_file.LARGEST", 1_000)
    with pytest.raises(FileProblem, match="has more than 1000 bytes"):
        load_profile(path)


def test_a_header_that_numpy_cannot_parse_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    save_profile(sample()[1], path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["head.npy"] = members["head.npy"].replace(b"), }", b"   }")
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(FileProblem, match="is not a profile, or is cut off"):
        load_profile(path)


@pytest.mark.parametrize("steer", [False, True])
def test_texts_that_are_unlike_those_designs_are_compared_on(steer: bool) -> None:
    """Every second of 16 texts is half certain; the other eight are what counts are compared on.

    On these an all-green test is the cheapest, and out of reach of the others.
    """
    rng, steps = np.random.default_rng(3), 40
    flat = np.sort(rng.dirichlet(np.full(VOCAB, 0.5), 16 * steps), axis=1)[:, ::-1]
    sure = np.repeat(np.arange(16) % 2 == 1, steps) & (np.arange(16 * steps) % 2 == 0)
    flat[sure] = np.append(1.0 - 1e-9, np.full(VOCAB - 1, 1e-9 / (VOCAB - 1)))
    profile = Profile(
        flat[:, :64].astype(np.float32),
        flat[:, 64:].sum(axis=1).astype(np.float32),
        (flat[:, 64:] ** 2).sum(axis=1).astype(np.float32),
        np.repeat(np.arange(16), steps).astype(np.int32),
        np.arange(16 * steps, dtype=np.int32),
        np.zeros(16 * steps, np.float32),
    )
    asked: dict[str, Any] = {"n_tokens": 40, "alpha": 0.05, "power": 0.95, "kl_cap": np.inf}
    asked = {k: v for k, v in asked.items() if steer or k != "kl_cap"}
    alike = plan(**asked, signal=profile.thinned(), steer=steer)
    found = plan(**asked, signal=profile, steer=steer)
    assert found.power >= 0.95
    assert found.critical_count < alike.critical_count
    for gamma in (0.1, 0.25, 0.5, 0.8):
        assert found.kl <= plan(**asked, signal=profile, gamma=gamma, steer=steer).kl * 1.005
