"""Information decay, stationarity and long-run variance on profiles whose laws are known.

Each step is certain (one token has all the mass, green rate gamma) or flat (64 alike).
"""

import numpy as np
import pytest

from powermark.errors import InvalidInput
from powermark.signals.assumptions import Lags, measure_assumptions
from tests.signals.profiles import profile_of

GAMMA, DELTA, TEXTS, STEPS = 0.5, 2.0, 400, 64


def within(lag: Lags, wanted: float) -> bool:
    return abs(lag.correlation - wanted) < 4.0 * lag.error


def test_a_chain_decays_at_its_rate() -> None:
    """A chain that keeps its kind of step with probability .9: covariances are .8 ** lag."""
    rng = np.random.default_rng(0)
    change = rng.random((TEXTS, STEPS)) < 0.1
    change[:, 0] = rng.random(TEXTS) < 0.5
    found = measure_assumptions(profile_of(np.cumsum(change, axis=1) % 2 == 1), GAMMA, DELTA)
    rates = [measure_assumptions(profile_of(np.full((3, 8), f)), GAMMA, DELTA) for f in (0, 1)]
    low, high = (each.gamma_prime for each in rates)
    assert low == pytest.approx(GAMMA)
    share = (high - low) ** 2 / 4.0 / (found.gamma_prime * (1.0 - found.gamma_prime))
    assert [lag.first for lag in found.lags] == [1, 2, 4, 8, 16, 32]
    for lag in found.lags:
        each = np.arange(lag.first, lag.last + 1)
        pairs = np.maximum(STEPS - each, 0)
        assert within(lag, share * float(pairs @ 0.8**each / pairs.sum()))
    assert found.lags[0].information > 4.0 * found.lags[2].information > 0.0
    assert abs(found.drift) < 4.0 * found.drift_error
    # the long-run variance of the chain: 1 + 2 share sum of .8 ** lag
    assert found.inflation[64] == pytest.approx(1.0 + 2.0 * share * 0.8 / 0.2, rel=0.15)


def test_texts_that_differ_never_forget() -> None:
    rng = np.random.default_rng(1)
    flat = np.repeat(rng.random((TEXTS, 1)) < 0.5, STEPS, axis=1)
    found = measure_assumptions(profile_of(flat), GAMMA, DELTA)
    assert found.lags[-1].correlation == pytest.approx(found.lags[0].correlation, rel=1e-6)
    assert found.lags[-1].correlation > 20.0 * found.lags[-1].error
    assert found.inflation[64] > 1.9 * found.inflation[32] - 1.0  # in proportion to length


def test_a_drift_is_seen_and_independent_steps_are_not_correlated() -> None:
    rng = np.random.default_rng(2)
    drifting = rng.random((TEXTS, STEPS)) < np.linspace(0.2, 0.8, STEPS)
    found = measure_assumptions(profile_of(drifting), GAMMA, DELTA)
    assert found.drift > 10.0 * found.drift_error
    assert list(found.quarters) == sorted(found.quarters)
    plain = measure_assumptions(profile_of(rng.random((TEXTS, STEPS)) < 0.5), GAMMA, DELTA)
    assert all(within(lag, 0.0) for lag in plain.lags)
    assert plain.lags[0].error < 0.002
    assert str(plain).startswith("lag 1 ")
    assert "lag 32 to 63" in str(plain)


def test_a_sample_that_is_too_small() -> None:
    for texts, steps in ((2, 50), (9, 7)):
        with pytest.raises(InvalidInput, match="3 or more texts of 8 or more"):
            measure_assumptions(profile_of(np.ones((texts, steps), bool)), GAMMA, DELTA)
