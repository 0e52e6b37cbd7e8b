"""Priors fitted to profiles: EM finds what the masses were drawn from; comparisons use it."""

import numpy as np
import pytest

from powermark.errors import InvalidInput
from powermark.planning.compare import compare, table
from powermark.planning.request import Request
from powermark.signals.fit import _concentration, _statistic, fit_concentration, fit_mixture
from powermark.signals.profile import Profile
from tests.signals.profiles import VOCAB, sample


def drawn(weights: list[float], concentrations: list[float], gamma: float) -> Profile:
    """A profile whose green masses at one gamma are draws of a known mixture.

    Each step is one token: its mass is y with certainty, put on a token that is always green.
    """
    _, profile = sample()
    rng = np.random.default_rng(5)
    a = rng.choice(concentrations, size=20_000, p=weights)
    y = rng.beta(gamma * a, (1 - gamma) * a)

    class Known(Profile):
        def green_masses(self, gamma: float, draws: int, rng: np.random.Generator) -> np.ndarray:
            del gamma, draws, rng
            return y

    names = ("head", "tail_mass", "tail_square", "text", "ids", "strength")
    return Known(**{name: getattr(profile, name) for name in names})


def test_a_mixture_is_found_again() -> None:
    found = fit_mixture(drawn([0.4, 0.6], [1.0, 60.0], 0.5), 0.5, 2)
    np.testing.assert_allclose(found.weights, [0.4, 0.6], atol=0.02)
    np.testing.assert_allclose(found.concentrations, [1.0, 60.0], rtol=0.1)


def test_a_concentration_is_found_again() -> None:
    found = fit_concentration(drawn([1.0], [7.0], 0.9), 0.9, VOCAB)
    assert isinstance(found.concentration, float)
    assert found.concentration * VOCAB == pytest.approx(7.0, rel=0.05)
    assert _concentration(-1e9, 0.5) == pytest.approx(1e-3)  # all mass at the ends
    assert _concentration(np.log(0.5), 0.5) == pytest.approx(1e6)  # all at gamma
    t, weights = _statistic(np.array([0.0, 1.0, 0.5]), 0.5)
    assert np.isfinite(t).all()
    assert weights.sum() == pytest.approx(1.0)
    with pytest.raises(InvalidInput, match="components"):
        fit_mixture(sample()[1], 0.5, 0)


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.95])
def test_masses_are_drawn_from_random_lists(gamma: float) -> None:
    full, profile = sample()
    rng = np.random.default_rng(6)
    mine = np.sort(profile.green_masses(gamma, 40, rng))
    theirs = np.sort(
        np.concatenate([(full * (rng.random(full.shape) < gamma)).sum(axis=1) for _ in range(40)])
    )
    quantiles = np.linspace(0.02, 0.98, 25)
    np.testing.assert_allclose(
        np.quantile(mine, quantiles), np.quantile(theirs, quantiles), atol=0.015
    )


def test_a_fitted_mixture_has_the_rates_of_its_profile() -> None:
    _, profile = sample()
    fitted = fit_mixture(profile, 0.5)
    for delta in (0.5, 2.0):
        assert float(fitted.green_rate(0.5, delta)) == pytest.approx(
            float(profile.green_rate(0.5, delta)), abs=0.01
        )


@pytest.mark.parametrize("edit_rate", [None, 0.02])
def test_every_signal_is_compared_on_the_profile(edit_rate: float | None) -> None:
    _, profile = sample()
    rows = compare(
        Request.of(n_tokens=60, alpha=0.05, power=0.8, edit_rate=edit_rate, signal=profile), VOCAB
    )
    assert [row.model for row in rows] == [
        "plug-in", "Dirichlet, concentration 1", "Dirichlet, fitted", "Beta mixture, fitted",
        "profile",
    ]  # fmt: skip
    plain, best = rows[0], rows[-1]
    assert plain.promised is not None
    assert plain.on_profile is not None
    assert plain.on_profile.power < plain.promised.power  # what the plug-in hides
    assert best.promised is best.on_profile
    shown = table(rows)
    assert len(shown.splitlines()) == 6
    assert "alpha" in shown
    assert ("edited" in shown) == (edit_rate is not None)
    assert plain.to_dict()["on_profile"]["power"] == plain.on_profile.power


def test_what_no_design_reaches_is_said() -> None:
    """A budget that suits the profile can be beyond the plug-in, which bounds kl by gamma."""
    _, profile = sample()
    rows = compare(Request.of(n_tokens=20, alpha=0.05, kl=1.5, gamma=0.25, signal=profile), VOCAB)
    assert rows[0].promised is None
    assert rows[0].to_dict()["promised"] is None
    assert "reaches it with no design" in table(rows)


def test_a_comparison_needs_a_profile() -> None:
    with pytest.raises(InvalidInput, match="a comparison needs a profile"):
        compare(Request(n_tokens=20, alpha=0.05, power=0.9), VOCAB)
