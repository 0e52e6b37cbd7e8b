import numpy as np
import pytest

from powermark import BetaMixture, Dirichlet, PlugIn, SignalModel
from powermark.errors import InvalidInput
from powermark.theory import (
    gamma_prime,
    gamma_prime_finite,
    kl_divergence,
    token_green_rate,
    token_kl,
)

MODELS: list[SignalModel] = [
    PlugIn(),
    Dirichlet(50_257),
    Dirichlet(50_257, 1e-4),
    BetaMixture((0.3, 0.7), (1.0, 40.0)),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.94])
def test_biases_are_found_again(model: SignalModel, gamma: float) -> None:
    for delta in (0.3, 2.0, 6.0):
        rate, cost = float(model.green_rate(gamma, delta)), float(model.kl(gamma, delta))
        assert model.delta_for_rate(gamma, rate) == pytest.approx(delta, rel=1e-8)
        assert model.delta_for_kl(gamma, cost) == pytest.approx(delta, rel=1e-8)
        assert model.variance_inflation(50, gamma, delta) == 1.0


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_what_cannot_be_had_is_infinite(model: SignalModel) -> None:
    assert model.delta_for_kl(0.5, 3.0) == np.inf


def test_plug_in_is_the_limit_of_the_dirichlet() -> None:
    gamma, delta = np.array([0.25, 0.5, 0.9]), 2.0
    wide = Dirichlet(10**9)
    np.testing.assert_allclose(wide.green_rate(gamma, delta), gamma_prime(gamma, delta), rtol=1e-8)
    np.testing.assert_allclose(wide.kl(gamma, delta), kl_divergence(gamma, delta), rtol=1e-7)


@pytest.mark.parametrize("concentration", [1.0, 1e-3])
def test_dirichlet_rate_is_theorem_3_5(concentration: float) -> None:
    model = Dirichlet(1000, concentration)
    want = gamma_prime_finite(0.3, 2.0, 1000, concentration)
    assert float(model.green_rate(0.3, 2.0)) == pytest.approx(float(want), rel=1e-12)


@pytest.mark.parametrize("concentration", [0.002, 0.05])
def test_dirichlet_against_simulated_distributions(concentration: float) -> None:
    """Real Dirichlet draws over 200 tokens with random green lists: 4 standard errors (6e-5)."""
    rng, gamma, delta = np.random.default_rng(8), 0.25, 2.0
    draws = rng.dirichlet(np.full(200, concentration), size=20_000)
    y = np.clip(draws[:, :50].sum(axis=1), 0.0, 1.0)  # exchangeable: any 50 tokens will do
    model = Dirichlet(200, concentration)
    for measured, predicted in (
        (token_green_rate(y, delta), model.green_rate(gamma, delta)),
        (token_kl(y, delta), model.kl(gamma, delta)),
    ):
        error = measured.std() / np.sqrt(y.size)
        assert abs(float(measured.mean()) - float(predicted)) < 4 * error


def test_mixture_averages_its_components_and_scales_its_weights() -> None:
    parts = [BetaMixture((1.0,), (a,)) for a in (1.0, 30.0)]
    mixed = BetaMixture((1.0, 3.0), (1.0, 30.0))
    assert mixed.weights == (0.25, 0.75)
    for method in ("green_rate", "kl"):
        low, high = (float(getattr(part, method)(0.4, 1.5)) for part in parts)
        assert float(getattr(mixed, method)(0.4, 1.5)) == pytest.approx(0.25 * low + 0.75 * high)


def test_names_say_the_parameters() -> None:
    assert [m.name for m in MODELS] == [
        "plug-in",
        "dirichlet(V=50257,a=1)",
        "dirichlet(V=50257,a=0.0001)",
        "beta-mixture(0.3*1+0.7*40)",
    ]


def test_mixtures_must_be_mixtures() -> None:
    with pytest.raises(InvalidInput, match="equal length; got 1 and 2"):
        BetaMixture((1.0,), (1.0, 2.0))
    with pytest.raises(InvalidInput, match="weights must be in"):
        BetaMixture((0.0, 1.0), (1.0, 2.0))
    with pytest.raises(InvalidInput, match="vocab_size must be in"):
        Dirichlet(1)
