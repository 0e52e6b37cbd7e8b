import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from powermark.errors import InvalidInput
from powermark.theory import (
    beta_binomial_power,
    binomial_tail,
    critical_count,
    gamma_prime,
    normal_gamma_prime,
    normal_power,
    normal_required_length,
    z_critical_count,
    z_score,
)
from powermark.theory.power import beta_total, most_inflation

lengths, rates = st.integers(1, 3000), st.floats(0.01, 0.99)
levels = st.floats(-9.0, -0.5).map(lambda e: 10.0**e)


@given(lengths, rates, levels)
def test_critical_count_is_the_smallest_that_keeps_alpha(
    n: int, gamma: float, alpha: float
) -> None:
    k = int(critical_count(n, gamma, alpha))
    assert stats.binom.sf(k - 1, n, gamma) <= alpha * (1 + 1e-11)
    assert stats.binom.sf(k - 2, n, gamma) > alpha * (1 - 1e-11)


def test_critical_count_for_arrays_and_extremes() -> None:
    np.testing.assert_array_equal(critical_count(50, [0.9418, 0.9463, 0.5], 0.05), [50, 51, 32])
    extreme = int(critical_count(10_000, 0.5, 1e-250))
    assert (
        stats.binom.sf(extreme - 1, 10_000, 0.5)
        <= 1e-250
        < stats.binom.sf(extreme - 2, 10_000, 0.5)
    )
    assert int(critical_count(3, 0.5, 0.999)) == 1


@given(lengths, rates, st.data())
def test_binomial_tail_is_scipys(n: int, p: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n + 1))
    assert float(binomial_tail(n, k, p)) == pytest.approx(stats.binom.sf(k - 1, n, p), rel=1e-10)


def test_z_test_is_the_papers_with_its_true_size() -> None:
    gamma = 0.9462668142137298
    assert int(z_critical_count(50, gamma, 0.05)) == 50
    assert float(binomial_tail(50, 50, gamma)) == pytest.approx(0.0632, abs=5e-5)
    assert float(z_score(50, 50, gamma)) > stats.norm.isf(0.05) > float(z_score(49, 50, gamma))
    # just below gamma_star all tokens must be green; above it the test can never reject
    assert int(z_critical_count(50, 0.9487, 0.05)) == 51


@given(st.integers(2, 500), rates, levels)
def test_z_critical_count_rejects_strictly(n: int, gamma: float, alpha: float) -> None:
    k, z = int(z_critical_count(n, gamma, alpha)), stats.norm.isf(alpha)
    assert k == n + 1 or float(z_score(k, n, gamma)) > z - 1e-9
    assert k == 0 or float(z_score(k - 1, n, gamma)) <= z + 1e-9


@given(st.integers(2, 800), st.floats(0.02, 0.98), st.floats(0.01, 0.9), st.floats(0.05, 0.95))
def test_beta_binomial_power_sums_its_probabilities(n: int, p: float, x: float, q: float) -> None:
    c = 1.0 + x * (n - 1)
    k = int(np.clip(stats.binom.ppf(q, n, p), 1, n))
    total = (n - c) / (c - 1)
    want = stats.betabinom.pmf(np.arange(k, n + 1), n, p * total, (1 - p) * total).sum()
    assert float(beta_binomial_power(n, k, p, c)) == pytest.approx(want, abs=1e-9)


def test_beta_binomial_without_inflation_is_binomial_and_near_it_close() -> None:
    binomial = float(binomial_tail(200, 180, 0.92))
    assert float(beta_binomial_power(200, 180, 0.92)) == binomial
    assert float(beta_binomial_power(200, 180, 0.92, 1 + 1e-7)) == pytest.approx(binomial, abs=1e-7)
    mixed = beta_binomial_power(200, 180, [0.92, 1.0, 0.92], [1.0, 1.5, 1.5])
    assert float(mixed[0]) == binomial
    assert float(mixed[1]) == 1.0
    assert float(mixed[2]) < binomial


def test_beta_binomial_moments() -> None:
    n, p, c = 60, 0.8, 2.5
    tails = beta_binomial_power(n, np.arange(1, n + 1), p, c)  # P(S >= k), k = 1..n
    mean = float(tails.sum())
    second = float(((2 * np.arange(1, n + 1) - 1) * tails).sum())
    assert mean == pytest.approx(n * p, rel=1e-10)
    assert second - mean**2 == pytest.approx(c * n * p * (1 - p), rel=1e-8)


