import numpy as np
import pytest

from powermark import Dirichlet, Infeasible, InvalidInput, plan
from powermark.theory import gamma_star, kl_divergence, normal_power
from tests import golden


def test_authors_grid_to_the_last_digit_of_their_table() -> None:
    found = plan(n_tokens=50, alpha=0.05, method="authors")
    assert found.gamma == pytest.approx(0.9462668142137298, abs=1e-9)
    assert found.delta == pytest.approx(9.830725909368594, abs=1e-9)
    assert found.size == pytest.approx(0.0632, abs=5e-5)
    assert found.size > found.alpha
    assert "exceeds alpha" in found.warnings[0]
    assert "exceeds alpha" in str(found)


def test_authors_seven_points() -> None:
    found = plan(n_tokens=50, alpha=0.05, method="authors")
    table = golden.rows("authors_points.csv")
    assert len(found.points) == len(table) == 7
    for point, row in zip(found.points, table, strict=True):
        assert point.gamma == pytest.approx(row["gamma"], abs=1e-9)
        assert point.delta == pytest.approx(row["delta"], abs=1e-9)
        assert point.size == pytest.approx(row["exact_size"], abs=5.1e-5)
        assert point.power == pytest.approx(row["exact_power"], abs=6e-5)
    assert str(found).count("weaker point") == 6
    assert len(found.to_dict()["points"]) == 7


def test_authors_normal_approximation_is_off_where_they_use_it() -> None:
    weakest = plan(n_tokens=50, alpha=0.05, method="authors").points[4]
    assert weakest.normal_power == pytest.approx(0.7290, abs=5e-4)
    assert weakest.power == pytest.approx(0.9917, abs=5e-4)


def test_authors_grid_elsewhere_and_its_limits() -> None:
    found = plan(n_tokens=200, alpha=0.05, method="authors")
    assert found.gamma < float(gamma_star(200, 0.05))
    tiny = plan(n_tokens=10, alpha=0.3, method="authors")
    assert len(tiny.points) <= 7
    with pytest.raises(Infeasible, match="the authors' grid holds no pair"):
        plan(n_tokens=1, alpha=0.05, method="authors")
    with pytest.raises(InvalidInput, match="needs `n_tokens` and `alpha`"):
        plan(n_tokens=50, kl=0.1, method="authors")
    with pytest.raises(InvalidInput, match="neither a signal model nor a fixed gamma"):
        plan(n_tokens=50, alpha=0.05, method="authors", gamma=0.5)


def test_papers_dual_ends_at_gamma_star_with_a_size_above_alpha() -> None:
    found = plan(n_tokens=50, alpha=0.05, power=0.95, method="paper")
    star = float(gamma_star(50, 0.05))
    assert star - 1e-4 < found.gamma < star
    assert found.normal_power == pytest.approx(0.95, abs=1e-6)
    assert found.size == pytest.approx(0.0717, abs=5e-5)
    assert found.kl < found.information_limit + 1e-3
    assert "exceeds alpha" in found.warnings[0]


@pytest.mark.parametrize("kl", [0.053, 0.06, 0.1])
def test_papers_primal_above_its_threshold_is_nearly_certain(kl: float) -> None:
    found = plan(n_tokens=50, alpha=0.05, kl=kl, method="paper")
    assert found.kl == pytest.approx(kl, rel=1e-9)
    assert found.normal_power is not None
    assert found.normal_power > 0.99
    assert found.delta <= 20.0


def test_papers_primal_below_it_slides_to_small_gamma() -> None:
    """For budgets below -log(gamma_star) the normal power has no maximum near gamma_star."""
    found = plan(n_tokens=50, alpha=0.05, kl=0.05, method="paper")
    assert found.gamma == pytest.approx(0.01, abs=1e-6)
    assert found.size > 0.05


def test_papers_search_is_a_local_optimum_from_above() -> None:
    found = plan(n_tokens=200, alpha=0.01, power=0.9, method="paper", variance_inflation=1.5)
    assert found.normal_power == pytest.approx(0.9, abs=1e-5)
    for gamma in found.gamma - np.array([1e-4, 1e-3, 1e-2]):
        weaker = plan(
            n_tokens=200, alpha=0.01, power=0.9, method="paper", gamma=gamma, variance_inflation=1.5
        )
        assert weaker.kl >= found.kl
        assert float(normal_power(gamma, weaker.gamma_prime, 200, 0.01, 1.5)) == pytest.approx(0.9)


def test_papers_method_with_a_fixed_gamma_and_other_signals() -> None:
    at_half = plan(n_tokens=100, alpha=0.01, power=0.9, method="paper", gamma=0.5)
    assert at_half.gamma == 0.5
    assert at_half.kl == pytest.approx(float(kl_divergence(0.5, at_half.delta)))
    longer = plan(alpha=0.01, power=0.9, kl=at_half.kl * 1.001, method="paper", gamma=0.5)
    assert longer.n_tokens <= 100
    spiky = plan(
        n_tokens=100, alpha=0.01, power=0.9, method="paper", gamma=0.5, signal=Dirichlet(1000, 0.02)
    )
    assert spiky.delta > at_half.delta
    with pytest.raises(Infeasible, match=r"gamma must be below gamma_star = 0.9487"):
        plan(n_tokens=50, alpha=0.05, power=0.9, method="paper", gamma=0.96)
    with pytest.raises(Infeasible, match=r"does not meet power 0.9 at any gamma"):
        plan(n_tokens=50, alpha=0.05, power=0.9, method="paper", signal=Dirichlet(1000, 1e-5))


def test_papers_alpha_where_its_cost_is_not_monotone() -> None:
    found = plan(n_tokens=50, power=0.95, kl=0.01, method="paper")
    assert found.kl <= 0.01 * (1 + 1e-6)
    with pytest.raises(InvalidInput, match=r"alpha must be in \[1e-240, 0.5\)"):
        plan(n_tokens=10, alpha=0.5, power=0.95, method="paper")


def test_the_shortest_text_where_shorter_ones_have_no_design() -> None:
    """Eq. (1) meets the power at this gamma, or with this inflation, only from some length on."""
    at_gamma = plan(alpha=0.05, power=0.9, kl=0.08, method="paper", gamma=0.9)
    assert at_gamma.kl <= 0.08
    with pytest.raises(Infeasible, match=r"does not meet power 0.9 at gamma = 0.9"):
        plan(n_tokens=5, alpha=0.05, power=0.9, method="paper", gamma=0.9)
    inflated = plan(alpha=0.05, power=0.5, kl=1.0, method="paper", variance_inflation=30)
    assert inflated.n_tokens > 30
