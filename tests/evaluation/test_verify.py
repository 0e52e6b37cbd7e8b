"""Promise against measurement: kept promises, broken ones, and what cannot be compared."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark import Plan, WindowPlan, plan, plan_for_windows
from powermark.errors import InvalidInput, SpecMismatch
from powermark.evaluation.page import verification_page
from powermark.evaluation.promise import check_profile, enough, promise_of
from powermark.evaluation.verify import Verification, verify
from powermark.evaluation.writing import Sampling, sampling_for
from powermark.models import LanguageModel
from powermark.watermark.keys import PREFIX, SecretKey, save_hash_key
from powermark.watermark.spec import WatermarkSpec
from tests.calibration.test_profile import sample
from tests.detection.marked import marked_ids
from tests.interfaces.test_cli import Run, run

__all__ = ["run"]

KEY = SecretKey(bytes(range(32)))
VOCAB = 5_000


def made(
    design: Plan | WindowPlan, rate: float | None = None, kl: float | None = None
) -> Verification:
    """Verify a design on simulated texts whose green rate and KL are the promised ones or not."""
    spec = WatermarkSpec.from_plan(design, vocab_size=VOCAB)
    rng = np.random.default_rng(0)
    rate, kl = rate or design.gamma_prime, kl or design.kl
    n = design.n_tokens + 6
    marked = [
        {
            "token_ids": marked_ids(spec, KEY, n, rng, rate=rate),
            "prompt_ids": [1, 2],
            "green_rate": rng.normal(rate, 0.01, n).tolist(),
            "kl": rng.normal(kl, 0.02, n).tolist(),
        }
        for _ in range(120)
    ]
    plain = [{"token_ids": rng.integers(0, VOCAB, n), "prompt_ids": [1, 2]} for _ in range(120)]
    promise = promise_of(spec)
    return verify(spec, KEY, promise, marked, plain, profile=sample()[1])


def test_a_kept_promise() -> None:
    found = made(plan(n_tokens=60, alpha=0.05, power=0.9))
    assert found.broken == []
    assert "The promise holds on 120 marked and 120 unmarked texts" in str(found)
    assert (found.texts, found.marked) == (120, 120)
    by_name = {check.name: check for check in found.checks}
    assert by_name.keys() == {"gamma_prime", "kl", "power", "size"}
    assert by_name["size"].promised == 0.05
    assert by_name["power"].profile is not None
    page = verification_page(found)
    assert "promise kept" in page
    assert page.count("<svg") == 4
    assert not re.search("https?:|<script", page)


@pytest.mark.parametrize(
    ("wrong", "broken"), [({"rate": 0.96}, ["gamma_prime", "power"]), ({"kl": 0.2}, ["kl"])]
)
def test_broken_promises(wrong: dict[str, float], broken: list[str]) -> None:
    found = made(plan(n_tokens=60, alpha=0.05, power=0.9), **wrong)
    assert found.broken == broken
    assert "The promise is broken on" in found.verdict()
    assert "BROKEN" in str(found)
    assert "promise broken" in verification_page(found)
    assert found.to_dict()["broken"] == broken


@pytest.mark.parametrize("edits", [{"edit_rate": 0.05}, {"removal": 0.2}])
def test_promises_about_edited_text(edits: dict[str, float]) -> None:
    found = made(plan(n_tokens=60, alpha=0.05, power=0.8, **edits))  # type: ignore[arg-type]
    assert found.broken == []
    assert found.checks[-1].name == "attacked_power"


def test_a_survival_cannot_be_acted_out() -> None:
    found = made(plan(n_tokens=60, alpha=0.05, power=0.8, survival=0.9))
    assert [check.name for check in found.checks][-1] == "size"
    assert "nothing was edited" in found.notes[0]


def test_short_texts_are_left_out_and_said() -> None:
    design = plan(n_tokens=60, alpha=0.05, power=0.9)
    spec = WatermarkSpec.from_plan(design, vocab_size=VOCAB)
    rng = np.random.default_rng(1)
    rows = [
        {
            "token_ids": rng.integers(0, VOCAB, n),
            "prompt_ids": [1, 2],
            "green_rate": [1.0] * n,
            "kl": [0.01] * n,
        }
        for n in (70, 70, 20)
    ]
    found = verify(spec, KEY, promise_of(spec), rows, rows)
    assert (found.texts, found.marked) == (3, 2)
    nothing = verify(spec, KEY, promise_of(spec), rows[2:], rows[2:])
    assert nothing.broken == []
    assert "Too little is known to say" in nothing.verdict()
    assert "too little is known" in verification_page(nothing)
    json.dumps(nothing.to_dict(), allow_nan=False)
    assert "unknown" in str(nothing)
    assert "1 of 3 marked texts had fewer than 60 tokens" in found.notes[0]
    assert " - " in str(found)  # no profile, nothing in its column


def test_what_a_spec_promises() -> None:
    by_hand = WatermarkSpec(gamma=0.5, delta=2.0, context_width=2, vocab_size=VOCAB)
    with pytest.raises(InvalidInput, match="has no plan: say for which"):
        promise_of(by_hand)
    assert promise_of(by_hand, n_tokens=50, alpha=0.05).signal == "plug-in"
    _, profile = sample()
    told = promise_of(by_hand, n_tokens=50, alpha=0.05, profile=profile)
    assert told.signal == profile.name
    planned = WatermarkSpec.from_plan(plan(n_tokens=50, alpha=0.05, power=0.9), vocab_size=VOCAB)
    with pytest.raises(InvalidInput, match="has a plan, with its own"):
        promise_of(planned, n_tokens=50)
    assert planned.design is not None
    older = dataclasses.replace(
        planned, design={k: v for k, v in planned.design.items() if k != "standard_errors"}
    )
    with pytest.raises(InvalidInput, match="has no standard_errors: an older powermark"):
        promise_of(older)
    for edits in ("edit_rate", "removal"):
        odd = dataclasses.replace(planned, design={**planned.design, edits: 0.1})
        with pytest.raises(InvalidInput, match="is for edits, and has no attacked_power"):
            promise_of(odd)


def test_settings_are_those_of_the_plan() -> None:
    _, profile = sample()
    cool = dataclasses.replace(profile, about={**profile.about, "temperature": 0.7})
    planned = plan(n_tokens=50, alpha=0.05, power=0.8, signal=cool)
    length = enough(50)
    assert sampling_for(planned.profile, length) == (Sampling(n_tokens=63, temperature=0.7), [])
    assert sampling_for(planned.profile, length, top_k=20)[0].top_k == 20
    assert sampling_for(None, length, temperature=None) == (Sampling(n_tokens=63), [])
    assert sampling_for(None, length, temperature=0.0)[0].temperature == 0.0
    with pytest.raises(InvalidInput, match="temperature must be above 0"):
        sampling_for(None, length, strict=True, temperature=0.0)
    with pytest.raises(SpecMismatch, match=r"the plan is for temperature 0\.7; got 1\."):
        sampling_for(planned.profile, length, strict=True, temperature=1.0)
    assert sampling_for(planned.profile, length, temperature=1.0)[1] == [
        "the plan is for temperature 0.7; at 1 its promises do not hold."
    ]


def test_another_models_profile_is_refused(writer: LanguageModel) -> None:
    mine = {
        "model": "mine",
        "model_digest": writer.digest,
        "tokenizer_digest": writer.tokenizer_digest,
        "temperature": 1.0,
    }
    sampling = Sampling(n_tokens=9)
    check_profile(mine, writer, sampling, "the plan")
    check_profile({}, writer, sampling, "the plan")  # of no model: nothing to compare
    for change, message in (
        ({"model_digest": "0"}, "the plan is for another model, 'mine', than"),
        ({"tokenizer_digest": "0"}, "the plan is for another tokenizer, that of 'mine'"),
        ({"temperature": 0.7}, "the plan is for temperature 0.7, not 1.0"),
    ):
        with pytest.raises(SpecMismatch, match=message):
            check_profile({**mine, **change}, writer, sampling, "the plan")


@pytest.fixture
def deployed(
    run: Run, writer_folder: Path, prompts_file: Path, tmp_path: Path
) -> tuple[tuple[str, ...], Path]:
    """A profile, a plan made with it, and the options that verify takes."""
    key, spec, profile = tmp_path / "k.key", tmp_path / "s.json", tmp_path / "p.npz"
    key.write_text(PREFIX + bytes(range(32)).hex())
    key.chmod(0o600)
    named = ("--model", str(writer_folder), "--prompts", str(prompts_file))
    assert run("profile", *named, "-o", str(profile), "--texts", "48", "--n-tokens", "40")[0] == 0
    request = ("--n-tokens", "40", "--alpha", ".05", "--power", ".8", "--edit-rate", ".02")
    code, _, err = run("plan", *request, "--profile", str(profile), "-o", str(spec), *named[:2])
    assert code == 0, err
    return ("verify", "--spec", str(spec), "--key", str(key), *named, "--texts", "40"), profile


def test_verify_from_the_command_line(
    run: Run, deployed: tuple[tuple[str, ...], Path], tmp_path: Path
) -> None:
    options, profile = deployed
    out, html = tmp_path / "texts.jsonl", tmp_path / "v.html"
    job = (*options, "--profile", str(profile), "-o", str(out), "--html", str(html))
    code, text, err = run(*job, "--batch", "15", "--json")
    assert (code, err) == (0, "")
    found = json.loads(text)
    assert found["broken"] == []
    assert found["texts"] == 40
    by_name = {check["name"]: check for check in found["checks"]}
    assert by_name["attacked_power"]["measured"]["texts"] > 30
    assert by_name["power"]["profile"] == pytest.approx(by_name["power"]["promised"], abs=1e-6)
    assert "promise kept" in html.read_text()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 80
    assert rows[0]["prompt"] == rows[1]["prompt"]  # one with the mark, one without
    assert max(rows[1]["kl"]) == 0.0
    assert max(rows[0]["kl"]) > 0.0
    whole = out.read_text()
    out.write_text("".join(whole.splitlines(keepends=True)[:37]))  # killed in the second batch
    assert json.loads(run(*job, "--batch", "15", "--json")[1]) == found
    assert out.read_text() == whole


def test_verify_knows_the_models_special_tokens(
    run: Run, deployed: tuple[tuple[str, ...], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def recorded(*args: Any, **named: Any) -> Verification:
        asked.update(named)
        return verify(*args, **named)

    monkeypatch.setattr("powermark.evaluation.verify.verify", recorded)
    assert run(*deployed[0])[0] == 0
    assert asked["special_ids"] == [0, 1]


def test_verify_says_when_a_promise_is_broken(
    run: Run, deployed: tuple[tuple[str, ...], Path], tmp_path: Path
) -> None:
    """The plug-in's promise for a mark that a spiky model hardly takes."""
    options, profile = deployed
    spec = tmp_path / "plain.json"
    assert run(
        "plan", "--n-tokens", "40", "--alpha", ".05", "--power", ".99", "--gamma", ".5", "-o",
        str(spec), *options[5:7],
    )[0] == 0  # fmt: skip
    changed = (*options[:2], str(spec), *options[3:])
    code, out, _ = run(*changed, "--profile", str(profile))
    assert code == 1
    assert "The promise is broken" in out


