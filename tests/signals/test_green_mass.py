"""The compiled sums over many steps against their readable twin in NumPy."""

import numpy as np
import pytest

from powermark.signals.green_mass import GreenMass

STEPS = 200


def masses(kept: int, tail: bool, tokens: int = 300) -> tuple[GreenMass, GreenMass]:
    """Return certain, spiky and flat steps, as kernels and as NumPy sum them."""
    rng = np.random.default_rng(kept)
    weights = rng.gamma(10.0 ** rng.uniform(-3.0, 0.5, (STEPS, 1)), size=(STEPS, tokens)) + 1e-30
    p = -np.sort(-weights / weights.sum(axis=1, keepdims=True), axis=1)
    rest = p[:, kept:] if tail else np.zeros((STEPS, 1))
    parts = (p[:, :kept], rest.sum(axis=1), (rest**2).sum(axis=1))
    many, few = GreenMass(*parts), GreenMass(*parts)
    many.few, few.few = False, True
    return many, few


@pytest.mark.parametrize(
    ("kept", "tail"), [(1, False), (2, True), (6, False), (10, False), (64, True)]
)
@pytest.mark.parametrize("gamma", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 2.0, 20.0, 40.0, 200.0])
def test_many_steps_are_summed_as_few_are(
    kept: int, tail: bool, gamma: float, delta: float
) -> None:
    many, few = masses(kept, tail)
    np.testing.assert_allclose(many.rates(gamma, delta), few.rates(gamma, delta), atol=1e-11)
    np.testing.assert_allclose(many.costs(gamma, delta), few.costs(gamma, delta), atol=1e-10)


def test_many_steps_are_many() -> None:
    assert not masses(6, True)[0].few
    assert GreenMass(np.ones((1, 1)), np.zeros(1), np.zeros(1)).few
