import numpy as np
import pytest

from powermark.errors import InvalidInput
from powermark.theory import variance_inflation


def test_estimate_recovers_the_inflation_of_a_beta_binomial() -> None:
    """20,000 texts: 4 standard errors around the truth, a false alarm of 6e-5."""
    rng = np.random.default_rng(5)
    n, p, c = 50, 0.4, 1.8
    total = (n - c) / (c - 1)
    counts = rng.binomial(n, rng.beta(p * total, (1 - p) * total, size=20_000))
    found = variance_inflation(counts, n)
    assert abs(found.c - c) < 4 * found.standard_error
    assert abs(found.gamma_prime - p) < 0.01
    assert (found.n_tokens, found.n_texts) == (50, 20_000)


def test_estimate_by_hand() -> None:
    found = variance_inflation([2, 4, 6], 8)
    assert found.c == pytest.approx(4.0 / (8 * 0.25))
    assert found.standard_error == pytest.approx(found.c)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([3], "at least 2 texts; got 1"),
        ([3, 11], "at most n_tokens = 10; got 11"),
        ([10, 10], "one colour"),
        ([1, 2.5], "whole number; got 2.5"),
    ],
)
def test_counts_must_make_sense(counts: list[float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        variance_inflation(counts, 10)
