"""Plans without a profile say what they assume, and what they give on the reference for chats."""

import re
from dataclasses import replace
from typing import Any

import pytest

from powermark import Dirichlet, Edits, evaluate, reference_profile
from powermark.planning import assumption
from powermark.planning.assumption import with_assumption
from powermark.planning.plan import Plan, plan_for
from powermark.planning.request import Request
from powermark.signals.references import short
from powermark.theory.power import critical_count

CHAT = "on the reference chat profile (SmolLM2-135M-Instruct, T .7, top-p .95)"
BASE: dict[str, Any] = {"n_tokens": 100, "alpha": 0.01, "power": 0.9}


def noted(**given: Any) -> tuple[Plan, str]:
    """Return a plan and its first warning."""
    request = Request.of(**BASE | given)
    bare = plan_for(request)
    found = with_assumption(bare, request)
    assert found.warnings[1:] == bare.warnings
    return found, found.warnings[0]


def on_chat(gamma: float, delta: float, **given: Any) -> Any:
    return evaluate(
        gamma, delta, n_tokens=100, alpha=0.01, signal=reference_profile("chat"), **given
    )


def test_the_numbers_are_those_of_the_design_on_the_profile() -> None:
    found, note = noted(edit_rate=0.05)
    there = on_chat(found.gamma, found.delta, edits=Edits(edit_rate=0.05))
    assert note == (
        "assumes that every next-token distribution is very flat (plug-in); "
        f"{CHAT} this design has power {short(there.power)}, after edits "
        f"{short(there.attacked_power)}. Plan with a profile of your model, or with --like chat."
    )
    assert there.power < found.power - 0.1
    assert f"note: {note}" in str(found)
    assert found.to_dict()["warnings"][0] == note


def test_other_laws_are_named() -> None:
    found, note = noted(signal=Dirichlet(50_257, 0.01))
    assert note.startswith("assumes that next-token distributions are those of dirichlet(V=50257")
    assert f"{CHAT} this design has power {short(on_chat(found.gamma, found.delta).power)}." in note
    assert "after edits" not in note


def test_a_profile_assumes_nothing() -> None:
    request = Request.of(**BASE | {"power": 0.5, "gamma": 0.5}, signal=reference_profile("code"))
    found = plan_for(request)
    assert with_assumption(found, request) is found


def test_of_a_steered_plan_the_constant_design_counts() -> None:
    found, note = noted(n_tokens=20, steer=True)
    assert found.constant is not None
    profile, gamma = reference_profile("chat"), found.constant["gamma"]
    k = int(critical_count(20, gamma, 0.01))
    power = profile.power(20, k, gamma, found.constant["delta"])
    assert f"its constant design has power {short(power)}." in note


def test_other_detectors() -> None:
    _, note = noted(detector="evalue", edit_rate=0.02)
    assert re.search(r"this design has power \.\d+, after edits \.\d+\.", note)
    request = Request.of(**BASE)
    windows = replace(plan_for(request), detector="winmax-c", draws=20_000)
    found = with_assumption(windows, request)
    assert "the count with this design has power ." in found.warnings[0]


@pytest.mark.parametrize("edits", [{}, {"edit_rate": 0.02}])
def test_long_texts_are_judged_by_moments(
    edits: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    exactly = noted(n_tokens=400, gamma=0.5, **edits)[1]
    monkeypatch.setattr(assumption, "_LONG", 399)
    nearly = noted(n_tokens=400, gamma=0.5, **edits)[1]
    powers = [[float(x) for x in re.findall(r"(?:power|edits) (\.\d+|1)", note)]
              for note in (exactly, nearly)]  # fmt: skip
    assert len(powers[0]) == 1 + len(edits)
    assert powers[0] == pytest.approx(powers[1], abs=0.05)
