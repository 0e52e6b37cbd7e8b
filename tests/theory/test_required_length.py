import numpy as np
import pytest

from powermark.errors import Infeasible, InvalidInput
from powermark.theory import beta_binomial_power, critical_count, required_length


def brute_force(gamma: float, rate: float, alpha: float, power: float, c: float) -> int:
    n = np.arange(int(c) + 1, 4000)
    k = critical_count(n, gamma, alpha)
    reached = beta_binomial_power(n, np.minimum(k, n), rate, c) >= power
    return int(n[np.argmax(reached & (k <= n))])


@pytest.mark.parametrize("c", [1.0, 1.7])
def test_first_length_is_found_by_brute_force_too(c: float) -> None:
    rng = np.random.default_rng(11)
    for _ in range(40 if c == 1.0 else 8):
        gamma = rng.uniform(0.05, 0.97)
        rate = gamma + (1 - gamma) * rng.uniform(0.2, 0.95)
        alpha, power = 10 ** rng.uniform(-6, -1), rng.uniform(0.2, 0.99)
        found = required_length(gamma, rate, alpha, power, c)
        if found < 3000:
            assert found == brute_force(gamma, rate, alpha, power, c)


def test_saw_tooth_of_the_all_green_design() -> None:
    """Power .95 first at 50 tokens, zero at 49, and .99 only where one red is tolerated."""
    gamma, rate = 0.94184492, 0.95 ** (1 / 50)
    assert required_length(gamma, rate * (1 + 1e-9), 0.05, 0.95) == 50
    assert int(critical_count(49, gamma, 0.05)) == 50  # more than there are tokens
    assert required_length(gamma, rate, 0.05, 0.99) == 80


def test_no_signal_and_too_little_signal() -> None:
    with pytest.raises(InvalidInput, match=r"gamma_prime must exceed gamma = 0\.5; got 0\.5"):
        required_length(0.5, 0.5, 0.05, 0.9)
    with pytest.raises(Infeasible, match="more than 10,000,000 scored tokens"):
        required_length(0.5, 0.50001, 1e-6, 0.99)


def test_very_long_texts_with_overdispersion_are_given_up() -> None:
    with pytest.raises(Infeasible, match="more than 10,000,000"):
        required_length(0.9999, 0.99990001, 0.05, 0.99, 1.2)


def test_more_inflation_than_tokens_means_longer_texts() -> None:
    assert required_length(0.3, 0.6, 0.05, 0.5, 300.0) > 300
