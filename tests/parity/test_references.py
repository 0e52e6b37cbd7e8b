"""Our closed forms against those of scipy and statsmodels, and against scipy's simulated power."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import normal_power_het, normal_sample_size_one_tail

from powermark import evaluate
from powermark.theory import binomial_tail, normal_power, normal_required_length

shares = st.floats(0.05, 0.95)


@given(shares, shares, st.integers(5, 5000), st.floats(1e-6, 0.2), st.floats(0.5, 3.0))
def test_eq_1_is_normal_power_het(g: float, r: float, n: int, alpha: float, c: float) -> None:
    want = normal_power_het(
        r - g,
        n,
        alpha,
        std_null=np.sqrt(g * (1 - g)),
        std_alternative=np.sqrt(c * r * (1 - r)),
        alternative="larger",
    )
    assert float(normal_power(g, r, n, alpha, c)) == pytest.approx(want, rel=1e-10, abs=1e-14)


@given(shares, st.floats(0.05, 0.9), st.floats(1e-6, 0.2), st.floats(0.5, 0.999))
def test_required_length_is_normal_sample_size(
    g: float, x: float, alpha: float, power: float
) -> None:
    r = g + (1 - g) * x
    want = normal_sample_size_one_tail(
        r - g, power, alpha, std_null=np.sqrt(g * (1 - g)), std_alternative=np.sqrt(r * (1 - r))
    )
    assert float(normal_required_length(g, r, alpha, power)) == pytest.approx(want, rel=1e-10)


@given(st.integers(1, 2000), shares, st.data())
def test_size_is_binomtests_p_value(n: int, gamma: float, data: st.DataObject) -> None:
    green = data.draw(st.integers(0, n))
    want = stats.binomtest(green, n, gamma, alternative="greater").pvalue
    assert float(binomial_tail(n, green, gamma)) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize(("gamma", "delta"), [(0.25, 1.0), (0.5, 0.7), (0.9, 1.2)])
def test_power_is_scipys_simulated_power(gamma: float, delta: float) -> None:
    """scipy.stats.power by simulation: 20,000 texts, 4 standard errors, false alarm 6e-5."""
    n, alpha = 60, 0.02
    design = evaluate(gamma, delta, n_tokens=n, alpha=alpha)
    rng = np.random.default_rng(3)

    def texts(size: tuple[int, ...]) -> np.ndarray:
        return rng.random(size) < design.gamma_prime

    def p_value(indicators: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(stats.binom.sf(indicators.sum(axis=axis) - 1, n, gamma))

    simulated = stats.power(
        p_value, texts, [n], significance=alpha, n_resamples=20_000, vectorized=True
    ).power
    error = np.sqrt(design.power * (1 - design.power) / 20_000)
    assert abs(np.asarray(simulated).item() - design.power) < 4 * error + 1e-9
