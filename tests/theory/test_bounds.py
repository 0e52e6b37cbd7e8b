import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from powermark.theory import (
    binomial_tail,
    clean_shift,
    critical_count,
    efficiency,
    full_sequence_shift,
    gamma_prime,
    gamma_star,
    information_limit,
    kl_divergence,
    normal_power,
    winmax_c_shift,
)


@pytest.mark.parametrize(("n", "alpha"), [(50, 0.05), (200, 1e-5), (1000, 0.01)])
def test_gamma_star_is_where_power_one_half_ends(n: int, alpha: float) -> None:
    star = float(gamma_star(n, alpha))
    assert star == pytest.approx(n / (n + stats.norm.isf(alpha) ** 2))
    near_one = 1 - 1e-12
    assert float(normal_power(star - 1e-6, near_one, n, alpha)) > 0.5
    assert float(normal_power(star + 1e-6, near_one, n, alpha)) < 0.5


def test_information_limit_of_the_notes() -> None:
    assert float(information_limit(50, 0.05, 0.95)) == pytest.approx(0.0530, abs=5e-5)
    assert float(information_limit(50, 0.05, 0.8)) == pytest.approx(0.0381, abs=5e-5)
    np.testing.assert_array_equal(information_limit(50, 0.05, [0.01, 0.05]), 0.0)


@given(
    st.integers(2, 500),
    st.floats(0.02, 0.98),
    st.floats(0.05, 8.0),
    st.floats(-6, -0.5).map(lambda e: 10.0**e),
)
def test_no_design_beats_the_information_limit(
    n: int, gamma: float, delta: float, alpha: float
) -> None:
    k = critical_count(n, gamma, alpha)
    size, rate = float(binomial_tail(n, k, gamma)), gamma_prime(gamma, delta)
    if size > 0.0:
        power = float(binomial_tail(n, k, rate))
        share = float(efficiency(n, size, power, kl_divergence(gamma, delta)))
        assert share <= 1 + 1e-9


@given(st.floats(0.05, 0.95), st.floats(0.1, 5.0), st.integers(10, 500), st.floats(0.0, 0.9))
def test_signal_removal_shifts(gamma: float, delta: float, n: int, f: float) -> None:
    rate = float(gamma_prime(gamma, delta))
    clean = float(clean_shift(gamma, rate, n))
    sd = np.sqrt(n * gamma * (1 - gamma))
    mixed = (1 - f) * n * rate + f * n * gamma
    assert clean == pytest.approx((n * rate - n * gamma) / sd)
    assert float(full_sequence_shift(clean, f)) == pytest.approx((mixed - n * gamma) / sd)
    kept = (1 - f) * n
    cut_out = kept * (rate - gamma) / np.sqrt(kept * gamma * (1 - gamma))
    assert float(winmax_c_shift(clean, f)) == pytest.approx(cut_out)
