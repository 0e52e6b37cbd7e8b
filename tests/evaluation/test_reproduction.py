from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy import special, stats

from powermark.calibration.authors import published_pair
from powermark.calibration.signal import PlugIn
from powermark.errors import InvalidInput
from powermark.evaluation.experiments.lab import Lab
from powermark.evaluation.figures.green_rate import predicted
from powermark.evaluation.figures.inflation import inflations
from powermark.evaluation.figures.pareto import STYLES, draw_gamma_zero, draw_pareto, points
from powermark.evaluation.figures.qq import draw_quantiles, quantiles
from powermark.evaluation.figures.quality import draw_quality
from powermark.evaluation.reproduction.attacked import held, survivors
from powermark.evaluation.reproduction.cells import _plan, planned
from powermark.evaluation.reproduction.claims import Claim, claims
from powermark.evaluation.reproduction.fits import frontier, logistic, straight, through_origin
from powermark.evaluation.reproduction.likeness import regressions
from powermark.evaluation.reproduction.page import Section, reproduction_page
from powermark.evaluation.reproduction.scales import ALPHA, N_TOKENS, SCALES, scale_named
from powermark.evaluation.reproduction.study import Study
from powermark.evaluation.reproduction.summary import counts_of, inflation, kl_of, summarise
from powermark.evaluation.reproduction.targets import BY_FORMULA, BY_STUDY, CAPTIONS
from powermark.evaluation.runner import Cell
from powermark.interfaces.cli.reproduce import _FORMULAS, _STUDIES

CORPORA = ("c4", "lfqa", "wikipedia")
RNG = np.random.default_rng(0)


def records(rate: float, texts: int, tokens: int = 60, kl: float = 0.1) -> list[dict[str, Any]]:
    """Texts of which the first two tokens do not count."""
    colours = RNG.random((texts, tokens)) < rate
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


def test_a_cell_that_is_all_it_should_be() -> None:
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
    lab = cast(Lab, SimpleNamespace(remembered=lambda _, make: make()))
    assert list(planned(lab, "c4", "exact", 4, 0.95, PlugIn(), removal=0.999)) == []
    (cell,) = planned(lab, "c4", "exact", 4, 0.95, PlugIn())
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
    mixed = np.concatenate([RNG.binomial(50, p, 200) for p in (0.3, 0.5)]).astype(float)
    rows = inflations({"c4": mixed, "none": np.array([np.nan])}, {"c4": 2.0, "none": 1.0})
    assert rows[0]["low"] < rows[0]["c_hat"] < rows[0]["high"]
    assert rows[0]["c_hat"] == pytest.approx(3.0, abs=0.5)
    assert np.isnan(rows[1]["c_hat"])


def test_cells_without_enough_text_are_in_no_fit() -> None:
    cell = Cell(corpus="c4", method="grid", texts=3, gamma=0.5, delta=1.0)
    rows = [summarise(cell, records(0.7, 5)), summarise(cell, records(0.7, 3, tokens=20))]
    (kept,) = predicted(rows, PlugIn())
    assert kept["kl_step"] == pytest.approx(0.1)


def cells_of_a_study(tpr: float, kls: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {
            "corpus": corpus, "method": method, "cell": f"{corpus}{method}{i}", "gamma": 0.5,
            "delta": 1.0 + i, "target": 0.0, "texts": 50, "tpr": tpr, "tpr_low": tpr - 0.02,
            "tpr_high": tpr + 0.02, "tpr_z": tpr, "tpr_z_low": tpr - 0.02,
            "tpr_z_high": tpr + 0.02, "size": 0.04, "size_z": 0.06,
            "kl": kl * (1.0 + i), "kl_low": kl * (0.9 + i), "kl_high": kl * (1.1 + i),
            "green_rate": 0.6 + 0.1 * i,
        }
        for corpus in CORPORA
        for method, kl in kls.items()
        for i in range(3)
    ]  # fmt: skip


