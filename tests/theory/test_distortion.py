import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import lambertw

from powermark.errors import Infeasible, InvalidInput
from powermark.theory import (
    bernoulli_kl,
    delta_from_kl,
    gamma_prime,
    gamma_roots,
    gamma_zero,
    kl_bound,
    kl_divergence,
    kl_slope_delta,
    kl_slope_gamma,
    token_kl,
)
from powermark.theory.roots import bracketed_root

gammas = st.floats(1e-4, 1 - 1e-4)
deltas = st.floats(1e-3, 20.0)


def exact_kl(gamma: float, delta: float) -> float:
    with mpmath.workdps(60):
        g, d = mpmath.mpf(gamma), mpmath.mpf(delta)
        e = mpmath.exp(d)
        return float(d * e * g / (1 + g * (e - 1)) - mpmath.log(1 + g * (e - 1)))


@pytest.mark.parametrize("gamma", [1e-12, 1e-6, 0.01, 0.3, 0.5, 0.7, 0.99, 1 - 1e-6, 1 - 1e-10])
@pytest.mark.parametrize("delta", [1e-8, 1e-4, 0.3, 0.999, 1.0, 1.5, 3.0, 10.0, 25.0, 100.0, 600.0])
def test_lemma_kl_keeps_its_digits_at_both_ends(gamma: float, delta: float) -> None:
    assert float(kl_divergence(gamma, delta)) == pytest.approx(exact_kl(gamma, delta), rel=5e-15)


@given(gammas, deltas)
def test_lemma_kl_is_the_bernoulli_kl(gamma: float, delta: float) -> None:
    want = float(bernoulli_kl(gamma_prime(gamma, delta), gamma))
    assert float(kl_divergence(gamma, delta)) == pytest.approx(want, rel=1e-6, abs=1e-14)


@given(gammas, deltas)
def test_lemma_kl_is_between_zero_and_minus_log_gamma(gamma: float, delta: float) -> None:
    assert 0.0 <= float(kl_divergence(gamma, delta)) <= float(kl_bound(gamma))


@given(gammas, deltas, st.floats(1e-3, 1.0))
def test_lemma_kl_is_increasing_in_delta(gamma: float, delta: float, more: float) -> None:
    low, high = (float(kl_divergence(gamma, d)) for d in (delta, delta + more))
    assert low <= high
    assert float(kl_slope_delta(gamma, delta)) > 0.0


@given(gammas, deltas)
def test_lemma_kl_is_largest_at_gamma_zero(gamma: float, delta: float) -> None:
    peak = gamma_zero(delta)
    assert float(kl_divergence(gamma, delta)) <= float(kl_divergence(peak, delta)) * (1 + 1e-13)
    assert float(kl_slope_gamma(gamma, delta)) * (float(peak) - gamma) >= 0.0


@pytest.mark.parametrize("gamma", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("delta", [0.2, 2.0, 7.0])
def test_slopes_against_differences(gamma: float, delta: float) -> None:
    h = 1e-6
    in_delta = (exact_kl(gamma, delta + h) - exact_kl(gamma, delta - h)) / (2 * h)
    in_gamma = (exact_kl(gamma + h, delta) - exact_kl(gamma - h, delta)) / (2 * h)
    assert float(kl_slope_delta(gamma, delta)) == pytest.approx(in_delta, rel=1e-7, abs=1e-9)
    assert float(kl_slope_gamma(gamma, delta)) == pytest.approx(in_gamma, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("delta", [1e-8, 1e-3, 0.5, 0.999, 1.0, 2.0, 10.0, 50.0, 300.0])
def test_gamma_zero_keeps_its_digits(delta: float) -> None:
    with mpmath.workdps(60):
        e = mpmath.exp(mpmath.mpf(delta))
        want = float((delta * e - (e - 1)) / (e - 1) ** 2)
    assert float(gamma_zero(delta)) == pytest.approx(want, rel=1e-14)


def test_gamma_zero_at_no_bias_is_a_half() -> None:
    assert float(gamma_zero(0.0)) == 0.5


@given(gammas, st.floats(0.001, 0.999))
def test_delta_from_kl_inverts(gamma: float, share: float) -> None:
    kl = share * float(kl_bound(gamma))
    assert float(kl_divergence(gamma, delta_from_kl(gamma, kl))) == pytest.approx(kl, rel=1e-11)


def test_delta_from_kl_takes_arrays() -> None:
    gamma = np.linspace(0.05, 0.9, 40)
    np.testing.assert_allclose(kl_divergence(gamma, delta_from_kl(gamma, 0.05)), 0.05, rtol=1e-13)


def test_delta_from_kl_names_the_bound() -> None:
    with pytest.raises(Infeasible, match=r"below -log\(gamma\) = 0.6931.* got 0.7"):
        delta_from_kl(0.5, 0.7)
    with pytest.raises(Infeasible, match=r"gamma = 0.9 allows"):
        delta_from_kl([0.1, 0.9], 0.2)


@given(deltas, st.floats(1e-6, 1.0))
def test_both_roots_cost_the_budget(delta: float, share: float) -> None:
    kl = share * float(kl_divergence(gamma_zero(delta), delta))
    low, high = gamma_roots(delta, kl)
    assert float(low) <= float(gamma_zero(delta)) * (1 + 1e-12) <= float(high) * (1 + 2e-12)
    assert float(token_kl(low, delta)) == pytest.approx(kl, rel=1e-9)
    # near 1 the spacing of doubles limits how well gamma_h can be written down
    assert float(token_kl(high, delta)) == pytest.approx(kl, rel=1e-9, abs=2e-16 * delta)


def test_roots_agree_with_lambert_w() -> None:
    """With D = 1 + (e-1) gamma and B = delta e / (e-1), KL = K reads log D + B/D = B - K."""
    delta = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
    kl = 0.3 * kl_divergence(gamma_zero(delta), delta)
    b = delta * np.exp(delta) / np.expm1(delta)
    for branch, root in zip((-1, 0), gamma_roots(delta, kl), strict=True):
        u = -lambertw(-b * np.exp(kl - b), branch).real
        np.testing.assert_allclose(root, (b / u - 1) / np.expm1(delta), rtol=1e-10)


def test_roots_meet_at_the_maximum_and_refuse_above_it() -> None:
    peak = float(kl_divergence(gamma_zero(2.0), 2.0))
    low, high = gamma_roots(2.0, peak)
    assert float(low) == pytest.approx(float(high), rel=1e-5)
    with pytest.raises(Infeasible, match=r"the most that delta = 2 costs"):
        gamma_roots(2.0, 1.01 * peak)
    with pytest.raises(InvalidInput, match="kl must be in"):
        gamma_roots(2.0, 0.0)


def test_a_root_search_that_fails_says_so() -> None:
    with pytest.raises(ArithmeticError, match="did not converge"):
        bracketed_root(lambda x: x**2 + 1.0, np.zeros(2), np.ones(2))
