import mpmath
import numpy as np
import pytest

from powermark.theory import beta_expectation, binomial_tail, token_green_rate, token_kl


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
