"""Plans for window detectors: what they promise, against drawn texts, and against the count."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark import Detector, Edits, Plan, PlugIn, WatermarkSpec, evaluate, plan
from powermark.errors import Infeasible, InvalidInput
from powermark.interfaces.cli import main
from powermark.planning.for_windows import window_powers
from powermark.statistics.windows import WindowTest
from powermark.watermark.keys import SecretKey
from tests.signals.profiles import sample

COUNTED: dict[str, Any] = {"n_tokens": 30, "alpha": 0.05, "power": 0.9, "removal": 0.2}
ASKED = COUNTED | {"detector": "winmax-c"}


@pytest.fixture(scope="module")
def found() -> Plan:
    return plan(**ASKED)


def test_it_costs_less_than_a_plan_for_the_count(found: Plan) -> None:
    assert found.kl < 0.85 * plan(**COUNTED).kl
    assert found.size <= 0.05
    assert found.attacked_power is not None
    assert found.attacked_power < found.power
    counted = evaluate(found.gamma, found.delta, n_tokens=30, alpha=0.05, edits=found.edits)
    assert counted.attacked_power is not None
    assert counted.attacked_power < found.attacked_power - 0.2


def test_drawn_texts_are_found_as_promised(found: Plan) -> None:
    """Texts drawn here, block by block, with other random numbers; 5 standard errors."""
    rng, texts, n, block, lost = np.random.default_rng(7), 20_000, 30, 6, 8
    green = rng.random((texts, n)) < found.gamma_prime
    test = WindowTest("winmax-c", n, found.gamma)
    value = test.threshold(0.05).value
    assert value is not None
    whole = np.mean(test.statistics(green) > value)
    for row, start in enumerate(rng.integers(0, n - block + 1, texts)):
        foreign = rng.random(lost) < found.gamma
        green[row, start : start + lost] = foreign[: n - start]
    after = np.mean(test.statistics(green) > value)
    assert whole == pytest.approx(found.power, abs=5 * 0.5 / np.sqrt(texts))
    assert after == pytest.approx(found.attacked_power, abs=5 * 0.5 / np.sqrt(texts))
    assert after > 0.9


def test_no_pair_of_a_fine_grid_is_much_cheaper(found: Plan) -> None:
    """Every gamma of a grid, with the bias that costs 5 % less than the plan: none will do."""
    signal = PlugIn()
    for gamma in np.arange(0.05, 0.95, 0.01):
        delta = min(signal.delta_for_kl(gamma, 0.95 * found.kl), 50.0)
        test = WindowTest("winmax-c", 30, gamma, draws=10_000)
        after = test.power(
            signal.green_rate(gamma, delta),
            0.05,
            removal=0.2,
            context_width=2,
            draws=4_000,
            rng=np.random.default_rng(3),
        )
        assert after < 0.9 + 0.015


def test_a_profile_s_texts_are_drawn_one_by_one() -> None:
    """Texts that differ: their own rates are used, not the mean, which would promise too much."""
    _, signal = sample()
    design = plan(**ASKED, attacked_power=0.6, signal=signal)
    test = WindowTest("winmax-c", 30, design.gamma)
    rates, weights, _ = signal.text_rates(design.gamma, np.array([design.delta]), 30)
    each = [
        test.power(row, 0.05, removal=0.2, context_width=2, draws=2_000) for row in rates[..., 0]
    ]
    assert np.average(each, weights=weights) == pytest.approx(design.attacked_power, abs=0.03)
    assert design.signal == signal.name
    assert design.attacked_power is not None
    assert min(design.power - 0.9, design.attacked_power - 0.6) > -0.02


def test_texts_that_vary_without_being_known() -> None:
    """A signal that tells only how much counts vary: rates of the Beta law with that variance."""

    class Varied(PlugIn):
        def variance_inflation(self, n_tokens: int, gamma: float, delta: float) -> float:
            del n_tokens, gamma, delta
            return 4.0

    test = WindowTest("winmax-c", 30, 0.5)
    value, rng = test.threshold(0.05).value, np.random.default_rng(2)
    assert value is not None
    rate, alike = float(PlugIn().green_rate(0.5, 2.0)), 29.0 / 3.0 - 1.0
    rates = rng.beta(rate * alike, (1.0 - rate) * alike, (20_000, 1))
    found = np.mean(test.statistics(rng.random((20_000, 30)) < rates) > value)
    told = window_powers(test, 0.05, Varied(), 2.0, Edits(removal=0.2))
    assert told.whole == pytest.approx(found, abs=0.02)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(
        Infeasible, match=r"with a share of 0.9 replaced, by winmax-c with n_tokens = 10"
    ):
        plan(n_tokens=10, alpha=0.01, power=0.9, removal=0.9, detector="winmax-c")
    with pytest.raises(InvalidInput, match="n_tokens must be in"):
        plan(**{**ASKED, "n_tokens": 5_000})
    with pytest.raises(InvalidInput, match="detector must be one of"):
        plan(**{**ASKED, "detector": "magic"})
    for change in ({"alpha": 0.9995}, {"power": 0.01}):
        with pytest.raises(InvalidInput, match="power must exceed alpha"):
            plan(**ASKED | change)
    with pytest.raises(InvalidInput, match=r"power must be in \(0.05, 0.999\]; got 0.9995"):
        plan(**ASKED | {"power": 0.9995})
    with pytest.raises(InvalidInput, match=r"attacked_power must be in \(0.05, 0.999\]"):
        plan(**ASKED | {"attacked_power": 0.01})


def test_the_command_line(found: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            main(["plan", "--n-tokens", "30", "--alpha", ".05", "--power", ".9", *arguments])
        return "".join(capsys.readouterr())

    spec, ours = tmp_path / "s.json", ("--detector", "winmax-c", "--removal", ".2")
    shown = run(*ours, "--vocab-size", "1000", "-o", str(spec))
    assert "of winmax-c, 20,000 texts simulated" in shown
    written = WatermarkSpec.load(spec)
    assert (written.gamma, written.delta) == (found.gamma, found.delta)
    detector = Detector(written, SecretKey(bytes(range(32))))
    assert (detector.alpha, detector.detectors) == (0.05, ("winmax-c",))
    assert written.design is not None
    with pytest.raises(
        InvalidInput, match="detector must be one of count, winmax, winmax-c, evalue"
    ):
        replace(written, design=written.design | {"detector": ["count"]})
    assert "missing: --removal." in run("--detector", "winmax-c")
    assert "takes no --gamma, --steer." in run(*ours, "--steer", "--gamma", ".5")
    assert "--detector must be one of count, winmax, winmax-c, evalue; got" in run(
        "--detector", "z"
    )
    assert "--compare needs --profile" in run(*ours, "--compare")
