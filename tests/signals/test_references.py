"""The profiles of the package: valid, small, for no model, and as random as asked."""

import dataclasses
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pytest

from powermark import Profile, load_profile, plan, reference_profile
from powermark.errors import InvalidInput
from powermark.signals.entropy import entropies, powered
from powermark.signals.green_mass import GreenMass
from powermark.signals.profile_file import save_profile
from powermark.signals.references import REFERENCES, compacted, described, sharpened, short
from tests.signals.profiles import copied, profile_of, sample

SAMPLING = {"prose": (1.0, 1.0), "chat": (0.7, 0.95), "code": (0.4, 0.95)}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_is_a_small_file_for_no_model(name: str) -> None:
    resource = files("powermark.signals").joinpath("reference", f"{name}.npz")
    with as_file(resource) as path:
        assert path.stat().st_size <= 300_000
        found = load_profile(path)
    about = found.about
    assert about["digest"] == reference_profile(name).about["digest"]
    assert (about["temperature"], about["top_p"]) == SAMPLING[name]
    assert about.get("chat", False) == (name == "chat")
    assert about["reference"]["name"] == name
    assert not about.keys() & {"model", "model_digest", "tokenizer_digest", "vocab_size"}
    assert about["reference"]["model"] == "SmolLM2-135M-Instruct"
    assert about["randomness"] == found.randomness()
    assert about["texts"] >= 48
    assert found.source == "text"
    assert found.texts.strengths.values.size == 3  # unmarked, and under two marks


def test_what_is_certain_differs() -> None:
    prose, chat, code = (reference_profile(n).randomness() for n in ("prose", "chat", "code"))
    assert prose["entropy"] > 2.0 > chat["entropy"] > code["entropy"]
    assert prose["above_99"] < 0.2 < chat["above_99"] < code["above_99"]
    for each in (prose, chat, code):
        assert each["above_999"] <= each["above_99"]


def test_entropy_and_shares_of_known_distributions() -> None:
    profile = profile_of(np.array([[True, False, False], [True, False, False]]))
    said = profile.randomness()
    assert said["entropy"] == pytest.approx(np.log(64) / 3)
    assert said["above_99"] == said["above_999"] == pytest.approx(2 / 3)
    tail = GreenMass(np.array([[0.5]]), np.array([0.5]), np.array([0.5**2 / 8]))
    assert entropies(tail) == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(16))
    noise = GreenMass(np.array([[0.6]]), np.array([0.4]), np.array([0.0]))  # a square lost
    assert entropies(noise) == pytest.approx(-0.6 * np.log(0.6) - 0.4 * np.log(0.4))


def test_powers_of_distributions_are_those_of_all_their_tokens() -> None:
    """A head of two tokens and a tail of four equal ones, against the six written out."""
    p = np.array([0.4, 0.2, 0.1, 0.1, 0.1, 0.1])
    of = powered(GreenMass(p[None, :2], np.array([0.4]), np.array([0.04])), 2.5)
    want = p**2.5 / (p**2.5).sum()
    assert of.head[0] == pytest.approx(want[:2])
    assert of.tail_mass[0] == pytest.approx(want[2:].sum())
    assert of.tail_square[0] == pytest.approx((want[2:] ** 2).sum())


@pytest.mark.parametrize(("name", "entropy"), [("chat", 0.4), ("chat", 1.0), ("code", 0.1)])
def test_a_reference_gets_the_entropy_asked_for(name: str, entropy: float) -> None:
    found, plain = reference_profile(name, entropy=entropy), reference_profile(name)
    assert found.randomness()["entropy"] == pytest.approx(entropy, abs=1e-3)
    assert found.about["randomness"]["entropy"] == pytest.approx(entropy, abs=1e-3)
    done = found.about["sharpened"]
    assert (done["entropy"], done["from"]) == (entropy, plain.about["digest"])
    sharper = entropy < plain.randomness()["entropy"]
    assert (done["tau"] < 1.0) == sharper
    assert found.about["digest"] != plain.about["digest"]
    rates = [float(each.green_rate(0.25, 2.0)) for each in (found, plain)]
    assert (rates[0] < rates[1]) == sharper
    marked = found.strength > 0.0
    assert (found.strength < plain.strength)[marked].all() == sharper
    assert found.round_trip is plain.round_trip


