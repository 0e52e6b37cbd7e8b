import csv
from pathlib import Path

import numpy as np
import pytest

from powermark import branch_intersection, frontier
from powermark.paper import figures_formulas
from powermark.planning.paper_method import branch_powers
from powermark.theory import gamma_zero, information_limit, kl_divergence


@pytest.fixture(scope="module")
def panel_b() -> list[dict[str, float]]:
    return figures_formulas.root_crossings()


def test_frontier_rises_above_the_information_limit() -> None:
    curve = frontier(n_tokens=50, alpha=0.05)
    kl, power = np.array([d.kl for d in curve]), np.array([d.power for d in curve])
    assert np.all(np.diff(kl) > 0)
    assert np.all(np.diff(power) > 0)
    assert np.all(kl >= information_limit(50, 0.05, power))
    papers = frontier(n_tokens=50, alpha=0.05, method="paper", powers=(0.8, 0.95))
    assert [d.normal_power for d in papers] == pytest.approx([0.8, 0.95], abs=5e-5)


def test_frontier_leaves_out_what_cannot_be() -> None:
    curve = frontier(n_tokens=50, alpha=0.05, delta=1.0, powers=(0.5, 0.999))
    assert len(curve) == 1


def test_figure_root_b_intersection_power_is_below_point_eight(
    panel_b: list[dict[str, float]],
) -> None:
    """The paper's claim for delta in (0.5, 8), n = 50, alpha = .05; and where it decreases."""
    rows = panel_b
    delta = np.array([row["delta"] for row in rows])
    power = np.array([row["power"] for row in rows])
    assert delta.min() > 0.5
    assert delta.max() < 8.0
    assert np.all(power < 0.8)
    assert np.all(np.diff(power[delta >= 0.7]) < 0)
    # below .7 the branches meet only at the maximum of the KL, which the paper does not mention
    assert np.all(np.diff(power[delta < 0.69]) > 0)


def test_figure_root_b_data_file_is_what_the_code_gives(panel_b: list[dict[str, float]]) -> None:
    path = Path(__file__).parents[2] / "docs" / "figures" / "fig-roots-b.csv"
    with path.open(encoding="utf-8") as stream:
        stored = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(stream)]
    for have, now in zip(stored, panel_b, strict=True):
        for name, value in now.items():
            assert have[name] == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("delta", [0.75, 2.0, 5.0, 7.9])
def test_above_the_intersection_the_higher_root_wins(delta: float) -> None:
    cross = branch_intersection(delta, n_tokens=50, alpha=0.05)
    low, high = cross.gamma_l, cross.gamma_h
    assert kl_divergence(low, delta) == pytest.approx(cross.kl, rel=1e-9)
    assert kl_divergence(high, delta) == pytest.approx(cross.kl, rel=1e-9)
    peak = float(kl_divergence(gamma_zero(delta), delta))
    more = cross.kl + 0.02 * (peak - cross.kl)
    _, _, power_l, power_h = branch_powers(delta, np.array([more]), n_tokens=50, alpha=0.05)
    assert power_h[0] > power_l[0]


def test_small_delta_meets_only_at_the_peak() -> None:
    meet = branch_intersection(0.55, n_tokens=50, alpha=0.05)
    assert meet.gamma_l == pytest.approx(meet.gamma_h, rel=1e-4)
    assert meet.power == pytest.approx(0.62, abs=0.01)


def test_the_roots_first_cross_between_the_deltas_of_the_figure() -> None:
    first = figures_formulas.least_crossing_delta()
    assert first == pytest.approx(0.6905, abs=5e-5)
    below, above = (
        branch_intersection(first + step, n_tokens=50, alpha=0.05) for step in (-1e-3, 1e-3)
    )
    assert below.gamma_h - below.gamma_l < 1e-6
    assert above.gamma_h - above.gamma_l > 0.03


def test_figure_root_a_crosses_once() -> None:
    rows = figures_formulas.root_powers()
    lead = np.array([row["power_h"] - row["power_l"] for row in rows])
    assert np.count_nonzero((lead[:-1] < 0) & (lead[1:] >= 0)) == 1
