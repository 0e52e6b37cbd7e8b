"""Plans for the e-value: they can be found at their length, as often as they say, for least KL."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark import (
    Detector,
    Edits,
    PlugIn,
    SecretKey,
    StreamDetector,
    WatermarkSpec,
    plan,
)
from powermark.errors import Infeasible, InvalidInput
from powermark.interfaces.cli import main
from powermark.statistics.evalue import EvalueTest
from powermark.watermark.keys import new_key
from powermark.watermark.watermark import Watermark
from tests.detection.marked import marked_ids
from tests.signals.profiles import sample

KEY = SecretKey(bytes(range(32)))
EDITED: dict[str, Any] = {"n_tokens": 60, "alpha": 0.01, "power": 0.9, "edit_rate": 0.05}


def ids_of(spec: WatermarkSpec, scored: int, rate: float = 1.0, key: SecretKey = KEY) -> list[int]:
    """Return a text of which so many tokens count."""
    rng = np.random.default_rng(0)
    return marked_ids(spec, key, scored + spec.context_width, rng, rate=rate)


@pytest.mark.parametrize(("n", "alpha"), [(50, 0.05), (200, 1e-3), (7, 0.4)])
def test_a_text_of_the_planned_length_can_be_found(n: int, alpha: float) -> None:
    """A plan for the count cannot: its evidence reaches 1/alpha a token later."""
    found = plan(detector="evalue", n_tokens=n, alpha=alpha, power=0.95)
    spec = WatermarkSpec.from_plan(found, vocab_size=5_000)
    detector, ids = Detector(spec, KEY), ids_of(spec, n)
    assert (detector.detectors, detector.alpha) == (("evalue",), alpha)
    assert detector.detect(ids).verdict == "watermarked"
    assert detector.detect(ids[:-1]).verdict != "watermarked"
    assert found.least_tokens == n
    assert found.power >= 0.95
    assert found.size == pytest.approx(alpha, rel=1e-3)
    counted = plan(n_tokens=n, alpha=alpha, power=0.95)
    assert found.kl == pytest.approx(counted.kl, rel=1e-4)  # here the two tests are one
    old = WatermarkSpec.from_plan(counted, vocab_size=5_000)
    late = Detector(old, KEY, detector="evalue").detect(ids_of(old, n))
    assert late.verdict != "watermarked"


@pytest.mark.parametrize("edits", [{}, {"edit_rate": 0.05}, {"removal": 0.2}])
def test_no_other_gamma_and_bet_are_cheaper(edits: dict[str, Any]) -> None:
    """With 2 % less KL no pair of a grid has the power, whatever it bets on."""
    n, alpha, power = 30, 0.05, 0.9
    found, signal = plan(detector="evalue", n_tokens=n, alpha=alpha, power=power, **edits), PlugIn()
    for gamma in np.arange(0.03, 0.97, 0.02):
        delta = min(signal.delta_for_kl(gamma, 0.98 * found.kl), 50.0)
        rate = signal.green_rate(gamma, delta)
        for bet in np.linspace(gamma, 1.0, 12)[1:-1]:
            test = EvalueTest(n, gamma, float(bet))
            assert test.powers(rate, alpha, Edits(**edits))[0] < power


def test_drawn_texts_are_found_as_promised() -> None:
    """20,000 texts drawn here, whole and with tokens rewritten; 5 standard errors."""
    found, texts = plan(detector="evalue", **EDITED), 20_000
    assert found.attacked_power is not None
    assert min(found.power, found.attacked_power) >= 0.9
    rng, n = np.random.default_rng(3), 60
    touched = rng.random((texts, n + 2)) < 0.05
    lost = touched[:, 2:] | touched[:, 1:-1] | touched[:, :-2]
    test, error = EvalueTest(n, found.gamma, found.bet or 0.0), 2.5 / np.sqrt(texts)
    for rates, promised in (
        (np.full(n, found.gamma_prime), found.power),
        (np.where(lost, found.gamma, found.gamma_prime), found.attacked_power),
        (np.full(n, found.gamma), found.size),
    ):
        highest = test.statistics(rng.random((texts, n)) < rates)
        assert np.mean(highest >= -np.log(0.01)) == pytest.approx(promised, abs=error)
    assert found.size < 0.01


def test_a_profile_s_texts_have_their_own_powers() -> None:
    _, signal = sample()
    found = plan(detector="evalue", **EDITED, attacked_power=0.7, signal=signal, precision=1e-3)
    rates, weights, _ = signal.text_rates(found.gamma, np.array([found.delta]), 60)
    test = EvalueTest(60, found.gamma, found.bet or 0.0)
    each = test.powers(rates[..., 0], 0.01, Edits(edit_rate=0.05))
    assert weights @ each == pytest.approx(found.attacked_power)
    assert found.attacked_power == pytest.approx(0.7, abs=1e-4)
    assert found.power > 0.9 - 1e-9
    errors = found.standard_errors
    assert errors is not None
    assert errors["attacked_power"] == pytest.approx(each.std(ddof=1) / np.sqrt(each.size))
    assert any("leave the power uncertain" in note for note in found.warnings)


@pytest.mark.parametrize("missing", ["n_tokens", "alpha", "power"])
@pytest.mark.parametrize("gamma", [None, 0.5])
def test_any_of_the_four_is_solved_for(missing: str, gamma: float | None) -> None:
    best = plan(detector="evalue", **EDITED, gamma=gamma)
    asked = {**EDITED, "kl": 1.001 * best.kl, "gamma": gamma}
    asked.pop(missing)
    found = plan(detector="evalue", **asked)
    assert found.solved_for == missing
    assert found.kl <= asked["kl"]
    assert found.n_tokens <= 60
    assert found.alpha <= 0.01 * (1 + 1e-9)
    assert found.attacked_power is not None
    assert found.attacked_power >= 0.9 - 1e-3
    assert f"solved for {missing}" in str(found)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(Infeasible, match=r"no design reaches power 0.9 and attacked_power"):
        plan(detector="evalue", n_tokens=10, alpha=0.01, power=0.9, edit_rate=0.5)
    with pytest.raises(Infeasible, match=r"no test of level alpha = 0.01 exists at gamma = 0.9"):
        plan(detector="evalue", n_tokens=10, alpha=0.01, power=0.9, gamma=0.9)
    with pytest.raises(InvalidInput, match=r"n_tokens must be in \[1, 2000\]"):
        plan(detector="evalue", n_tokens=5_000, alpha=0.01, power=0.9)


def test_the_bet_travels_with_the_spec() -> None:
    found = plan(detector="evalue", **EDITED)
    spec = WatermarkSpec.from_dict(
        json.loads(json.dumps(WatermarkSpec.from_plan(found, vocab_size=5_000).to_dict()))
    )
    assert found.bet != found.gamma_prime
    assert (spec.bet, spec.gamma_prime) == (found.bet, found.gamma_prime)
    ids = ids_of(spec, 60, rate=found.gamma_prime)
    seen = Detector(spec, KEY).detect(ids)
    assert (seen.bet, seen.gamma_prime) == (found.bet, found.gamma_prime)
    assert seen.power == pytest.approx(found.power)
    stream = StreamDetector(Watermark(spec, KEY), alpha=0.01).feed(ids)
    assert stream.max_log_e == pytest.approx(-np.log(seen.p))
    assert spec.design is not None
    with pytest.raises(InvalidInput, match=r"design.bet must be in \(0, 1\)"):
        replace(spec, design=spec.design | {"bet": 1.5})
    with pytest.raises(InvalidInput, match=r"design.bet must be in"):
        replace(spec, design=spec.design | {"bet": found.gamma / 2})
    with pytest.raises(InvalidInput, match="design is for the e-value, and has no bet"):
        replace(spec, design=spec.design | {"bet": None})


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            main([*arguments])
        return "".join(capsys.readouterr())

    spec, key, text = tmp_path / "s.json", tmp_path / "k.key", tmp_path / "t.txt"
    ours = ("--n-tokens", "60", "--alpha", ".01", "--power", ".9", "--detector", "evalue")
    shown = run("plan", *ours, "--edit-rate", ".05", "--vocab-size", "5000", "-o", str(spec))
    assert "of the e-value within 60 tokens" in shown
    found = plan(detector="evalue", **EDITED)
    written = WatermarkSpec.load(spec)
    assert (written.gamma, written.delta) == (found.gamma, found.delta)
    ids = ids_of(written, 60, key=new_key(key))
    text.write_text(" ".join(map(str, ids)))
    said = run("detect", "--spec", str(spec), "--key", str(key), "--ids", str(text))
    assert "watermarked" in said
    assert "evalue; alpha = 0.01" in said
    assert "detector:evalue" in said
    assert "takes no --delta, --steer." in run("plan", *ours, "--steer", "--delta", "2")
    assert "takes no --survival." in run("plan", *ours, "--survival", ".9")
    assert "missing: --power, --kl" in run("plan", "--n-tokens", "60", "--alpha", ".01",
                                       "--detector", "evalue")  # fmt: skip
