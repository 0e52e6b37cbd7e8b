import numpy as np
import pytest

from powermark import (
    BetaMixture,
    Dirichlet,
    Edits,
    PlugIn,
    SignalModel,
    TopicMixture,
    evaluate,
    plan,
)
from powermark.errors import InvalidInput
from powermark.steering.schedule import Schedule
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
def test_an_unreachable_kl_needs_an_infinite_bias(model: SignalModel) -> None:
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


def test_uneven_concentrations_against_simulated_distributions() -> None:
    """Real draws over 60 tokens of very different concentration, 40,000 lists: 4.5 errors."""
    rng, gamma, delta = np.random.default_rng(9), 0.4, 2.0
    each = np.geomspace(3.0, 0.01, 60)
    model = Dirichlet(60, each)
    draws = rng.dirichlet(each, size=40_000)
    y = np.clip((draws * (rng.random(draws.shape) < gamma)).sum(axis=1), 0.0, 1.0)
    for drawn, got in (
        (np.asarray(token_green_rate(y, delta)), model.green_rate(gamma, delta)),
        (np.asarray(token_kl(y, delta)), model.kl(gamma, delta)),
    ):
        error = drawn.std() / np.sqrt(drawn.size)
        assert abs(float(got) - drawn.mean()) < 4.5 * error + 2e-4
    even = Dirichlet(60, float(each.mean()))
    assert abs(float(even.green_rate(gamma, delta)) - float(model.green_rate(gamma, delta))) > 0.01
    assert "60 values" in model.name


def test_even_concentrations_are_the_scalar_case() -> None:
    flat, scalar = Dirichlet(5_000, np.full(5_000, 0.01)), Dirichlet(5_000, 0.01)
    gamma = np.array([0.3, 0.9])
    np.testing.assert_allclose(
        flat.green_rate(gamma, 2.0), scalar.green_rate(gamma, 2.0), atol=2e-4
    )
    with pytest.raises(InvalidInput, match="one number or 10; got shape"):
        Dirichlet(10, [1.0, 2.0])


def test_topics_against_simulated_texts() -> None:
    """20,000 texts with their own shares of two topics: 4.5 standard errors of power, 2 % of c."""
    spiky, flat = BetaMixture((1.0,), (0.5,)), BetaMixture((1.0,), (80.0,))
    model = TopicMixture((spiky, flat), (0.6, 1.4))
    rng, gamma, delta, n, texts = np.random.default_rng(10), 0.5, 2.0, 60, 20_000
    theta = rng.beta(0.6, 1.4, texts)
    topic = rng.random((texts, n)) < theta[:, None]
    y = np.where(topic, rng.beta(0.25, 0.25, topic.shape), rng.beta(40.0, 40.0, topic.shape))
    rates = np.asarray(token_green_rate(y, delta))
    counts = (rng.random(y.shape) < rates).sum(axis=1)
    assert float(model.green_rate(gamma, delta)) == pytest.approx(rates.mean(), abs=0.005)
    costs = np.asarray(token_kl(y, delta))
    assert float(model.kl(gamma, delta)) == pytest.approx(costs.mean(), rel=0.02)
    mean = counts.mean() / n
    c = counts.var() / (n * mean * (1 - mean))
    assert model.variance_inflation(n, gamma, delta) == pytest.approx(c, rel=0.04)
    for k in (35, 45, 50):
        share = (counts >= k).mean()
        error = np.sqrt(share * (1 - share) / texts)
        assert model.power(n, k, gamma, delta) == pytest.approx(share, abs=4.5 * error + 1e-3)
    whole = np.ones((texts, n + 2), bool)
    whole[:] = rng.random(whole.shape) > 0.05
    kept = whole[:, 2:] & whole[:, 1:-1] & whole[:, :-2]
    edited = (rng.random(y.shape) < np.where(kept, rates, gamma)).sum(axis=1)
    share = (edited >= 40).mean()
    got = model.attacked_power(Edits(edit_rate=0.05, context_width=2), n, 40, gamma, delta)
    assert got == pytest.approx(share, abs=4.5 * np.sqrt(share * (1 - share) / texts) + 2e-3)
    one_each = TopicMixture((spiky, flat), (1e-4, 1e-4))  # a text keeps to one topic
    want = np.mean([topic.power(n, 45, gamma, delta) for topic in (spiky, flat)])
    assert one_each.power(n, 45, gamma, delta) == pytest.approx(want, abs=2e-3)
    assert model.name.startswith("topics(0.6*beta-mixture(")
    with pytest.raises(InvalidInput, match="one number per topic, 2; got 3"):
        TopicMixture((spiky, flat), (1.0, 1.0, 1.0))


@pytest.mark.parametrize("concentration", [0.3, 3.0])
def test_a_steered_plan_for_topics_against_simulated_texts(concentration: float) -> None:
    """40,000 texts with their own shares of two topics: 4.5 standard errors."""
    topics = (BetaMixture((1.0,), (0.5,)), BetaMixture((1.0,), (60.0,)))
    signal = TopicMixture(topics, (concentration, concentration))
    found = plan(n_tokens=50, alpha=0.05, power=0.9, signal=signal, steer=True)
    schedule = Schedule.from_dict(found.steering, found.gamma)
    rng, texts = np.random.default_rng(11), 40_000
    theta = rng.beta(concentration, concentration, texts)
    greens, costs = np.zeros(texts, np.int64), np.zeros(texts)
    for step in range(50):
        total = np.where(rng.random(texts) < theta, 0.5, 60.0)
        y = rng.beta(found.gamma * total, (1.0 - found.gamma) * total)
        delta = schedule(np.full(texts, step), greens)
        costs += token_kl(y, delta)
        greens += rng.random(texts) < token_green_rate(y, delta)
    power = (greens >= found.critical_count).mean()
    assert power == pytest.approx(found.power, abs=4.5 * np.sqrt(0.09 / texts))
    assert costs.mean() / 50 == pytest.approx(found.kl, rel=0.02)


def test_topics_that_are_all_green_do_not_vary() -> None:
    topics = TopicMixture((Dirichlet(50_000), Dirichlet(1_000)), (1.0, 1.0))
    assert topics.variance_inflation(50, 0.5, 40.0) == 1.0
    assert evaluate(0.5, 40.0, n_tokens=50, alpha=0.05, signal=topics).power == 1.0


def test_which_signals_have_independent_steps() -> None:
    assert all(model.independent for model in MODELS)
    assert not TopicMixture((Dirichlet(100), Dirichlet(1_000)), (1.0, 1.0)).independent
