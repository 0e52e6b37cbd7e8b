"""Steps after any sampler: weights sum to 1, no KL below 0, no green rate below gamma.

Steps are recorded as a profile records them, in float32, where a tail that was cut off leaves
rounding noise.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from powermark.errors import InvalidInput
from powermark.generation.writing import Sampling
from powermark.measuring.record_served_profile import as_sampled
from powermark.planning.design import evaluate
from powermark.signals.green_mass import GreenMass
from powermark.signals.profile import Profile
from powermark.signals.signal import PlugIn
from powermark.theory.distortion import token_kl
from powermark.theory.green_rate import token_green_rate

VOCAB, HEAD = 400, 64


def sampled(
    rng: np.random.Generator, temperature: float, spread: float, cut: str, how_much: float
) -> np.ndarray:
    """Next-token distributions of a few steps after temperature and one kind of truncation."""
    logits = rng.normal(0.0, spread, (5, VOCAB)) / temperature
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = -np.sort(-p / p.sum(axis=1, keepdims=True), axis=1)
    if cut == "top-k":
        p[:, max(1, int(how_much * 100)) :] = 0.0
    elif cut == "top-p":
        p[np.cumsum(p, axis=1) - p >= how_much] = 0.0
    elif cut == "min-p":
        p[p < how_much * p[:, :1]] = 0.0
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def recorded(p: np.ndarray) -> GreenMass:
    """What a recorder keeps: sums of float32 numbers, with their noise."""
    single = p.astype(np.float32)
    head = single[:, :HEAD]
    mass = np.float32(1.0) - head.sum(axis=1)
    square = (single**2).sum(axis=1) - (head**2).sum(axis=1)
    return GreenMass(head, np.maximum(mass, 0.0), np.maximum(square, 0.0))


def assert_sound(mass: GreenMass, gamma: float, delta: float) -> None:
    """Check what must hold of every step."""
    y, weights = mass.nodes(gamma)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-9)
    assert weights.min() >= 0.0
    assert 0.0 <= y.min() <= y.max() <= 1.0
    np.testing.assert_allclose((weights * y).sum(axis=1), gamma, atol=1e-6)
    assert (mass.rates(gamma, delta) >= gamma).all()
    assert (mass.rates(gamma, delta) <= 1.0 + 1e-12).all()
    assert (mass.costs(gamma, delta) >= 0.0).all()


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    temperature=st.floats(0.05, 2.0),
    spread=st.floats(0.1, 8.0),
    cut=st.sampled_from(["none", "top-k", "top-p", "min-p"]),
    how_much=st.floats(0.01, 0.999),
    gamma=st.floats(0.01, 0.99),
    delta=st.floats(0.0, 30.0),
)
def test_every_sampler_leaves_sound_steps(
    seed: int,
    temperature: float,
    spread: float,
    cut: str,
    how_much: float,
    gamma: float,
    delta: float,
) -> None:
    p = sampled(np.random.default_rng(seed), temperature, spread, cut, how_much)
    assert_sound(recorded(p), gamma, delta)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    temperature=st.floats(0.05, 1.0),
    spread=st.floats(0.1, 8.0),
    top_k=st.integers(0, 20),
    top_p=st.floats(0.01, 1.0),
    gamma=st.floats(0.01, 0.99),
    delta=st.floats(0.0, 30.0),
)
def test_a_servers_twenty_likeliest_tokens_leave_sound_steps(
    seed: int,
    temperature: float,
    spread: float,
    top_k: int,
    top_p: float,
    gamma: float,
    delta: float,
) -> None:
    raw = sampled(np.random.default_rng(seed), 1.0, spread, "none", 1.0)[:, :20]
    sampling = Sampling(n_tokens=1, temperature=temperature, top_k=top_k, top_p=top_p)
    assert_sound(GreenMass(*as_sampled(raw, sampling)), gamma, delta)


@pytest.mark.parametrize("cut", ["top-k", "top-p", "min-p"])
def test_truncated_steps_cost_what_random_lists_cost(cut: str) -> None:
    """Averages over 4,000 lists; 5 standard errors, and .002 for the quadrature."""
    rng, gamma, delta = np.random.default_rng(1), 0.4, 2.5
    p = sampled(rng, 0.7, 3.0, cut, 0.3 if cut != "top-p" else 0.95)
    masses = np.array([(p * (rng.random(p.shape) < gamma)).sum(axis=1) for _ in range(4_000)])
    mass = recorded(p)
    for function, got in ((token_green_rate, mass.rates), (token_kl, mass.costs)):
        drawn = np.asarray(function(np.clip(masses, 0.0, 1.0), delta))
        error = 5.0 * drawn.std(axis=0) / np.sqrt(len(drawn)) + 0.002
        assert (np.abs(got(gamma, delta) - drawn.mean(axis=0)) < error).all()


def noisy() -> GreenMass:
    """Three tokens, and the noise that top-p left of 49,149 others in a profile of 0.1."""
    return GreenMass(*(np.array(x, np.float32) for x in ([[0.6, 0.3, 0.1]], [6e-8], [1.5e-8])))


def test_rounding_noise_in_the_tail_is_no_mass() -> None:
    exact = GreenMass(np.array([[0.6, 0.3, 0.1]]), np.zeros(1), np.zeros(1))
    assert noisy().costs(0.5, 2.0) == pytest.approx(exact.costs(0.5, 2.0), rel=1e-6)
    assert noisy().costs(0.5, 2.0) > 0.1  # it was -4.37
    assert noisy().nodes(0.5)[1].sum() == pytest.approx(1.0)


def test_a_plan_on_truncated_steps_is_at_most_wholly_efficient() -> None:
    rng, steps = np.random.default_rng(2), 40
    p = np.concatenate([sampled(rng, 0.7, 4.0, "top-p", 0.95) for _ in range(2 * steps // 5)])
    mass = recorded(p)
    parts: dict[str, Any] = {
        "head": mass.head.astype(np.float32),
        "tail_mass": np.full(2 * steps, 6e-8, np.float32),
        "tail_square": np.full(2 * steps, 1.5e-8, np.float32),
        "text": np.repeat(np.arange(2, dtype=np.int32), steps),
        "ids": np.arange(2 * steps, dtype=np.int32),
        "strength": np.zeros(2 * steps, np.float32),
    }
    for gamma, delta in ((0.5, 2.0), (0.25, 1.0), (0.94, 6.0)):
        found = evaluate(gamma, delta, n_tokens=steps, alpha=1e-3, signal=Profile(**parts))
        assert found.kl > 0.0
        assert found.gamma_prime >= gamma
        assert found.efficiency <= 1.0


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_a_step_without_probability_is_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match="needs a positive, finite probability"):
        GreenMass(np.full((1, 3), value), np.zeros(1), np.zeros(1))


def test_broken_invariants_raise() -> None:
    mass = noisy()
    y, weights = mass.nodes(0.5)
    mass.nodes = lambda gamma: (y, 2.0 * weights)  # type: ignore[assignment]  # noqa: ARG005
    with pytest.raises(ArithmeticError, match=r"a green rate of .* is below 0.5"):
        mass.rates(0.5, 0.5)


def test_an_efficiency_above_one_raises() -> None:
    class Free(PlugIn):
        """Costs nearly nothing, which no mark can."""

        def kl(self, gamma: ArrayLike, delta: ArrayLike) -> np.ndarray:
            return PlugIn.kl(self, gamma, delta) / 100.0

    with pytest.raises(ArithmeticError, match=r"efficiency of .* is above 1"):
        evaluate(0.5, 2.0, n_tokens=50, alpha=0.05, signal=Free())
