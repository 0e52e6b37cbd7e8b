"""Plans for answers of any length: the share found, by simulation and by brute force."""

import dataclasses
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark import Lengths, PlugIn, Profile, Sampling, plan
from powermark.errors import Infeasible, InvalidInput
from powermark.generation.writing import write_pairs
from powermark.measuring.promise import tokens_to_write
from powermark.measuring.record_profile import record_profile
from powermark.measuring.verification import verification_page
from powermark.measuring.verify import texts_for, verify
from powermark.models import LanguageModel
from powermark.planning.coverage import coverage, lengths_of
from powermark.planning.plan import Plan
from powermark.signals.counts import edited_tail, tails_by_length
from powermark.signals.edits import Edits
from powermark.signals.profile_file import save_profile
from powermark.theory.bounds import information_limit
from powermark.theory.power import critical_count
from powermark.watermark.keys import SecretKey
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from tests.conftest import VOCAB, Run
from tests.signals.profiles import profile_of, sample

KEY = SecretKey(bytes(range(32)))


def uneven(texts: int = 24) -> Profile:
    """Return a profile whose texts have 20 to 66 tokens, of which half leave a choice."""
    whole = profile_of(np.random.default_rng(0).random((texts, 66)) < 0.5)
    place = np.tile(np.arange(66), texts)
    kept = place < 20 + 2 * whole.text
    names = ("head", "tail_mass", "tail_square", "text", "ids", "strength")
    return dataclasses.replace(whole, **{name: getattr(whole, name)[kept] for name in names})


@pytest.mark.parametrize(("edit_rate", "width"), [(0.0, 2), (0.1, 2), (0.2, 0)])
def test_one_pass_gives_the_tails_of_all_lengths(edit_rate: float, width: int) -> None:
    rates = np.random.default_rng(1).random((3, 17))
    needed = critical_count(np.arange(1, 18), 0.4, 0.1)
    found = tails_by_length(rates, needed, gamma=0.4, edit_rate=edit_rate, context_width=width)
    for n, k in enumerate(needed.astype(int).tolist(), 1):
        exact = edited_tail(rates[:, :n], k, gamma=0.4, edit_rate=edit_rate, context_width=width)
        assert found[:, n - 1] == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("edits", [Edits(), Edits(edit_rate=0.05), Edits(removal=0.2)])
def test_coverage_of_given_lengths_is_the_mean_power(edits: Edits) -> None:
    _, profile = sample()
    lengths = Lengths.of([0, 5, 20, 20])
    for signal in (profile, PlugIn()):
        found = coverage(signal, 0.5, 2.0, alpha=0.05, lengths=lengths, edits=edits)
        k = [int(critical_count(n, 0.5, 0.05)) for n in (5, 20)]
        clean = [signal.power(n, k, 0.5, 2.0) for n, k in zip((5, 20), k, strict=True)]
        assert found.clean == pytest.approx(clean[0] / 4 + clean[1] / 2, abs=1e-9)
        edited = [
            signal.attacked_power(edits, n, k, 0.5, 2.0) for n, k in zip((5, 20), k, strict=True)
        ]
        expected = edited[0] / 4 + edited[1] / 2 if edits else found.clean
        assert found.attacked == pytest.approx(expected, abs=1e-9)
    strict = coverage(PlugIn(), 0.9, 2.0, alpha=0.001, lengths=Lengths.of([5]), edits=edits)
    assert (strict.clean, strict.attacked) == (0.0, 0.0)  # no test at this length


