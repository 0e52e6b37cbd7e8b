"""Plans in specs that version 0.1 wrote are read as they were meant.

The files are from ``powermark plan ... --vocab-size 512 -o FILE`` of the code before plans for all
detectors became one class.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from powermark import Edits, InvalidInput, Plan, WatermarkSpec, plan
from powermark.planning.request import Steering
from powermark.steering.schedule import Schedule

FOLDER = Path(__file__).parents[1] / "golden" / "plans"
ASKED: dict[str, dict[str, Any]] = {
    "count": {"edits": Edits(edit_rate=0.02)},
    "steered": {"steer": Steering()},
    "winmax-c": {"edits": Edits(removal=0.1), "detector": "winmax-c"},
    "evalue": {"edits": Edits(edit_rate=0.02), "n_tokens": 30, "detector": "evalue"},
    "paper": {"method": "paper"},
}


def read(kind: str) -> tuple[dict[str, Any], Plan]:
    """Return the plan in a file as JSON, and as it is read."""
    spec = WatermarkSpec.load(FOLDER / f"{kind}.json")
    assert spec.plan is not None
    raw = json.loads((FOLDER / f"{kind}.json").read_text())
    assert spec.to_dict() == raw  # its digest, too
    return raw["design"], spec.plan


@pytest.mark.parametrize("kind", ASKED)
def test_a_plan_of_0_1_is_the_one_made_today(kind: str) -> None:
    raw, found = read(kind)
    again = plan(**{"n_tokens": 20, "alpha": 0.05, "power": 0.9} | ASKED[kind])
    renamed = {} if kind != "winmax-c" else {"size", "power", "attacked_power"}
    for name in ("gamma", "delta", "n_tokens", "alpha", "kl", "gamma_prime", "critical_count"):
        assert getattr(found, name) == raw[name]
    for name in ("size", "power", "attacked_power"):
        assert getattr(found, name) == raw[f"window_{name}" if name in renamed else name]
    for name in ("detector", "draws", "bet", "least_tokens", "method", "test", "edits", "kl_cap"):
        assert getattr(found, name) == getattr(again, name)
    if kind == "winmax-c":  # the search compares other gammas than that of 0.1
        assert again.kl <= 1.001 * found.kl
        return
    for name in ("gamma", "delta", "kl", "gamma_prime", "size", "power", "attacked_power"):
        assert getattr(again, name) == pytest.approx(getattr(found, name))
    assert (found.gamma_l, found.gamma_star) == pytest.approx((again.gamma_l, again.gamma_star))
    if kind == "steered":
        assert found.steering == again.steering
        assert Schedule.from_dict(found.steering, found.gamma).n_tokens == 20


def test_errors_of_the_window_detector_get_its_names() -> None:
    raw, _ = read("winmax-c")
    errors = {"kl": 0.1, "power": 0.2, "window_power": 0.3, "window_attacked_power": 0.4}
    found = Plan.from_dict(raw | {"standard_errors": errors})
    assert found.standard_errors == {"kl": 0.1, "power": 0.3, "attacked_power": 0.4}


@pytest.mark.parametrize("name", ["window_size", "window_power", "window_attacked_power"])
def test_a_number_of_the_window_detector_may_be_alone(name: str) -> None:
    raw, _ = read("count")
    found = Plan.from_dict(raw | {name: 0.04})
    assert getattr(found, name.removeprefix("window_")) == 0.04
    assert "power" in str(found)


def test_later_fields_may_be_missing_and_others_not() -> None:
    raw, _ = read("count")
    assert Plan.from_dict({k: v for k, v in raw.items() if k != "spread"}).spread is None
    with pytest.raises(InvalidInput, match=r"design has no power\."):
        Plan.from_dict({k: v for k, v in raw.items() if k != "power"})


def test_a_plan_is_written_with_what_its_detector_needs() -> None:
    raw, found = read("count")
    written = found.to_dict()
    assert written.keys() - raw.keys() == {"detector", "points", "steering"}
    windows = read("winmax-c")[1]
    assert {"draws", "bet"} & windows.to_dict().keys() == {"draws"}
    assert Plan.from_dict(json.loads(json.dumps(windows.to_dict()))) == windows
