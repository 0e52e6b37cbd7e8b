"""Plans and profiles from files whose digest is right, but what they say is not."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark import plan
from powermark.calibration.fields import DESIGN, PROFILE
from powermark.calibration.profile import Profile
from powermark.calibration.profile_file import load_profile, profile_digest, save_profile
from powermark.calibration.schedule import Schedule
from powermark.calibration.tilt import BIASES
from powermark.detection.window_plan import WindowPlan
from powermark.errors import FileProblem, InvalidInput, SpecCorrupt
from powermark.evaluation.promise import promise_of
from powermark.watermark.spec import WatermarkSpec, digest_of_fields
from tests.calibration.test_profile import sample

ABOUT = {"model": "m", "temperature": 0.7, "top_k": 0, "top_p": 0.9, "vocab_size": 200}


def signed(**design: Any) -> dict[str, Any]:
    """Return a spec's object with some fields of its plan changed, and the digest of that."""
    spec = WatermarkSpec.from_plan(plan(n_tokens=50, alpha=0.05, power=0.9), vocab_size=200)
    fields = json.loads(json.dumps(spec.to_dict()))
    fields["design"] |= {"profile": ABOUT, "standard_errors": {"kl": 0.1}, **design}
    del fields["digest"]
    return {**fields, "digest": digest_of_fields(fields)}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("profile", "x", "design.profile must be an object; got str"),
        ("profile", {"temperature": "hot"}, "design.profile.temperature must be a number; got str"),
        ("profile", {"top_p": 0.0}, r"design.profile.top_p must be in \(0, 1\]; got 0"),
        ("profile", {"vocab_size": "x"}, "design.profile.vocab_size must be a whole number"),
        ("alpha", [0.1, 0.2], "design.alpha must be a number; got list"),
        ("alpha", 1.0, r"design.alpha must be in \(0, 1\); got 1"),
        ("n_tokens", "many", "design.n_tokens must be a whole number; got str"),
        ("n_tokens", 80.5, "design.n_tokens must be a whole number; got float"),
        ("n_tokens", -3, r"design.n_tokens must be in \[1, 1e\+07\]; got -3"),
        ("n_tokens", True, "design.n_tokens must be a whole number; got bool"),
        ("critical_count", "x", "design.critical_count must be a whole number; got str"),
        ("power", None, "design.power must be a number; got NoneType"),
        ("kl", "x", "design.kl must be a number; got str"),
        ("kl", 10**400, "design.kl must be a number"),
        ("signature", 5, "design.signature must be text; got int"),
        ("test", ["z"], "design.test must be one of exact, z"),
        ("standard_errors", {"kl": "x"}, "design.standard_errors.kl must be a number"),
        ("standard_errors", [], "design.standard_errors must be an object; got list"),
    ],
)
def test_a_signed_spec_with_an_odd_plan_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(SpecCorrupt, match=message):
        WatermarkSpec.from_dict(signed(**{name: value}))


def test_a_signed_spec_with_a_plan_is_read() -> None:
    spec = WatermarkSpec.from_dict(signed(normal_power=None, power=1.0))
    assert promise_of(spec).power == 1.0
    fields = {field.name for field in dataclasses.fields(WindowPlan)}  # those of every design too
    assert fields == DESIGN.keys()  # a new field of a plan needs a check of its own


def test_a_plan_and_its_schedule_are_of_one_length() -> None:
    steering = Schedule(0.5, np.zeros((9, 10)), np.full(BIASES.size, 0.5)).to_dict()
    spec = dataclasses.replace(WatermarkSpec.from_dict(signed()), steering=steering)
    with pytest.raises(InvalidInput, match="steered for 9 tokens; the promise is for 50"):
        promise_of(spec)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tail_mass", np.nan, "tail_mass must be in"),
        ("head", -0.5, "head must be in"),
        ("tail_square", 7.0, "tail_square must be in"),
        ("strength", np.inf, "strength must be in"),
        ("tail_mass", 0.9, "the probabilities of a step add up to 1."),
        ("strength", 0.5, "strength must be the same at all steps of a text"),
        ("about", {"vocab_size": "x"}, "vocab_size must be a whole number; got str"),
        ("about", {"temperature": None}, "temperature must be a number; got NoneType"),
        ("ids", np.float32, "ids must not be of the kind float32"),
        ("head", np.float16, "head must not be of the kind float16"),
    ],
)
def test_a_signed_profile_that_is_none_of_probabilities_is_refused(
    tmp_path: Path, name: str, value: Any, message: str
) -> None:
    _, profile = sample()
    fields = {key: getattr(profile, key) for key in (*_ARRAYS, "about")}
    if name == "about":
        fields["about"] = {**fields["about"], **value}
    elif isinstance(value, type):
        fields[name] = fields[name].astype(value)
    else:
        fields[name] = fields[name].copy()
        fields[name].flat[-1] = value
    changed = Profile(**fields)
    changed.about["digest"] = profile_digest(changed)
    save_profile(changed, tmp_path / "p.npz")
    with pytest.raises(FileProblem, match=message):
        load_profile(tmp_path / "p.npz")


def test_what_a_plan_says_of_its_profile_is_what_a_profile_says() -> None:
    assert ABOUT.keys() <= PROFILE.keys()


_ARRAYS = ("head", "tail_mass", "tail_square", "text", "ids", "strength")
