"""The law of the green count against every outcome, and against simulation where it is long."""

import itertools

import numpy as np
import pytest
from scipy import stats

from powermark.signals import counts
from powermark.signals.counts import edited_tail, poisson_binomial_tail


def test_poisson_binomial_tails() -> None:
    rng = np.random.default_rng(2)
    rates = rng.random((3, 9))
    for k in range(-1, 12):
        want = [
            sum(
                np.prod(np.where(colours, row, 1 - row))
                for colours in itertools.product((0, 1), repeat=9)
                if sum(colours) >= k
            )
            for row in rates
        ]
        np.testing.assert_allclose(poisson_binomial_tail(rates, k), want, atol=1e-12)
    same = np.full((1, 300), 0.7)
    for k in (150, 200, 215, 299):
        want_one = stats.binom.sf(k - 1, 300, 0.7)
        assert float(poisson_binomial_tail(same, k)[0]) == pytest.approx(want_one, abs=1e-12)


@pytest.mark.parametrize("h", [0, 1, 3])
def test_edited_tails_are_sums_over_every_edit(h: int) -> None:
    rng, n, e, gamma = np.random.default_rng(3), 6, 0.3, 0.4
    rates = rng.random((2, n))
    for k in (1, 3, 4, 6):
        want = np.zeros(2)
        for kept in itertools.product((0, 1), repeat=n + h):  # h tokens stand before the first
            chance = np.prod(np.where(kept, 1 - e, e))
            whole = [all(kept[i : i + h + 1]) for i in range(n)]
            want += chance * poisson_binomial_tail(np.where(whole, rates, gamma), k)
        got = edited_tail(rates, k, gamma=gamma, edit_rate=e, context_width=h)
        np.testing.assert_allclose(got, want, atol=1e-12)


@pytest.mark.parametrize("edit_rate", [0.0, 0.1])
def test_long_texts_get_the_law_of_their_moments(
    edit_rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    rates = rng.uniform(0.6, 0.95, (2, 600))
    given = {"gamma": 0.5, "edit_rate": edit_rate, "context_width": 2}
    k = int((0.5 + (rates - 0.5) * (1 - edit_rate) ** 3).sum(axis=1).mean()) - 5
    exact = edited_tail(rates, k, **given)  # type: ignore[arg-type]
    monkeypatch.setattr(counts, "WORK", 0.0)
    np.testing.assert_allclose(edited_tail(rates, k, **given), exact, atol=2e-3)  # type: ignore[arg-type]


def test_clustered_edits_are_not_taken_for_a_narrow_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small gamma and heavy edits: the variance exceeds the mean."""
    given = {"gamma": 0.01, "edit_rate": 0.3, "context_width": 4}
    rates = np.full((1, 400), 0.95)
    exact = edited_tail(rates, 50, **given)  # type: ignore[arg-type]
    monkeypatch.setattr(counts, "WORK", 0.0)
    np.testing.assert_allclose(edited_tail(rates, 50, **given), exact, atol=0.02)  # type: ignore[arg-type]
