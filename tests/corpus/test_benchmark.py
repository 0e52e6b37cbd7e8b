"""The benchmark notices a rate of false discoveries above the promise, and no honest one."""

import numpy as np
import pytest

from benchmarks.scan import FDR, false_calls


def shares(rate: float, corpora: int, rng: np.random.Generator) -> list[float]:
    """Shares of false ones among 600 calls, as in corpora of 20,000 documents."""
    return [float(count) / 600 for count in rng.binomial(600, rate, corpora)]


@pytest.mark.parametrize(("rate", "low", "high"), [(0.05, 0, 20), (0.03, 0, 0), (0.07, 195, 200)])
def test_false_discoveries_above_the_promise_fail_the_benchmark(
    rate: float, low: int, high: int
) -> None:
    """Of 200 runs of 20 corpora; at 5 % itself 2.5 % fail, and more than 20 with chance 1e-7."""
    rng = np.random.default_rng(3)
    failed = sum(false_calls(shares(rate, 20, rng))[1] > FDR for _ in range(200))
    assert low <= failed <= high


def test_the_interval_contains_the_mean() -> None:
    mean, low, high = false_calls([0.04, 0.06])
    assert low < mean < high
    assert mean == pytest.approx(0.05)
    assert false_calls([0.9])[1] == -np.inf  # one corpus says nothing