def test_coverage_of_a_profile_is_that_of_its_own_texts() -> None:
    profile, rng = uneven(), np.random.default_rng(2)
    gamma, delta, alpha = 0.4, 2.0, 0.05
    found = coverage(profile, gamma, delta, alpha=alpha, edits=Edits(edit_rate=0.03))
    assert found.errors is not None
    assert 0.0 < found.errors[0] < 0.2
    rates, weights = profile.rates_by_text(gamma, delta)
    caught = np.array(
        [
            np.mean((rng.random((4_000, row.size)) < row).sum(axis=1)
                    >= critical_count(row.size, gamma, alpha))
            for row in rates
        ]
    )  # fmt: skip
    assert found.clean == pytest.approx(float(weights @ caught), abs=0.01)
    assert found.attacked < found.clean
    assert lengths_of(profile).counted[0] == min(row.size for row in rates)
    with pytest.raises(InvalidInput, match="`lengths` are needed without a profile"):
        coverage(PlugIn(), 0.5, 2.0, alpha=0.05)
    with pytest.raises(InvalidInput, match="`lengths` are needed without a profile"):
        plan(alpha=0.05, coverage=0.9)


@pytest.mark.parametrize("edit_rate", [None, 0.05])
def test_a_plan_reaches_its_coverage_for_the_least_kl(edit_rate: float | None) -> None:
    profile = uneven()
    best = plan(alpha=0.05, coverage=0.7, signal=profile, edit_rate=edit_rate)
    reached = best.coverage if edit_rate is None else best.attacked_coverage
    assert reached is not None
    assert best.coverage is not None
    assert 0.7 <= reached < 0.705
    assert best.solved_for == "kl"
    assert best.standard_errors is not None
    assert best.standard_errors["coverage"] > 0.0
    assert ("attacked_coverage" in best.standard_errors) == (edit_rate is not None)
    limit = float(information_limit(1, 0.05, best.coverage))
    assert best.lengths is not None
    assert best.information_limit == pytest.approx(limit / best.lengths["mean"])
    assert 0.1 < best.efficiency < 1.0
    edits = Edits(edit_rate=edit_rate)
    for gamma in (0.1, 0.25, 0.5, 0.75, 0.9):  # no other green share is cheaper
        with suppress(Infeasible):  # half of the tokens leave no choice
            other = plan(alpha=0.05, coverage=0.7, signal=profile, edits=edits, gamma=gamma)
            assert best.kl < 1.03 * other.kl
    assert "of all answers are found" in str(best)
    assert ("of all answers, after edits" in str(best)) == (edit_rate is not None)
    again = Plan.from_dict(json.loads(json.dumps(best.to_dict())))
    assert (again.coverage, again.lengths) == (best.coverage, best.lengths)


def test_a_plan_for_one_length_says_its_coverage() -> None:
    found = plan(n_tokens=50, alpha=0.05, power=0.9, lengths=Lengths.of([25, 50, 100]))
    assert found.coverage is not None
    assert found.power_by_length is not None
    assert found.power_by_length["50"] == pytest.approx(found.power)
    assert "power_by_length" in str(found)
    plain = plan(n_tokens=50, alpha=0.05, power=0.9)
    assert "coverage" not in plain.to_dict()


def test_lengths() -> None:
    found = Lengths.of_generated(range(100, 200), 0.5)
    assert found.quantile(0.5) == 75
    assert found.to_dict()["mean"] == pytest.approx(75.0, abs=0.5)
    assert found.some().counted[0] >= 50
    assert Lengths.of([7]).some() == Lengths((7,), (1.0,))
    assert Lengths.of([3, 3, 9]).quantile(1.0) == 9
    with pytest.raises(InvalidInput, match="must not be empty"):
        Lengths.of([])
    with pytest.raises(InvalidInput, match="scored_share must be in"):
        Lengths.of_generated([10], 0.0)
    asked: dict[str, Any] = {"alpha": 0.05, "coverage": 0.8}
    assert plan(**asked, lengths=[50, 90, 90]) == plan(**asked, lengths=Lengths.of([50, 90, 90]))
    with pytest.raises(InvalidInput, match=r"lengths must be a number; got '50\.\.90'"):
        plan(**asked | {"lengths": "50..90"})


