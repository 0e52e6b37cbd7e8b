import mpmath
import numpy as np
import pytest
from scipy import stats

from powermark.statistics.p_values import (
    green_rate_interval,
    log_p_value,
    marked_share,
    mid_p_value,
    p_value,
)


def test_p_values_equal_scipys_to_twelve_digits() -> None:
    """Over a grid of lengths, shares and counts, as long as they are above 1e-250."""
    compared = 0
    for n in (1, 2, 10, 50, 64, 333, 1000, 5000):
        for gamma in (0.01, 0.1, 0.25, 0.5, 0.9, 0.946, 0.99):
            s = np.unique(np.linspace(0, n, 60).round())
            want = stats.binom.sf(s - 1, n, gamma)
            kept = want > 1e-250
            np.testing.assert_allclose(p_value(s, n, gamma)[kept], want[kept], rtol=1e-12)
            compared += int(kept.sum())
    assert compared > 1500


@pytest.mark.parametrize(
    ("s", "n", "gamma"),
    [(1000, 1000, 0.25), (990, 1000, 0.25), (900, 1000, 0.25), (4000, 5000, 0.5), (299, 300, 0.01),
     (2900, 3000, 0.1), (500, 1000, 0.1), (600, 1000, 0.25), (15, 15, 1e-20)],
)  # fmt: skip
def test_logarithms_are_right_far_beyond_the_smallest_float(s: int, n: int, gamma: float) -> None:
    with mpmath.workdps(60):
        g = mpmath.mpf(gamma)
        want = mpmath.log(
            mpmath.fsum(mpmath.binomial(n, j) * g**j * (1 - g) ** (n - j) for j in range(s, n + 1))
        )
        assert abs(float(log_p_value(s, n, gamma) - want)) < 1e-12 * abs(want)


def test_p_values_at_their_ends() -> None:
    assert float(p_value(0, 0, 0.5)) == 1.0
    assert float(p_value(0, 10, 0.5)) == 1.0
    assert float(p_value(11, 10, 0.5)) == 0.0
    assert float(log_p_value(11, 10, 0.5)) == -np.inf
    got = log_p_value([10, 400], [10, 400], [0.5, 0.1])
    np.testing.assert_allclose(got, [10 * np.log(0.5), 400 * np.log(0.1)])


def test_mid_p_is_between_its_neighbours() -> None:
    s = np.arange(0, 21)
    mid = mid_p_value(s, 20, 0.3)
    assert np.all((mid < p_value(s, 20, 0.3)) & (mid > p_value(s + 1, 20, 0.3)))


def test_intervals_are_clopper_and_pearsons() -> None:
    for s, n in ((0, 10), (3, 10), (10, 10), (57, 100)):
        low, high = green_rate_interval(s, n)
        want = stats.binomtest(s, n).proportion_ci(0.95, method="exact")
        assert (float(low), float(high)) == pytest.approx((want.low, want.high), abs=1e-12)
    low, high = green_rate_interval(0, 0)
    assert (float(low), float(high)) == (0.0, 1.0)


def test_marked_share_is_a_share() -> None:
    got = marked_share([0.1, 0.5, 0.7, 0.9, 1.0], 0.5, 0.9)
    np.testing.assert_allclose(got, [0.0, 0.0, 0.5, 1.0, 1.0])
