import numpy as np
import pytest
from scipy import stats

from powermark import Edits, WatermarkSpec, plan
from powermark.errors import InvalidInput
from powermark.theory import binomial_tail


def counts_after_edits(
    rng: np.random.Generator, *, n: int, rate: float, h: int, gamma: float, prime: float, texts: int
) -> np.ndarray:
    """Green counts of texts whose tokens are rewritten one by one: no formula of ours inside."""
    rewritten = rng.random((texts, n + h)) < rate
    touched = np.lib.stride_tricks.sliding_window_view(rewritten, h + 1, axis=1).any(axis=2)
    return np.asarray((rng.random((texts, n)) < np.where(touched, gamma, prime)).sum(axis=1))


@pytest.mark.parametrize("h", [0, 1, 2, 4])
@pytest.mark.parametrize(("n", "gamma", "prime", "k"), [(50, 0.8, 0.97, 45), (200, 0.25, 0.6, 80)])
def test_random_edits_against_simulation(
    h: int, n: int, gamma: float, prime: float, k: int
) -> None:
    """200,000 texts, 3 standard errors are .0034; matching two moments adds .002 at h = 4."""
    counts = counts_after_edits(
        np.random.default_rng(h), n=n, rate=0.1, h=h, gamma=gamma, prime=prime, texts=200_000
    )
    edits = Edits(edit_rate=0.1, context_width=h)
    predicted = edits.attacked_power(n, k, gamma, prime, 1.0)
    assert abs(float((counts >= k).mean()) - predicted) < 0.0034 + 0.0005 * h
    assert edits.surviving_share(n) == pytest.approx(0.9 ** (h + 1))


def test_random_edits_of_an_overdispersed_text_against_simulation() -> None:
    rng, n, h, gamma, prime, c, k = np.random.default_rng(1), 60, 1, 0.5, 0.85, 2.0, 40
    total = (n - c) / (c - 1)
    rates = rng.beta(prime * total, (1 - prime) * total, size=(200_000, 1))
    rewritten = rng.random((200_000, n + h)) < 0.15
    touched = rewritten[:, 1:] | rewritten[:, :-1]
    counts = (rng.random((200_000, n)) < np.where(touched, gamma, rates)).sum(axis=1)
    predicted = Edits(edit_rate=0.15, context_width=h).attacked_power(n, k, gamma, prime, c)
    assert abs(float((counts >= k).mean()) - predicted) < 0.008  # two moments, not the whole law


@pytest.mark.parametrize(("share", "marked"), [(1.0, 50), (0.9, 45), (0.81, 40), (0.01, 0)])
def test_a_fixed_share_is_a_sum_of_two_binomials(share: float, marked: int) -> None:
    gamma, prime, k = 0.7, 0.95, 42
    pmf = np.convolve(
        stats.binom.pmf(np.arange(marked + 1), marked, prime),
        stats.binom.pmf(np.arange(51 - marked), 50 - marked, gamma),
    )
    got = Edits(survival=share).attacked_power(50, k, gamma, prime, 1.0)
    assert got == pytest.approx(float(pmf[k:].sum()), rel=1e-11)
    assert Edits(survival=share).surviving_share(50) == marked / 50


def test_a_removed_block_takes_the_context_behind_it_along() -> None:
    assert Edits(removal=0.1, context_width=1).surviving_share(100) == 0.89
    assert Edits(removal=0.1, context_width=0).surviving_share(100) == 0.9
    assert Edits(removal=0.0, context_width=4).surviving_share(100) == 1.0
    assert Edits(removal=0.99, context_width=4).surviving_share(100) == 0.0


def test_no_edits_leave_the_power_alone() -> None:
    clean = float(binomial_tail(50, 40, 0.85))
    for edits in (Edits(survival=1.0), Edits(removal=0.0), Edits(edit_rate=0.0), Edits()):
        assert edits.attacked_power(50, 40, 0.6, 0.85, 1.0) == pytest.approx(clean, rel=1e-12)
        assert edits.attacked_power(50, 40, 0.6, 1.0, 2.0) == 1.0  # a rate of 1 does not vary


def test_overdispersion_of_the_part_that_survives() -> None:
    """The surviving half with intraclass correlation rho, exactly; ours matches two moments."""
    n, c, k = 41, 3.0, 30
    half = Edits(survival=20 / 41)
    rho = (c - 1) / (n - 1)
    total = (1 - rho) / rho
    pmf = np.convolve(
        stats.betabinom.pmf(np.arange(21), 20, 0.9 * total, 0.1 * total),
        stats.binom.pmf(np.arange(22), 21, 0.5),
    )
    assert half.attacked_power(n, k, 0.5, 0.9, c) == pytest.approx(float(pmf[k:].sum()), abs=0.008)


def test_one_attack_at_a_time_and_in_range() -> None:
    with pytest.raises(InvalidInput, match="only one of edit_rate, survival, removal"):
        Edits(edit_rate=0.1, survival=0.9)
    for bad in ({"edit_rate": 1.0}, {"survival": 0.0}, {"removal": -0.1}, {"context_width": -1}):
        with pytest.raises(InvalidInput, match=next(iter(bad))):
            Edits(**bad)
    assert not Edits()
    assert Edits(removal=0.0)


def test_numbers_of_another_kind_are_made_what_they_should_be() -> None:
    """A width of 2.0 is one of 2, in a spec as well."""
    edits = Edits(edit_rate=np.float32(0.5), context_width=2.0)  # type: ignore[arg-type]
    assert (type(edits.edit_rate), type(edits.context_width)) == (float, int)
    assert edits == Edits(edit_rate=0.5, context_width=2)
    found = plan(n_tokens=50, alpha=0.05, power=0.9, context_width=2.0)  # type: ignore[arg-type]
    assert WatermarkSpec.from_plan(found, vocab_size=100).context_width == 2
