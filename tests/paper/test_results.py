"""What cells of known records show, and the figures of it."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy import special, stats

from powermark.errors import InvalidInput
from powermark.interfaces.cli.reproduce import _FORMULAS, _STUDIES
from powermark.paper.claims import Claim
from powermark.paper.figures_methods import (
    STYLES,
    draw_gamma_zero,
    draw_pareto,
    draw_quality,
    points,
)
from powermark.paper.figures_texts import draw_quantiles, inflations, predicted, quantiles
from powermark.paper.fits import frontier, logistic, straight, through_origin
from powermark.paper.methods import _plan, planned
from powermark.paper.report import BY_FORMULA, BY_STUDY, CAPTIONS, Section, reproduction_page
from powermark.paper.results import (
    counts_of,
    held,
    inflation,
    kl_of,
    regressions,
    summarise,
    survivors,
)
from powermark.paper.runner import Cell
from powermark.paper.settings import SCALES, scale_named
from powermark.paper.workspace import Workspace
from powermark.signals.signal import PlugIn
from tests.paper.cells import rows_of


def records(rate: float, texts: int, tokens: int = 60, kl: float = 0.1) -> list[dict[str, Any]]:
    """Texts of which the first two tokens do not count."""
    colours = np.random.default_rng(0).random((texts, tokens)) < rate
    rows = [".." + "".join("G" if green else "r" for green in row) for row in colours]
    return [{"colours": row, "kl": [kl] * (tokens + 2)} for row in rows]


def test_names_are_the_same_everywhere() -> None:
    assert tuple(BY_FORMULA) == _FORMULAS
    assert tuple(BY_STUDY) == _STUDIES


def test_scales() -> None:
    assert scale_named("small") is SCALES["small"]
    with pytest.raises(InvalidInput, match="scale must be one of smoke, small, full; got 'huge'"):
        scale_named("huge")


def test_lines_through_the_origin() -> None:
    x = np.array([1.0, 2.0, 3.0])
    assert through_origin(x, 0.7 * x) == pytest.approx((0.7, 1.0, 1 - 1.26 / 0.98))
    a, b, r2 = straight(x, 2.0 - 0.5 * x)
    assert (a, b, r2) == pytest.approx((2.0, -0.5, 1.0))


def test_frontiers_and_curves() -> None:
    x, y = np.array([0.0, 1.0, 2.0, 0.5]), np.array([1.0, 0.9, 0.5, 0.6])
    assert frontier(x, y).tolist() == [True, True, True, False]
    near = np.array([1.0, 0.99, 0.98])
    assert frontier(near, near).tolist() == [True, True, False]  # within tolerance of the best
    assert frontier(np.array([0.0, 1.0]), np.ones(2)).tolist() == [False, True]  # even, and cheaper
    twice = np.array([1.0, 1.0, 0.0])
    assert frontier(twice, twice, 0.0).tolist() == [True, True, False]
    along = np.linspace(0, 4, 20)
    found = logistic(along, special.expit(3.0 * (2.0 - along)))
    assert found == pytest.approx((3.0, 2.0), abs=1e-3)
    assert logistic(x[:2], y[:2]) is None


def test_the_summary_of_a_cell() -> None:
    cell = Cell(corpus="c4", method="grid", texts=400, gamma=0.5, delta=1.0)
    row = summarise(cell, records(0.73, 400))
    assert row["green_rate"] == pytest.approx(0.73, abs=0.01)
    assert row["tpr"] == pytest.approx(float(stats.binom.sf(31, 50, 0.73)), abs=0.04)
    assert row["kl"] == pytest.approx(0.1 * 52 / 50)  # the first two cost and do not count
    assert row["kl_step"] == row["kl_plain"] == pytest.approx(0.1)
    assert row["c_hat"] == pytest.approx(1.0, abs=0.25)
    assert 0.3 < row["efficiency"] < 0.5
    cooler = [{**record, "kl_plain": [0.05] * 62} for record in records(0.73, 5)]
    assert summarise(cell, cooler)["kl_plain"] == pytest.approx(0.05)


def test_texts_that_are_too_short_say_nothing() -> None:
    short = records(0.7, 3, tokens=20)
    assert np.isnan(counts_of(short)).all()
    assert not kl_of(short).known
    row = summarise(Cell(corpus="c4", method="grid", texts=3, gamma=0.5), short)
    assert (row["texts"], row["efficiency"]) == (0, 0.0)
    assert np.isnan([row["green_rate"], row["c_hat"], inflation(np.array([50.0, 50.0]))]).all()


def test_a_power_that_no_plan_has_gives_no_cell() -> None:
    assert _plan("exact", 0.95, PlugIn(), removal=0.999) == {}
    workspace = cast(Workspace, SimpleNamespace(remembered=lambda _, make: make()))
    assert list(planned(workspace, "c4", "exact", 4, 0.95, PlugIn(), removal=0.999)) == []
    (cell,) = planned(workspace, "c4", "exact", 4, 0.95, PlugIn())
    assert (cell.rule, cell.target, cell.texts) == ("constant", 0.95, 4)


def test_two_cells_make_no_line() -> None:
    scores = dict.fromkeys(("bleu", "rouge_l", "bert_score"), 0.5)
    rows = [{"kl": kl, **scores} for kl in (0.1, 0.2, np.nan)]
    assert regressions(rows) == []


def test_quantiles_of_what_is_normal_are_normal() -> None:
    rows = quantiles(records(0.2, 300, 500), records(0.4046, 300, 500), 0.2, 1.0, 500)
    for name in ("H0", "H1, predicted rate", "H1, rate of the texts"):
        z = np.array([row["observed"] for row in rows if row["hypothesis"] == name])
        assert abs(z.mean()) < 0.2
        assert abs(z.std() - 1.0) < 0.15
    draw_quantiles(rows)


def test_overdispersion_with_its_interval() -> None:
    rng = np.random.default_rng(0)
    mixed = np.concatenate([rng.binomial(50, p, 200) for p in (0.3, 0.5)]).astype(float)
    rows = inflations({"c4": mixed, "none": np.array([np.nan])}, {"c4": 2.0, "none": 1.0})
    assert rows[0]["low"] < rows[0]["c_hat"] < rows[0]["high"]
    assert rows[0]["c_hat"] == pytest.approx(3.0, abs=0.5)
    assert np.isnan(rows[1]["c_hat"])


def test_cells_without_enough_text_are_in_no_fit() -> None:
    cell = Cell(corpus="c4", method="grid", texts=3, gamma=0.5, delta=1.0)
    rows = [summarise(cell, records(0.7, 5)), summarise(cell, records(0.7, 3, tokens=20))]
    (kept,) = predicted(rows, PlugIn())
    assert kept["kl_step"] == pytest.approx(0.1)


def test_figures_of_few_points() -> None:
    rows = rows_of(0.9, {"grid": 0.3, "steered": 0.1})
    rows.append({**rows[0], "kl": 0.0})  # not marked at all
    found = [*points(rows, "search"), *points(rows[:2], "final")]
    assert len(found) == len(rows) + 1
    draw_pareto(found)
    draw_gamma_zero(found)


def test_quality_against_detections() -> None:
    rows = rows_of(0.9, {"grid": 0.3})
    for i, row in enumerate(rows):
        row |= {"bleu": 0.1 * i, "rouge_l": 0.2, "bert_score": float("nan"), "tpr": 1.0 - 0.1 * i}
    figure = draw_quality(rows)
    assert len(figure.axes) == 9
    assert len(figure.axes[0].lines) == len(STYLES) + 1  # points of each, one curve
    assert len(figure.axes[2].lines) == len(STYLES)


def test_survivors_of_removal() -> None:
    attacked = [
        {"corpus": "c4", "method": "grid", "cell": cell, "removal": removal, "tpr": tpr,
         "tpr_high": tpr, "detector": "count", "texts": 9}
        for cell, tprs in (("a", (0.99, 1.0, 0.9, 0.8)), ("b", (1.0, 1.0, 1.0, np.nan)))
        for removal, tpr in zip((0.0, 0.1, 0.15, 0.2), tprs, strict=True)
    ]  # fmt: skip
    rows = [
        {"cell": c, "kl": kl, "kl_low": kl, "kl_high": kl} for c, kl in (("a", 0.1), ("b", 0.2))
    ]
    both = held(attacked, rows)
    assert [row["tpr"] for row in both[:3]] == [0.99, 0.9, 0.8]  # 1.0 after, .99 before
    (count,) = survivors(both)
    assert (count["kl_0.1"], count["kl_0.15"], count["kl_0.2"]) == (0.1, 0.2, None)
    assert count["neg_log_kl_0.1"] == pytest.approx(-np.log(0.1))


def test_the_page_stands_alone() -> None:
    claim = Claim("a < b", "1", "2", "differs", "because & so")
    sections = [
        Section(name="fig", caption='a "picture"', figure=b"<svg/>"),
        Section(name="table", caption="numbers", rows=[{"x": 0.123456, "y": None, "z": "<"}]),
    ]
    page = reproduction_page([claim], sections, {"model": "<m>"})
    for part in ("a &lt; b", "because &amp; so", "&lt;m&gt;", "1 differs", "a &quot;picture&quot;"):
        assert part in page
    assert 'src="data:image/svg+xml;base64,' in page
    assert "<td>0.1235</td><td></td><td>&lt;</td>" in page
    assert "http" not in page


def test_every_target_has_a_caption() -> None:
    assert set(CAPTIONS) == {*_FORMULAS, *_STUDIES}