def test_inflation_has_its_bounds() -> None:
    with pytest.raises(InvalidInput, match=r"below n_tokens = 50.*got 50"):
        beta_binomial_power(50, 40, 0.9, 50.0)
    with pytest.raises(InvalidInput, match=r"variance_inflation must be in \[1, inf\)"):
        beta_binomial_power(50, 40, 0.9, 0.5)


def test_normal_power_is_not_monotone_below_a_half() -> None:
    """Just above gamma_star the normal approximation falls as delta grows (style notes, 10)."""
    low, high = (float(normal_power(0.99, gamma_prime(0.99, d), 50, 0.05)) for d in (1e-9, 2.0))
    assert low == pytest.approx(0.05, abs=1e-4)
    assert high < 0.01


@given(st.integers(5, 2000), rates, levels, st.floats(0.5, 8.0), st.floats(0.1, 2.0))
def test_normal_power_increases_in_delta_above_a_half(
    n: int, gamma: float, alpha: float, delta: float, more: float
) -> None:
    low, high = (
        float(normal_power(gamma, gamma_prime(gamma, d), n, alpha)) for d in (delta, delta + more)
    )
    assert low < 0.5 or high >= low - 1e-12


@given(st.integers(5, 2000), rates, levels, st.floats(0.05, 0.999), st.floats(0.5, 4.0))
def test_normal_gamma_prime_inverts_eq_1(
    n: int, gamma: float, alpha: float, power: float, c: float
) -> None:
    rate = float(normal_gamma_prime(gamma, n, alpha, power, c))
    if gamma < rate < 1 - 1e-12:
        assert float(normal_power(gamma, rate, n, alpha, c)) == pytest.approx(power, abs=1e-6)


def test_normal_gamma_prime_above_gamma_star_is_out_of_reach() -> None:
    assert float(normal_gamma_prime(0.99, 50, 0.05, 0.8)) >= 1.0


def test_normal_power_at_a_rate_of_one() -> None:
    assert float(normal_power(0.5, 1.0, 50, 0.05)) == 1.0
    assert float(normal_power(0.99, 1.0, 50, 0.05)) == 0.0


def test_normal_required_length_inverts_and_refuses() -> None:
    n = float(normal_required_length(0.5, 0.7, 0.01, 0.95, 1.3))
    z, q = stats.norm.isf(0.01), stats.norm.ppf(0.95)
    assert n == pytest.approx(((z * 0.5 + q * np.sqrt(1.3 * 0.21)) / 0.2) ** 2)
    with pytest.raises(InvalidInput, match="gamma_prime must exceed gamma"):
        normal_required_length(0.5, 0.5, 0.05, 0.9)


@pytest.mark.parametrize("n", [0, -3, 2.5])
def test_lengths_are_positive_whole_numbers(n: float) -> None:
    with pytest.raises(InvalidInput, match="n_tokens must be"):
        critical_count(n, 0.5, 0.05)


def test_exact_and_normal_power_meet_for_long_texts() -> None:
    """Guide line 15: exact and asymptotic side by side, their distance bounded."""
    for n, bound in ((200, 0.05), (2000, 0.016), (20_000, 0.006)):
        rate = float(normal_gamma_prime(0.5, n, 0.01, 0.9))
        exact = float(binomial_tail(n, critical_count(n, 0.5, 0.01), rate))
        assert abs(exact - 0.9) < bound


def test_numbers_that_are_not_exact_are_refused() -> None:
    """Above 2^53 n and n + 1 may be one number, and a search for a count would never end."""
    longest = 2**53 - 1
    assert critical_count(longest, 0.5, 0.05) > longest / 2
    for n in (2**53, 10**17, [3, 10**17]):
        with pytest.raises(InvalidInput, match=r"n_tokens must be below 2\^53, where whole"):
            critical_count(n, 0.5, 0.05)


def test_the_law_of_rates_has_the_correlation_of_the_inflation() -> None:
    n, c = 50, np.array([1.001, 2.0, 30.0, most_inflation(50)])
    np.testing.assert_allclose(1.0 / (beta_total(n, c) + 1.0), (c - 1.0) / (n - 1.0), rtol=1e-9)
    # nearly all texts have one colour
    assert beta_binomial_power(n, 30, 0.7, most_inflation(n)) == pytest.approx(0.7, abs=1e-5)
    assert most_inflation(1) == 1.0
