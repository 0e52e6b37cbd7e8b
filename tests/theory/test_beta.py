import mpmath
import numpy as np
import pytest
from scipy import special

from powermark.errors import InvalidInput
from powermark.theory import beta_expectation, binomial_tail, token_green_rate, token_kl
from powermark.theory.power import beta_binomial_power


def reference(f: object, a: float, b: float) -> float:
    """E[f(Y)] in logit space with mpmath's adaptive quadrature."""
    with mpmath.workdps(25):

        def integrand(u: mpmath.mpf) -> mpmath.mpf:
            density = mpmath.exp(a * u) / (1 + mpmath.exp(u)) ** (a + b) / mpmath.beta(a, b)
            return density * f(1 / (1 + mpmath.exp(-u)))  # type: ignore[operator]

        edges = sorted({-60 / a, -60.0, -20.0, -6.0, -2.0, 0.0, 2.0, 6.0, 20.0, 60.0, 60 / b})
        return float(mpmath.quad(integrand, edges))


@pytest.mark.parametrize(
    ("a", "b"), [(0.3, 0.7), (0.05, 0.1), (3.0, 0.05), (1.0, 9.0), (5.0, 95.0)]
)
@pytest.mark.parametrize("delta", [0.5, 3.0, 8.0])
def test_expectations_of_the_token_lemma(a: float, b: float, delta: float) -> None:
    e = mpmath.exp(delta)
    rate = reference(lambda y: e * y / (1 + (e - 1) * y), a, b)
    got = beta_expectation(lambda y: token_green_rate(y, delta), a, b)
    assert float(got) == pytest.approx(rate, rel=1e-11)
    cost = reference(
        lambda y: delta * e * y / (1 + (e - 1) * y) - mpmath.log(1 + (e - 1) * y), a, b
    )
    assert float(beta_expectation(lambda y: token_kl(y, delta), a, b)) == pytest.approx(
        cost, rel=1e-9
    )


def test_mean_is_exact_and_arrays_broadcast() -> None:
    a, b = np.array([[0.01], [1.0], [1e6]]), np.array([0.02, 3.0, 1e5])
    np.testing.assert_allclose(beta_expectation(lambda y: y, a, b), a / (a + b), rtol=1e-13)


@pytest.mark.parametrize("reach", [40.0, 745.0])
def test_far_tails_do_not_matter(reach: float) -> None:
    value = beta_expectation(
        lambda y: binomial_tail(30, 20, y), 0.02, 0.03, width=1 / np.sqrt(30 * 0.24), reach=reach
    )
    j = np.arange(20, 31)
    with mpmath.workdps(30):
        mass = [mpmath.binomial(30, int(k)) * mpmath.beta(k + 0.02, 30 - k + 0.03) for k in j]
        want = float(sum(mass) / mpmath.beta(0.02, 0.03))
    assert float(value) == pytest.approx(want, abs=1e-11)


@pytest.mark.parametrize("total", [1e9, 1e12, 1e18, 1e40, 1e308])
def test_a_narrow_law_is_a_point(total: float) -> None:
    """E[f(Y)] = f(mean) + f''(mean) variance / 2, the next term being below double precision."""
    gamma, delta = 0.25, 2.0
    x = np.expm1(delta)
    curvature = -2.0 * np.exp(delta) * x / (1.0 + x * gamma) ** 3
    want = token_green_rate(gamma, delta) + curvature * gamma * (1.0 - gamma) / total / 2.0
    got = beta_expectation(lambda y: token_green_rate(y, delta), gamma * total, 0.75 * total)
    assert float(got) == pytest.approx(float(want), abs=2e-14)


@pytest.mark.parametrize("n", [1e9, 1e10, 1e12])
def test_a_narrow_law_under_a_sharp_function(n: float) -> None:
    """A count of so many is normal, with the variance of the beta-binomial law."""
    k, c = n / 2 + np.sqrt(n) / 2, 2.0
    got = float(beta_binomial_power(n, np.ceil(k), 0.5, c))
    z = (np.ceil(k) - 0.5 - n / 2) / np.sqrt(c * n / 4)
    assert got == pytest.approx(float(special.ndtr(-z)), abs=1e-9 + 1 / n)  # its kurtosis


def test_a_law_beyond_reach_has_its_limit() -> None:
    """All of Beta(1e-20, 1) but 1e-17 is closer to 0 than the smallest double."""
    got = beta_expectation(lambda y: token_green_rate(y, 2.0), 1e-20, 1.0)
    assert float(got) == pytest.approx(0.0, abs=1e-17)
    with pytest.raises(InvalidInput, match=r"a must be in \[1e-300, inf\); got 1e-310"):
        beta_expectation(lambda y: y, 1e-310, 1.0)
