import numpy as np
import pytest
import torch
from scipy import special

from powermark.paper.baselines import (
    HARD,
    DualAscent,
    Threshold,
    fixed_pair,
    gain_of,
    surprise_per_green,
)
from powermark.watermark.keys import SecretKey
from powermark.watermark.scheme import Pm1

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


@pytest.mark.parametrize("target", [0.1, 0.3, 0.5])
def test_dual_ascent_reaches_its_target(target: float) -> None:
    """On made-up logits, some of them as good as decided, as a model's are."""
    rng = np.random.default_rng(0)
    gamma, start = fixed_pair(target)
    scheme = Pm1(SecretKey(bytes(range(32))), gamma=gamma, vocab_size=200, context_width=1)
    rule, gains = DualAscent(scheme, target, start), []
    ids = torch.from_numpy(rng.integers(0, 200, (4, 2_050)))
    for length in range(50, ids.shape[1]):
        logits = rng.normal(scale=rng.uniform(0.5, 4.0), size=(4, 200))
        given = ids[:, :length]
        biases = rule(given, torch.from_numpy(logits).float())
        green = scheme.green_masks(given[:, -1:].numpy())
        gains.append(gain_of((special.softmax(logits, axis=1) * green).sum(axis=1), biases))
    assert float(np.mean(gains)) == pytest.approx(target, rel=0.02)


def test_dual_ascent_keeps_a_price_for_each_row_and_starts_anew() -> None:
    rule = DualAscent(SCHEME, 0.3, 1.2)
    ids, scores = torch.tensor([[3], [4]]), torch.zeros((2, 40))
    scores[1, int(np.flatnonzero(SCHEME.green_masks([[4]])[0])[0])] = 30.0  # green anyway
    assert rule(ids, scores).tolist() == [1.2, 1.2]
    later = rule(torch.tensor([[3, 5], [4, 5]]), torch.zeros((2, 40)))
    assert later[1] > later[0]  # nothing was gained in the second row
    assert rule(torch.tensor([[3]]), torch.zeros((1, 40))).tolist() == [1.2]


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 5.0])
def test_opt_is_the_optimum_of_its_objective(beta: float) -> None:
    """Maximise P(green) - E[surprise]/beta over the share that green tokens get."""
    ids = torch.arange(40).reshape(-1, 1)
    logits = np.random.default_rng(1).normal(scale=2.0, size=(40, 40)).astype(np.float32)
    green = SCHEME.green_masks(ids.numpy())
    biases = Threshold(SCHEME, beta)(ids, torch.from_numpy(logits))
    assert set(biases) == {0.0, HARD} or beta == 5.0
    for p, chosen, bias in zip(special.softmax(logits, axis=1), green, biases, strict=True):
        mass = float(p[chosen].sum())
        shares = np.linspace(mass, 1.0, 50)[:, None]  # of green tokens, in steps
        q = np.where(chosen, p * shares / mass, p * (1.0 - shares) / (1.0 - mass))
        best = np.argmax(shares[:, 0] + (q @ np.log(p)) / beta)
        assert best == (49 if bias == HARD else 0)


def test_opt_where_all_or_nothing_is_green() -> None:
    logits, green = np.zeros((2, 3)), np.array([[True] * 3, [False] * 3])
    assert surprise_per_green(logits, green).tolist() == [-np.inf, np.inf]


def test_opt_marks_hard_or_not_at_all() -> None:
    ids = torch.arange(20).reshape(-1, 1)
    scores = torch.from_numpy(np.random.default_rng(2).normal(size=(20, 44))).float()
    biases = Threshold(SCHEME, 0.0)(ids, scores)
    assert set(biases) == {0.0, HARD}
    assert set(Threshold(SCHEME, 100.0)(ids, scores)) == {HARD}
