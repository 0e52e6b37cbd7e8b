"""Who is in a final, and what intervals decide there."""

from typing import Any

from powermark.paper.contest import best_of_each, finalists, outcome
from powermark.paper.settings import ALPHA, N_TOKENS
from powermark.planning.paper_method import published_pair


def contender(
    method: str, kl: float, tpr: float = 0.96, reach: float = 0.1, target: float = 0.0
) -> dict[str, Any]:
    return {
        "method": method, "cell": f"{method} {kl:g}", "kl": kl, "kl_low": kl * (1 - reach),
        "kl_high": kl * (1 + reach), "tpr": tpr, "tpr_high": tpr + 0.03, "size": 0.04,
        "gamma": 0.5, "delta": 1.0, "removal": 0.2, "target": target,
    }  # fmt: skip


def test_a_contest_is_decided_by_intervals() -> None:
    mine = contender("steered", 0.1)
    assert outcome([mine, contender("grid", 0.2)], ["steered"]) == "won"
    assert outcome([mine, contender("grid", 0.11)], ["steered"]) == "not decided"
    assert outcome([mine, contender("grid", 0.05)], ["steered"]) == "lost"
    assert outcome([mine, contender("grid", 0.05, tpr=0.93)], ["steered"]) == "not decided"
    assert outcome([mine, contender("grid", 0.05, tpr=0.9)], ["steered"]) == "won"
    assert outcome([contender("steered", 0.1, 0.9), contender("grid", 1)], ["steered"]) == "lost"
    near = [contender("steered", 0.1, 0.94), contender("grid", 1)]
    assert outcome(near, ["steered"]) == "not decided"
    assert outcome([contender("steered", 0.1, 0.9)], ["steered"]) == "not decided"
    assert list(best_of_each([contender("grid", 0.2), mine])) == ["steered", "grid"]


def test_a_cell_that_was_only_searched_may_leave_a_contest_open() -> None:
    mine, theirs = contender("steered", 0.1), contender("grid", 0.2)
    left = contender("grid", 0.1)
    assert outcome([mine, theirs], ["steered"], [mine, theirs, left]) == "not decided"
    assert outcome([mine, theirs], ["steered"], [mine, theirs, contender("grid", 0.3)]) == "won"
    seen = {**theirs, "kl_low": 0.0}  # what the final showed counts, not the search
    assert outcome([mine, theirs], ["steered"], [mine, seen]) == "won"


def test_finalists_are_ours_their_threats_and_the_cheapest_of_each() -> None:
    cheap = [contender("grid", kl, tpr) for kl, tpr in ((0.1, 0.8), (0.2, 0.93), (0.3, 1.0))]
    dear = [contender("grid", kl) for kl in (0.4, 0.5)]
    unfair = {**contender("opt", 0.01), "size": 0.06}
    gamma, delta = published_pair(N_TOKENS, ALPHA)
    authors = {**contender("authors", 0.07, 0.0), "gamma": gamma, "delta": delta}
    after = [contender("grid", 0.5, 0.93), contender("opt", 1.0, 0.5)]
    found = finalists([*cheap, *dear, unfair, authors], after)
    assert found == {"grid 0.2", "grid 0.3", "grid 0.5", "authors 0.07"}
    mine = [contender("steered", 0.36, target=0.97), contender("steered", 0.2, 0.8, target=0.8)]
    removal = [contender("profile, for removal", 0.6, 0.93)]
    found = finalists([*cheap, *dear, *mine, *removal], [*after, contender("opt", 2.0), *removal])
    ours = {"steered 0.36", "profile, for removal 0.6"}
    assert found == {"grid 0.2", "grid 0.3", "grid 0.4", "grid 0.5", "opt 2", *ours}  # .4 may do