def study_of(tpr: float, best: str, inflated: tuple[float, ...], r2: float) -> Study:
    """What claims look at, with plain numbers."""
    gain = 0.02 if r2 == 1.0 else -0.02
    kls = {"grid": 0.3, "authors": 0.07, "profile": 0.2, best: 0.05, "other": 1.0}
    rows = cells_of_a_study(tpr, kls)
    gamma, delta = published_pair(N_TOKENS, ALPHA)
    theirs = {"gamma": gamma, "delta": delta, "size": 0.063}
    final = [row | (theirs if row["method"] == "authors" else {}) for row in rows]
    told = [
        {"corpus": c, "green_rate": r, "kl_step": r, "kl_plain": r, "green_rate, plug-in": r2 * r,
         "kl, plug-in": r2 * r, "green_rate, profile": r, "kl, profile": r}
        for c in CORPORA for r in (0.3, 0.5, 0.8)
    ]  # fmt: skip
    shift = 0.0 if r2 == 1.0 else -4.0
    quantile = [
        {"hypothesis": h, "observed": float(z)}
        for h, move in (("H0", 0.0), ("H1, predicted rate", shift))
        for z in special.ndtri((np.arange(50) + 0.5) / 50) + move
    ]
    slope = -0.1 if r2 == 1.0 else 0.0
    noise = RNG.normal(size=len(rows))
    quality = [
        {
            **row,
            **dict.fromkeys(("bleu", "rouge_l", "bert_score"), 0.5 + slope * row["kl"] + 0.001 * n),
        }
        for row, n in zip(rows, noise, strict=True)
    ]
    after = [
        {"corpus": c, "method": m, "cell": m, "detector": "count", "removal": 0.2, "tpr": tpr,
         "texts": 50,
         "tpr_high": tpr, "kl": kl, "kl_low": 0.9 * kl, "kl_high": 1.1 * kl}
        for c in CORPORA
        for m, kl in (("profile, for winmax-c", 0.15), ("steered, for removal", 0.2),
                      ("profile, for removal", 0.22), ("grid", 0.3))
    ]  # fmt: skip
    blocks = [
        {"corpus": c, "method": "grid", "cell": cell, "detector": d, "removal": 0.2, "size": 0.05,
         "tpr": found}
        for c in CORPORA for cell in "ab" for d, found in (("count", tpr), ("winmax-c", tpr + gain))
    ]  # fmt: skip
    spread = [
        {"corpus": n, "c_hat": c, "low": c - 0.04, "high": c + 0.04}
        for n, c in zip(("wikipedia", "lfqa", "c4"), inflated, strict=False)
    ]
    hits = [
        {"corpus": c, "test": test, "gamma": gamma, "size": 0.04, "texts": 100, "fpr": 0.03,
         "low": 0.02, "high": 0.05}
        for c in CORPORA for test in ("exact", "z") for gamma in (0.5, None)
    ]  # fmt: skip
    return cast(
        Study,
        SimpleNamespace(
            corpora=CORPORA, points=points(rows, "search"), final_rows=final, quantiles=quantile,
            predictions=lambda _: told, likeness=quality, held=after, inflations=spread, rows=final,
            held_in_search=after,
            false_positives=hits, attacked=blocks,
        ),
    )  # fmt: skip


def verdicts(found: list[Claim]) -> dict[str, str]:
    return {claim.statement: claim.verdict for claim in found}


def of(found: dict[str, str], part: str) -> set[str]:
    chosen = {verdict for statement, verdict in found.items() if part in statement}
    assert chosen
    return chosen


def test_claims_that_hold() -> None:
    found = verdicts(claims(study_of(0.97, "steered", (1.4, 1.2, 1.1), 1.0)))
    mended = ("z-test keeps", "KL budget of", "for each delta in", "before and after 20 %")
    for part in mended:
        assert of(found, part) == {"corrected"}
    others = {v for k, v in found.items() if not any(part in k for part in mended)}
    assert others == {"reproduced"}


def test_an_authors_point_may_be_cheaper_than_ours() -> None:
    study = study_of(0.97, "steered", (1.4, 1.2, 1.1), 1.0)
    grid = next(row for row in study.held if row["method"] == "grid")
    theirs = {"method": "authors", "cell": "authors", "kl": 0.1, "kl_low": 0.09, "kl_high": 0.11}
    study.held.append(grid | theirs)
    told = [c for c in claims(study) if "a calibrated point has" in c.statement]
    assert [claim.verdict for claim in told] == ["reproduced", "corrected", "corrected"]
    assert told[0].why == "authors (count) costs less"


