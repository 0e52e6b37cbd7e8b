"""The e-process up to a length: the recursion against every text there is, and drawn ones."""

import itertools
from typing import Any

import numpy as np
import pytest

from powermark import Detector, Edits, SecretKey, WatermarkSpec
from powermark.statistics.evalue import EvalueTest
from powermark.statistics.p_values import log_e_path

N = 9
EVERY = np.array(list(itertools.product([False, True], repeat=N)))  # all colourings of N tokens


def enumerated(test: EvalueTest, rates: np.ndarray, alpha: float) -> float:
    """Sum the probabilities of all colourings whose evidence ever reaches 1/alpha."""
    reached = [log_e_path(row, test.gamma, test.bet).max() >= -np.log(alpha) for row in EVERY]
    chances = np.where(EVERY, rates, 1.0 - rates).prod(axis=1)
    return float(chances[np.array(reached)].sum())


@pytest.mark.parametrize(
    ("gamma", "bet", "alpha"),
    [(0.5, 0.8, 0.1), (0.25, 0.4, 0.3), (0.72, 0.999999, 0.06), (0.9, 0.95, 0.01)],
)
def test_powers_are_sums_over_all_colourings(gamma: float, bet: float, alpha: float) -> None:
    test, rng = EvalueTest(N, gamma, bet), np.random.default_rng(0)
    rates = rng.uniform(gamma, 1.0, (3, N))
    want = [enumerated(test, row, alpha) for row in rates]
    np.testing.assert_allclose(test.powers(rates, alpha), want, atol=1e-12)
    assert test.powers(0.9, alpha)[0] == pytest.approx(enumerated(test, np.full(N, 0.9), alpha))
    assert test.size(alpha) == pytest.approx(enumerated(test, np.full(N, gamma), alpha))
    assert test.size(alpha) <= alpha
    assert test.size(0.5**60) == 0.0  # out of reach


@pytest.mark.parametrize("width", [0, 2])
def test_edited_powers_are_sums_over_all_edits(width: int) -> None:
    """Every choice of rewritten tokens, those before the text included."""
    test, rates = EvalueTest(N, 0.5, 0.8), np.linspace(0.7, 0.99, N)
    want = 0.0
    for touched in itertools.product([False, True], repeat=N + width):
        hit = np.array(touched)
        lost = np.array([hit[i : i + width + 1].any() for i in range(N)])
        chance = np.where(hit, 0.15, 0.85).prod()
        want += chance * enumerated(test, np.where(lost, 0.5, rates), 0.1)
    edits = Edits(edit_rate=0.15, context_width=width)
    assert test.powers(rates, 0.1, edits)[0] == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("removal", [0.3, 0.99])
def test_a_block_is_replaced_at_every_place(removal: float) -> None:
    test, rates = EvalueTest(N, 0.5, 0.8), np.linspace(0.7, 0.99, N)
    block = int(np.ceil(removal * N))
    each = []
    for start in range(N - block + 1):
        replaced = rates.copy()
        replaced[start : start + block + 2] = 0.5
        each.append(enumerated(test, replaced, 0.1))
    found = test.powers(rates, 0.1, Edits(removal=removal))
    assert found[0] == pytest.approx(np.mean(each), abs=1e-12)


@pytest.mark.parametrize("edits", [Edits(), Edits(edit_rate=0.05), Edits(removal=0.2)])
def test_drawn_texts_are_found_as_often(edits: Edits) -> None:
    """40,000 texts of 80 tokens, whose rates differ; 5 standard errors."""
    rng, texts, n, gamma = np.random.default_rng(1), 40_000, 80, 0.6
    rates = rng.uniform(0.7, 0.95, n)
    test, lost = EvalueTest(n, gamma, 0.75), np.zeros((texts, n), bool)
    if edits.edit_rate:
        touched = rng.random((texts, n + 2)) < edits.edit_rate
        lost = touched[:, 2:] | touched[:, 1:-1] | touched[:, :-2]
    if edits.removal:
        starts = rng.integers(0, n - 16 + 1, (texts, 1))
        lost = (np.arange(n) >= starts) & (np.arange(n) < starts + 18)
    colours = rng.random((texts, n)) < np.where(lost, gamma, rates)
    found = test.threshold(0.01).rejects(test.statistics(colours)).mean()
    assert test.powers(rates, 0.01, edits)[0] == pytest.approx(found, abs=2.5 / np.sqrt(texts))


@pytest.mark.parametrize("more", [{}, {"gamma_prime": 0.85}])
def test_a_report_s_power_is_exact(more: dict[str, Any]) -> None:
    spec = WatermarkSpec(gamma=0.5, delta=2.0, context_width=1, vocab_size=10)
    detector = Detector(spec, SecretKey(bytes(range(32))), alpha=0.1, detector="evalue", **more)
    test = EvalueTest(N, 0.5, detector.bet)
    want = enumerated(test, np.full(N, detector.gamma_prime), 0.1)
    assert detector.power_at(N) == pytest.approx(want, abs=1e-12)
    assert detector.power_at(100_000) == pytest.approx(1.0)