def test_verify_refuses_what_does_not_fit(
    run: Run, deployed: tuple[tuple[str, ...], Path], tmp_path: Path
) -> None:
    options, _ = deployed
    assert "the plan is for temperature 1; got 0.7" in run(*options, "--temperature", ".7")[2]
    assert "--texts must be 2 or more" in run(*options[:-1], "1")[2]
    other = tmp_path / "other.npz"
    named = options[5:9]
    settings = ("--n-tokens", "8", "--texts", "6", "--temperature", ".5")
    run("profile", *named, "-o", str(other), *settings)
    code, _, err = run(*options, "--profile", str(other))
    assert code == 2
    assert "the profile is for temperature 0.5, not 1.0" in err


def test_a_steered_promise(
    run: Run, deployed: tuple[tuple[str, ...], Path], tmp_path: Path
) -> None:
    """The same model, marked by a schedule: the promise holds.

    At a high temperature, where texts share few contexts: otherwise one key's luck is all texts'.
    """
    options, _ = deployed
    spec, profile = tmp_path / "steered.json", str(tmp_path / "warm.npz")
    warm = ("--texts", "48", "--n-tokens", "40", "--temperature", "2")
    assert run("profile", *options[5:9], "-o", profile, *warm)[0] == 0
    request = ("--n-tokens", "40", "--alpha", ".05", "--power", ".8", "--gamma", ".5", "--steer")
    code, out, err = run("plan", *request, "--profile", profile, "-o", str(spec), *options[5:7])
    assert code == 0, err
    assert "steering saves" in out
    changed = (*options[:2], str(spec), *options[3:])
    code, out, _ = run(*changed, "--profile", profile, "--json")
    found = json.loads(out)
    by_name = {check["name"]: check for check in found["checks"]}
    assert (code, found["broken"]) == (0, []), by_name
    assert by_name["power"]["measured"]["value"] > 0.6
    assert by_name["power"]["profile"] == pytest.approx(by_name["power"]["promised"], abs=0.01)
    assert by_name["kl"]["profile"] == pytest.approx(by_name["kl"]["promised"], rel=0.03)
    assert by_name["power"]["plug_in"] > by_name["power"]["promised"]  # what a flat world would do