def test_claims_that_do_not() -> None:
    study = study_of(0.97, "opt", (1.1, 1.2, 1.3), 0.5)
    study.points[0].update(gamma=0.1, on_frontier=True)  # below gamma_zero, the cheapest of all
    study.false_positives[1]["low"] = 0.06
    for row in study.held:
        row["tpr"] = row["tpr_high"] = 0.5 if "for" in row["method"] else 1.0
    found = verdicts(claims(study))
    wrong = (
        "KL explains",
        "least KL",
        "less KL than",
        "no gamma below",
        "variance",
        "on the frontier",
    )
    for part in (*wrong, "unmarked", "WinMax-C finds"):
        assert of(found, part) == {"differs"}
    assert of(found, "y = kx") == {"corrected"}
    assert found["and under H1, at the green rate of Theorem 3.5"] == "corrected"


def test_claims_where_little_is_known() -> None:
    study = study_of(0.5, "steered", (1.4,), 1.0)
    study.quantiles[:] = study.quantiles[:1]
    for rows in (study.held, study.false_positives, study.attacked):
        rows.clear()
    study.final_rows[:] = [row for row in study.final_rows if row["method"] != "authors"]
    found = claims(study)
    contests = ("least KL", "less KL than", "a calibrated point has")
    none = [c.ours for c in found if any(part in c.statement for part in contests)]
    assert none == ["no method reaches it"] * 15
    told = verdicts(found)
    parts = ("least KL", "less KL than", "no gamma below", "variance", "unmarked", "under H")
    for part in (*parts, "WinMax-C finds"):
        assert of(told, part) == {"not decided"}
    assert not any("by z-tests" in statement for statement in told)
    close = study_of(0.97, "steered", (1.4, 1.39, 1.38), 1.0)
    for row in close.final_rows:
        row["kl_low"] = 0.0 if row["method"] == "grid" else row["kl_low"]
    for row in (*close.false_positives, *close.attacked[:2]):
        row |= {"high": 0.06, "tpr": 0.9}
    close.points[0].update(gamma=0.1, on_frontier=True)
    close.points[1].update(kl=0.0, kl_low=0.0, tpr_high=1.0)
    found = claims(close)
    told = verdicts(found)
    for part in ("variance", "on the frontier", "a calibrated plan's", "unmarked", "no gamma"):
        assert of(told, part) == {"not decided"}
    why = {c.why for c in found if "a calibrated plan's" in c.statement}
    assert why == {"intervals overlap: grid may be as cheap at this TPR"}


def test_why_a_contest_was_not_won() -> None:
    study = study_of(0.97, "opt", (1.4, 1.2, 1.1), 0.7)
    lost = [c for c in claims(study) if "a calibrated plan's" in c.statement]
    assert {(c.verdict, c.why) for c in lost} == {("differs", "opt costs less")}
    for row in study.final_rows:
        row["tpr"] = 0.94 if row["method"] in ("profile", "steered") else row["tpr"]
    missed = [c for c in claims(study) if "a calibrated plan's" in c.statement]
    assert {c.verdict for c in missed} == {"not decided"}
    told = "none of our plans reached the TPR on these texts; opt did"
    assert {c.why for c in missed} == {told}
    green = next(c for c in claims(study) if "green rate at temperature 1" in c.statement)
    assert green.why == "k is not 1: the formula is off by that factor, which R² hides"
    for row in study.predictions(1.0)[::2]:
        row["green_rate, plug-in"] = 0.5
    green = next(c for c in claims(study) if "green rate at temperature 1" in c.statement)
    assert green.why.startswith("R² of their predictor is below 0.98; k is not 1")


def test_figures_of_few_points() -> None:
    rows = cells_of_a_study(0.9, {"grid": 0.3, "steered": 0.1})
    rows.append({**rows[0], "kl": 0.0})  # not marked at all
    found = [*points(rows, "search"), *points(rows[:2], "final")]
    assert len(found) == len(rows) + 1
    draw_pareto(found)
    draw_gamma_zero(found)


def test_quality_against_detections() -> None:
    rows = cells_of_a_study(0.9, {"grid": 0.3})
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


def test_captions_are_for_all() -> None:
    assert set(CAPTIONS) == {*_FORMULAS, *_STUDIES}
