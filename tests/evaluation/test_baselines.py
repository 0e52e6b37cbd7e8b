import numpy as np
import pytest
import torch
from scipy import special

from powermark.evaluation.baselines import (
    HARD,
    DualAscent,
    Threshold,
    fixed_pair,
    gain_of,
    next_price,
    surprise_per_green,
)
from powermark.watermark.greenlist import Pm1
from powermark.watermark.keys import SecretKey

SCHEME = Pm1(SecretKey(bytes(range(32))), gamma=0.4, vocab_size=40, context_width=1)


@pytest.mark.parametrize(
    ("gain", "gamma", "delta"), [(0.1, 0.4666, 0.402), (0.5, 0.3246, 2.281), (0.9, 0.0996, 10.035)]
)
def test_pairs_are_those_of_the_authors(gain: float, gamma: float, delta: float) -> None:
    assert fixed_pair(gain) == pytest.approx((gamma, delta), abs=5e-4)


def test_a_bias_gains_what_it_says() -> None:
    y, delta = np.array([0.1, 0.5, 0.9]), np.array([0.0, 1.0, 3.0])
    marked = y * np.exp(delta) / (1.0 + y * np.expm1(delta))
    np.testing.assert_allclose(gain_of(y, delta), marked - y)


def test_dual_ascent_reaches_its_target() -> None:
    """On green masses as a model's: many near gamma, some near 0 or 1."""
    rng = np.random.default_rng(0)
    for target in (0.1, 0.3, 0.5):
        gamma, start = fixed_pair(target)
        masses = rng.beta(6 * gamma, 6 * (1 - gamma), (4, 6_000))
        price, gains = np.full(4, start), []
        for step in range(masses.shape[1]):
            gains.append(gain_of(masses[:, step], price))
            price = next_price(price, target, gains[-1], 51 + step)
        assert float(np.mean(gains)) == pytest.approx(target, rel=0.02)


def test_dual_ascent_keeps_a_price_for_each_row_and_starts_anew() -> None:
    rule = DualAscent(SCHEME, 0.3, 1.2)
    ids, scores = torch.tensor([[3], [4]]), torch.zeros((2, 40))
    scores[1, int(np.flatnonzero(SCHEME.green_masks([[4]])[0])[0])] = 30.0  # green anyway
    assert rule(ids, scores).tolist() == [1.2, 1.2]
    later = rule(torch.tensor([[3, 5], [4, 5]]), torch.zeros((2, 40)))
    assert later[1] > later[0]  # nothing was gained in the second row
    assert rule(torch.tensor([[3]]), torch.zeros((1, 40))).tolist() == [1.2]


def test_opt_is_the_optimum_of_its_objective() -> None:
    """Maximise P(green) - E[surprise]/beta over the share that green tokens get."""
    rng = np.random.default_rng(1)
    logits = rng.normal(scale=2.0, size=(60, 12))
    green = rng.random((60, 12)) < 0.4
    price = surprise_per_green(logits, green)
    for row in range(60):
        p = special.softmax(logits[row])
        mass, beta = float(p[green[row]].sum()), 1.0
        if 0.0 < mass < 1.0:
            shares = np.linspace(mass, 1.0, 50)[:, None]  # of green tokens, in steps
            q = np.where(green[row], p * shares / mass, p * (1.0 - shares) / (1.0 - mass))
            worth = shares[:, 0] + (q @ np.log(p)) / beta
            assert (np.argmax(worth) == 49) == (price[row] <= beta)
            assert np.argmax(worth) in (0, 49)


def test_opt_where_all_or_nothing_is_green() -> None:
    logits, green = np.zeros((2, 3)), np.array([[True] * 3, [False] * 3])
    assert surprise_per_green(logits, green).tolist() == [-np.inf, np.inf]


def test_opt_marks_hard_or_not_at_all() -> None:
    ids = torch.arange(20).reshape(-1, 1)
    scores = torch.from_numpy(np.random.default_rng(2).normal(size=(20, 44))).float()
    biases = Threshold(SCHEME, 0.0)(ids, scores)
    assert set(biases) == {0.0, HARD}
    assert set(Threshold(SCHEME, 100.0)(ids, scores)) == {HARD}