def test_what_a_coverage_cannot_take() -> None:
    some = Lengths.of([50])
    with pytest.raises(InvalidInput, match="missing: `alpha`"):
        plan(coverage=0.9, lengths=some)
    with pytest.raises(InvalidInput, match="`coverage` takes no `n_tokens`, `delta`"):
        plan(coverage=0.9, lengths=some, alpha=0.05, n_tokens=50, delta=1.0)
    with pytest.raises(InvalidInput, match=r"coverage must be in \(0\.05, 1\)"):
        plan(coverage=0.05, lengths=some, alpha=0.05)
    with pytest.raises(Infeasible, match="half of them have at most 3 tokens that count"):
        plan(coverage=0.9, alpha=1e-4, lengths=Lengths.of([3, 3, 50]))
    with pytest.raises(Infeasible, match=r"no mark finds a share 0\.9"):
        plan(coverage=0.9, alpha=1e-4, lengths=Lengths.of([3, 3, 50]), gamma=0.5)


def test_verify_judges_answers_at_their_own_lengths(writer: LanguageModel) -> None:
    prompts = [f"w{i}" for i in range(2, 74)]
    profile = record_profile(writer, prompts, Sampling(n_tokens=60))
    found = plan(alpha=0.05, coverage=0.8, signal=profile, edit_rate=0.02)
    assert tokens_to_write(found) == 60
    spec = WatermarkSpec.from_plan(found, vocab_size=VOCAB)
    assert spec.plan is not None
    marked, unmarked = write_pairs(
        Watermark(spec, KEY), writer, prompts, Sampling(n_tokens=60), seed=9, batch=36
    )
    for record in marked[::2]:  # some answers are short
        record["token_ids"] = record["token_ids"][:10]
        record["text"] = " ".join(record["text"].split()[:10])
    result = verify(Watermark(spec, KEY), spec.plan, marked, unmarked, tokenizer=writer.tokenizer,
                    profile=profile, about={"model": "a <model>"})  # fmt: skip
    assert result.about is not None
    assert result.about["key"] == KEY.fingerprint
    page = verification_page(result)
    assert "<td>a &lt;model&gt;</td>" in page
    assert spec.digest in page
    checks = {check.name: check for check in result.checks}
    assert checks.keys() == {"gamma_prime", "kl", "coverage", "size", "attacked_coverage"}
    assert checks["coverage"].measured.value < 0.7
    assert checks["coverage"].holds is False
    assert checks["coverage"].profile is not None
    assert checks["coverage"].profile < 0.7  # it knows how long these answers are
    assert "every answer is tested at its own length" in " ".join(result.notes)
    assert texts_for(spec.plan) > 100


def test_how_many_tokens_to_write() -> None:
    some = plan(alpha=0.05, coverage=0.5, lengths=Lengths.of([50, 100]))
    assert tokens_to_write(some) == 120
    assert tokens_to_write(plan(n_tokens=50, alpha=0.05, power=0.9)) == 63


def test_the_command_line_takes_lengths(run: Run, tmp_path: Path, writer_folder: Path) -> None:
    asked = ("plan", "--alpha", ".05", "--coverage", ".8", "--json")
    code, out, err = run(*asked, "--lengths", "60..140")
    assert code == 0
    assert (
        "81 answers of 100 tokens on average, of which 100% count (assumed, without a profile)"
        in err
    )
    assert json.loads(out)["lengths"]["q50"] == 100.0
    numbers = tmp_path / "n.txt"
    numbers.write_text("50\n70\n")
    assert json.loads(run(*asked, "--lengths", str(numbers))[1])["lengths"]["mean"] == 60.0
    texts = tmp_path / "t.jsonl"
    texts.write_text(json.dumps({"text": "w2 w3 " * 40}) + "\n")
    profile = tmp_path / "p.npz"
    save_profile(sample()[1], profile)
    vocabulary = ("--model", str(writer_folder), "-o", str(tmp_path / "s.json"))
    code, out, err = run(*asked, "--lengths", str(texts), *vocabulary)
    assert code == 0, err
    assert json.loads(out)["lengths"]["mean"] == 80.0
    code, _, err = run(*asked, "--lengths", "60..140", "--profile", str(profile))
    assert "(by the profile)" in err
    assert "cannot read '9..3'" in run(*asked, "--lengths", "9..3")[2]