def test_texts_under_another_tools_secret_key_are_not_kept(
    run: Run, writer_folder: Path, tmp_path: Path
) -> None:
    spec, key = tmp_path / "hf.json", tmp_path / "hf.key"
    save_hash_key(key, 77)
    run("spec", "new", str(spec), "--scheme", "hf-lefthash", "--gamma", ".5", "--delta", "2",
        "--vocab-size", "200")  # fmt: skip
    job = ("verify", "--spec", str(spec), "--key", str(key), "--model", str(writer_folder))
    more = ("--n-tokens", "20", "--alpha", ".05", "--texts", "4", "-o", str(tmp_path / "o.jsonl"))
    assert "are not kept" in run(*job, *more)[2]


def test_a_plan_for_windows_is_verified_by_their_detector() -> None:
    asked: dict[str, Any] = {"n_tokens": 30, "alpha": 0.05, "power": 0.9, "removal": 0.2}
    design = plan_for_windows(**asked)
    found = made(design)
    by_name = {check.name: check for check in found.checks}
    assert [*by_name] == ["gamma_prime", "kl", "window_power", "window_size",
                          "window_attacked_power"]  # fmt: skip
    assert found.broken == []
    assert by_name["window_power"].promised == design.window_power
    assert by_name["window_power"].plug_in == design.window_power
    assert by_name["window_size"].promised == 0.05
    assert by_name["window_size"].plug_in == design.window_size
    of_the_count = design.attacked_power or 0.0
    assert by_name["window_attacked_power"].measured.value > of_the_count + 0.2
    assert "its power after edits" in verification_page(found)
    weaker = made(design, rate=design.gamma_prime - 0.08)
    assert weaker.broken == ["gamma_prime", "window_power", "window_attacked_power"]


def test_a_profile_s_size_is_allowed_for_in_a_plan_for_windows() -> None:
    signal = sample()[1]
    design = plan_for_windows(n_tokens=30, alpha=0.05, power=0.8, removal=0.1, signal=signal)
    errors = design.standard_errors
    assert errors is not None
    texts = np.unique(signal.text).size
    p = design.window_power
    assert errors["window_power"] >= 0.99 * np.sqrt(p * (1.0 - p) / texts)
    assert made(design).checks[2].holds is not None
    silent = dataclasses.replace(design, standard_errors={"kl": 0.1, "gamma_prime": 0.1})
    assert made(silent).checks[2].holds is None
