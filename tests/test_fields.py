"""Plans and profiles from files with a valid digest and invalid content."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark import plan
from powermark.errors import FileProblem, InvalidInput, SpecCorrupt
from powermark.measuring.promise import promise_of
from powermark.planning.plan import FIELDS, Plan
from powermark.signals.profile_file import FIELDS as PROFILE
from powermark.signals.profile_file import load_profile, profile_digest, save_profile
from powermark.steering.goal import BIASES
from powermark.steering.schedule import Schedule
from powermark.watermark.spec import WatermarkSpec, digest_of_fields
from tests.signals.profiles import sample

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
        ("warnings", 5, "design.warnings must be a list; got int"),
        ("warnings", [5], "each of design.warnings must be text; got int"),
        ("tokens_needed", {"0.5": "x"}, "design.tokens_needed.0.5 must be a whole number; got str"),
        ("edit_rate", 0.1, "design is for edits, and has no attacked_power"),
        ("removal", 0.1, "design is for edits, and has no attacked_power"),
        ("detector", ["count"], "design.detector must be one of count, winmax, winmax-c, evalue"),
    ],
)
def test_a_signed_spec_with_an_odd_plan_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(SpecCorrupt, match=message):
        WatermarkSpec.from_dict(signed(**{name: value}))


def test_a_signed_spec_with_a_plan_is_read() -> None:
    spec = WatermarkSpec.from_dict(signed(normal_power=None, power=1.0))
    assert promise_of(spec).power == 1.0
    fields = {field.name for field in dataclasses.fields(Plan)}
    old = {"window_size", "window_power", "window_attacked_power"}
    elsewhere = {"points", "steering"}  # not in a spec's plan
    assert fields - elsewhere | old == FIELDS.keys()  # a new field needs a check of its own


def test_a_plan_and_its_schedule_are_of_one_length() -> None:
    steering = Schedule(0.5, np.zeros((9, 10)), np.full(BIASES.size, 0.5)).to_dict()
    spec = dataclasses.replace(WatermarkSpec.from_dict(signed()), steering=steering)
    with pytest.raises(InvalidInput, match="steered for 9 tokens; the promise is for 50"):
        promise_of(spec)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tail_mass", np.nan, "a positive, finite probability"),
        ("head", -0.5, "head must be in"),
        ("tail_square", 7.0, "tail_square must be in"),
        ("strength", np.inf, "strength must be in"),
        ("tail_mass", 0.9, "the probabilities of a step add up to 1."),
        ("strength", 0.5, "strength must be the same at all steps of a text"),
        ("about", {"typical": {"tokens": [1.0]}}, "typical.tokens must be two numbers; got list"),
        ("about", {"typical": {"tokens": [1.0, -1.0]}}, "typical.tokens must be in"),
        ("about", {"survival": {"copy": 2.0}}, "survival.copy must be in"),
        ("about", {"chat": 1}, "chat must be true or false; got int"),
        ("about", {"source": "air"}, "source must be one of text, ids"),
        ("about", {"vocab_size": "x"}, "vocab_size must be a whole number; got str"),
        ("about", {"temperature": None}, "temperature must be a number; got NoneType"),
        ("ids", np.float32, "ids must not be of type float32"),
        ("head", np.float16, "head must not be of type float16"),
    ],
)
def test_a_signed_profile_with_invalid_content_is_refused(
    tmp_path: Path, name: str, value: Any, message: str
) -> None:
    _, changed = sample()
    content: Any = {**changed.about, **value} if name == "about" else getattr(changed, name).copy()
    if isinstance(value, type):
        content = content.astype(value)
    elif name != "about":
        content.flat[-1] = value
    object.__setattr__(changed, name, content)  # Profile itself refuses some of this
    changed.about["digest"] = profile_digest(changed)
    save_profile(changed, tmp_path / "p.npz")
    with pytest.raises(FileProblem, match=message):
        load_profile(tmp_path / "p.npz")


def test_the_profile_in_a_plan_has_the_fields_of_a_profile() -> None:
    assert ABOUT.keys() <= PROFILE.keys()
