import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermark.errors import InvalidInput
from powermark.paper.figures_formulas import hypergeometric_table
from powermark.theory import (
    beta_expectation,
    delta_from_gamma_prime,
    gamma_prime,
    gamma_prime_finite,
    token_green_rate,
)
from tests import golden

gammas = st.floats(1e-6, 1 - 1e-6)
deltas = st.floats(0.0, 30.0)


def test_paper_table_of_hypergeometric_values_to_its_print_precision() -> None:
    printed, computed = golden.rows("hypergeometric.csv"), hypergeometric_table()
    assert len(printed) == len(computed) == 24
    for want, got in zip(printed, computed, strict=True):
        assert (got["gamma"], got["delta"]) == (want["gamma"], want["delta"])
        assert got["vocab_size"] == want["vocab_size"]
        for column in ("hyp2f1", "limit", "error"):
            assert got[column] == pytest.approx(want[column], abs=5.01e-7), (want, column)


@pytest.mark.parametrize("vocab_size", [500, 1000, 32_000, 50_257, 151_936, 262_144])
def test_finite_vocabulary_is_finite_and_below_its_limit(vocab_size: int) -> None:
    gamma = np.array([0.01, 0.1, 0.25, 0.5, 0.9, 0.946])[:, None]
    delta = np.array([0.1, 1.0, 2.0, 5.0, 10.0, 20.0])
    exact, limit = gamma_prime_finite(gamma, delta, vocab_size), gamma_prime(gamma, delta)
    assert np.all(np.isfinite(exact))
    # Jensen: the token lemma is concave in y; 1e-13 is the rounding of a sum of up to 4096 terms
    assert np.all(exact <= limit * (1 + 1e-13))
    # second order of Jensen's gap: -g''(gamma) Var(Y) / 2 is at most e^delta / V
    assert np.all(limit - exact <= np.exp(delta) / vocab_size)


@pytest.mark.parametrize("gamma", [0.05, 0.25, 0.9])
@pytest.mark.parametrize("delta", [0.5, 2.0, 8.0, 20.0])
@pytest.mark.parametrize("total", [20.0, 1000.0, 50_257.0])
def test_series_equals_the_integral(gamma: float, delta: float, total: float) -> None:
    integral = beta_expectation(
        lambda y: token_green_rate(y, delta), gamma * total, (1 - gamma) * total
    )
    assert gamma_prime_finite(gamma, delta, total) == pytest.approx(float(integral), rel=2e-13)


@pytest.mark.parametrize(
    ("gamma", "delta", "vocab_size", "concentration"),
    [(0.3, 8.0, 1000, 1e-3), (0.001, 20.0, 1000, 1.0), (0.2, 2.0, 50, 0.02), (0.25, 1.0, 10, 1.0)],
)
def test_any_concentration_against_mpmath(
    gamma: float, delta: float, vocab_size: int, concentration: float
) -> None:
    total = vocab_size * concentration
    with mpmath.workdps(30):
        x = 1 - mpmath.exp(-mpmath.mpf(delta))
        want = gamma * mpmath.hyp2f1(1, (1 - gamma) * total, total + 1, x)  # after Pfaff
    got = gamma_prime_finite(gamma, delta, vocab_size, concentration)
    assert float(got) == pytest.approx(float(want), rel=1e-13)


@given(gammas, deltas)
def test_theorem_gamma_prime_lies_between_gamma_and_one(gamma: float, delta: float) -> None:
    assert gamma * (1 - 1e-15) <= float(gamma_prime(gamma, delta)) <= 1.0


@given(gammas, gammas, deltas, deltas)
def test_gamma_prime_increases_in_both(g1: float, g2: float, d1: float, d2: float) -> None:
    low, high = sorted((g1, g2)), sorted((d1, d2))
    assert float(gamma_prime(low[0], high[0])) <= float(gamma_prime(low[1], high[1])) * (1 + 1e-15)


@given(st.floats(1e-3, 1 - 1e-3), st.floats(0.0, 10.0))
def test_delta_from_gamma_prime_inverts(gamma: float, delta: float) -> None:
    back = float(delta_from_gamma_prime(gamma, float(gamma_prime(gamma, delta))))
    assert back == pytest.approx(delta, abs=1e-8)


def test_token_lemma_at_both_ends_and_for_arrays() -> None:
    y = np.array([0.0, 0.5, 1.0])
    np.testing.assert_allclose(token_green_rate(y, 2.0), [0.0, 0.8807970779778823, 1.0], rtol=1e-15)
    assert float(token_green_rate(0.3, 0.0)) == 0.3
    assert float(token_green_rate(1e-290, 700.0)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gamma_prime(1.2, 1.0), r"gamma must be in \(0, 1\); got 1.2\."),
        (lambda: gamma_prime(0.5, -1.0), r"delta must be in \[0, 700\]; got -1\."),
        (lambda: gamma_prime([0.5, np.nan], 1.0), r"gamma must be in \(0, 1\); got nan\."),
        (lambda: token_green_rate("a", 1.0), r"green_mass must be a number; got 'a'\."),
        (lambda: gamma_prime_finite(0.5, 1.0, 0), r"vocab_size must be in \(0, inf\); got 0\."),
    ],
)
def test_domains_are_named(call: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()  # type: ignore[operator]