def test_a_sharpened_profile_can_be_kept(tmp_path: Path) -> None:
    found = reference_profile("chat", entropy=0.4)
    save_profile(found, tmp_path / "p.npz")
    assert load_profile(tmp_path / "p.npz").about == found.about


def test_any_profile_can_be_sharpened() -> None:
    _, profile = sample()
    entropy = 0.5 * profile.randomness()["entropy"]
    found = sharpened(profile, entropy)
    assert found.randomness()["entropy"] == pytest.approx(entropy, abs=1e-3)
    assert found.about["model"] == "none"
    same = sharpened(profile, profile.randomness()["entropy"])
    assert same.about["sharpened"]["tau"] == pytest.approx(1.0, abs=1e-4)
    assert same.head == pytest.approx(profile.head, abs=1e-4)


def test_a_mark_stronger_than_any_bias_keeps_its_order() -> None:
    _, profile = sample()
    strength = np.where(profile.text == 9, 0.9, 0.0).astype(np.float32)  # no bias changes so much
    strong = dataclasses.replace(profile, strength=strength)
    found = sharpened(strong, 0.9 * strong.randomness()["entropy"])
    assert 0.0 < found.strength.max() < 0.9


@pytest.mark.parametrize("entropy", [0.0, -1.0, np.nan])
def test_an_entropy_is_above_0(entropy: float) -> None:
    with pytest.raises(InvalidInput, match="entropy must be"):
        reference_profile("chat", entropy=entropy)


def test_an_entropy_that_no_exponent_gives() -> None:
    with pytest.raises(InvalidInput, match=r"entropy must be between .* for this profile; got"):
        reference_profile("chat", entropy=11.0)
    with pytest.raises(InvalidInput, match="no reference profile 'poetry'") as raised:
        reference_profile("poetry")
    assert raised.value.hint is not None
    assert "use chat, prose, code, or record" in raised.value.hint


def test_a_compact_profile_predicts_the_same() -> None:
    full = copied(0.1)
    small = compacted(full, kept=32, bits=11)
    assert small.head.shape[1] == 32
    values = np.concatenate([small.head.ravel(), small.tail_mass, small.tail_square])
    parts, _ = np.frexp(values.astype(np.float64))
    assert (parts * 2**11 == np.round(parts * 2**11)).all()
    for gamma, delta in ((0.25, 2.0), (0.9, 3.0)):
        rates, kls = zip(*((f.green_rate(gamma, delta), f.kl(gamma, delta)) for f in (full, small)),
                         strict=True)  # fmt: skip
        assert rates[0] == pytest.approx(rates[1], abs=2e-3)
        assert kls[0] == pytest.approx(kls[1], rel=1e-2)
        powers = [each.power(50, 20, gamma, delta) for each in (full, small)]
        assert powers[0] == pytest.approx(powers[1], abs=2e-3)
    assert small.about["digest"] != full.about["digest"]
    assert small.round_trip is full.round_trip


def note_on(profile: Profile) -> str:
    (note,) = plan(n_tokens=200, alpha=0.01, power=0.3, gamma=0.25, signal=profile).warnings
    return note


def test_a_plan_on_a_reference_says_so() -> None:
    note = note_on(reference_profile("chat"))
    assert note.startswith(
        "planned on the reference chat profile (SmolLM2-135M-Instruct, T .7, top-p .95; mean "
    )
    assert note.endswith("of your model, or give its mean entropy with --entropy.")
    note = note_on(reference_profile("code", entropy=0.1))
    assert "T .4, top-p .95; brought to a mean entropy of .1 nats), not on your" in note
    assert note.endswith("Record a profile of your model.")
    assert described(reference_profile("prose").about) == "SmolLM2-135M-Instruct, T 1"


@pytest.mark.parametrize(
    ("number", "text"), [(0.314, ".31"), (0.6, ".6"), (1.0, "1"), (0.001, "0"), (2.345, "2.35")]
)
def test_short_numbers(number: float, text: str) -> None:
    assert short(number) == text


def test_old_profiles_say_how_random_they_are() -> None:
    old = load_profile(Path(__file__).parents[1] / "golden" / "profile-0.1.npz")
    assert isinstance(old, Profile)
    assert "randomness" not in old.about
    assert old.randomness()["entropy"] > 0.0
