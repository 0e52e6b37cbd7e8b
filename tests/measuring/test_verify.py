"""Promise against measurement: kept promises, broken ones, and what cannot be compared."""

import dataclasses
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, normalizers
from transformers import PreTrainedTokenizerFast

from powermark import Plan, evaluate, plan
from powermark.detection.scoring import score
from powermark.errors import InvalidInput, SpecMismatch
from powermark.generation.writing import Sampling, sampling_for, write_pairs
from powermark.measuring.promise import check_profile, enough, promise_of, unlike_profile
from powermark.measuring.record_profile import record_profile
from powermark.measuring.verification import verification_page
from powermark.measuring.verify import Verification, verify
from powermark.models import LanguageModel
from powermark.theory.power import critical_count
from powermark.watermark.keys import PREFIX, SecretKey, save_hash_key
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from tests.conftest import Run
from tests.detection.marked import marked_ids
from tests.killing import counted_batches, kill_in_batch
from tests.signals.profiles import sample

KEY = SecretKey(bytes(range(32)))
VOCAB = 5_000
TEXTS = 400


def made(design: Plan, rate: float | None = None, kl: float | None = None) -> Verification:
    """Verify a design on simulated texts whose green rate and KL are the promised ones or not."""
    spec = WatermarkSpec.from_plan(design, vocab_size=VOCAB)
    rng = np.random.default_rng(0)
    rate, kl = rate or design.gamma_prime, kl or design.kl
    n = design.n_tokens + 6
    marked = [
        {
            "token_ids": marked_ids(spec, KEY, n, rng, rate=rate),
            "prompt_ids": [1, 2],
            "kl": rng.normal(kl, 0.02, n).tolist(),
        }
        for _ in range(TEXTS)
    ]
    plain = [{"token_ids": rng.integers(0, VOCAB, n), "prompt_ids": [1, 2]} for _ in range(TEXTS)]
    promise = promise_of(spec)
    return verify(Watermark(spec, KEY), promise, marked, plain, profile=sample()[1])


def test_a_kept_promise() -> None:
    found = made(plan(n_tokens=60, alpha=0.05, power=0.9))
    assert found.broken == []
    assert "The promise holds on 400 marked and as many unmarked texts" in str(found)
    assert (found.texts, found.marked, found.read) == (TEXTS, TEXTS, "ids")
    assert found.to_dict()["outcome"] == found.outcome == "kept"
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


def test_a_survival_cannot_be_applied() -> None:
    found = made(plan(n_tokens=60, alpha=0.05, power=0.8, survival=0.9))
    assert [check.name for check in found.checks][-1] == "size"
    assert "nothing was edited" in found.notes[0]


def test_short_texts_are_found_or_not_as_others_are() -> None:
    design = plan(n_tokens=60, alpha=0.05, power=0.9)
    spec = WatermarkSpec.from_plan(design, vocab_size=VOCAB)
    rng = np.random.default_rng(1)
    rows: list[dict[str, Any]] = [
        {
            "token_ids": rng.integers(0, VOCAB, n),
            "prompt_ids": [1, 2],
            "kl": [0.01] * n,
        }
        for n in (70, 70, 20, 2)
    ]
    found = verify(Watermark(spec, KEY), promise_of(spec), rows, rows)
    assert (found.texts, found.marked) == (4, 2)
    by_name = {check.name: check for check in found.checks}
    assert by_name["power"].measured.texts == by_name["size"].measured.texts == 4
    scores = score(Watermark(spec, KEY).scheme, [row["token_ids"] for row in rows])
    greens = [int(scores.colours(i)[:60].sum()) for i in range(4)]
    needed = [critical_count(max(min(n, 60), 1), spec.gamma, 0.05) for n in scores.scored.tolist()]
    want = [g >= k for g, k in zip(greens, needed, strict=True)]
    assert by_name["power"].measured.value == np.mean(want)
    assert "2 of 4 marked texts have fewer than 60 tokens" in found.notes[0]
    assert f"of the other 2 it finds {sum(want[:2])}" in found.notes[0]
    nothing = verify(Watermark(spec, KEY), promise_of(spec), [], [])
    assert nothing.broken == []
    assert nothing.outcome == "unknown"
    assert "Too little is known to say" in nothing.verdict()
    assert "too little is known" in verification_page(nothing)
    json.dumps(nothing.to_dict(), allow_nan=False)
    assert "unknown" in str(nothing)
    assert " - " in str(found)  # no profile, nothing in its column


def test_the_text_is_judged_and_ids_are_shown() -> None:
    """Copies of which one token in six is read as another: found by ids, and not by text."""
    tokenizer = SimpleNamespace(
        all_special_ids=[], encode=lambda text, **_: [int(word) for word in text.split()]
    )
    design = plan(n_tokens=60, alpha=0.05, power=0.95)
    spec = WatermarkSpec.from_plan(design, vocab_size=VOCAB)
    rng, rows = np.random.default_rng(4), []
    for _ in range(60):
        ids = marked_ids(spec, KEY, 70, rng, rate=1.0)
        other = np.where(rng.random(70) < 1 / 6, rng.integers(0, VOCAB, 70), ids)
        rows.append({"token_ids": ids, "text": "  " + " ".join(map(str, other)) + "\n"})
    found = verify(Watermark(spec, KEY), promise_of(spec), rows, [], tokenizer=tokenizer)
    power = {check.name: check for check in found.checks}["power"]
    assert (found.read, found.outcome, power.holds) == ("text", "broken", False)
    assert power.by_ids is not None
    assert power.by_ids.value == 1.0
    assert power.measured.value < 0.5
    for_ids = dataclasses.replace(promise_of(spec), profile={"source": "ids"})
    again = verify(Watermark(spec, KEY), for_ids, rows, [], tokenizer=tokenizer)
    assert again.read == "ids"
    assert {check.name: check for check in again.checks}["power"].measured.value == 1.0


def test_prompts_unlike_the_profiles_get_a_note() -> None:
    about: dict[str, Any] = {"n_tokens": 70, "texts": 100}
    about["typical"] = {"certainty": [0.4, 0.05], "scored_share": [0.95, 0.01], "tokens": [69, 3.0]}
    rng = np.random.default_rng(0)
    usual = [
        {"token_ids": rng.integers(0, VOCAB, 70), "certainty": rng.normal(0.4, 0.1, 70).tolist()}
        for _ in range(30)
    ]

    def scored(records: Any) -> Any:
        return score(Watermark(spec, KEY).scheme, [record["token_ids"] for record in records])

    spec = WatermarkSpec(gamma=0.5, delta=2.0, context_width=2, vocab_size=VOCAB)
    assert unlike_profile(about, usual, scored) == []
    assert unlike_profile({}, usual, scored) == unlike_profile(about, [], scored) == []
    sure = [row | {"certainty": [0.8] * 70} for row in usual]
    assert (
        "mean probability of the likeliest token is 0.800" in unlike_profile(about, sure, scored)[0]
    )
    loops = [{"token_ids": np.tile(row["token_ids"][:35], 2)} for row in usual]
    assert "share of tokens that count is 0.5" in unlike_profile(about, loops, scored)[0]
    later = [{"token_ids": np.tile(row["token_ids"], 2)} for row in usual]  # beyond the profile's
    assert unlike_profile(about, later, scored) == []
    short = [{"token_ids": row["token_ids"][: 70 if i == 0 else 30]} for i, row in enumerate(usual)]
    assert (
        "shorter than the profile's: 31 of at most 70" in unlike_profile(about, short, scored)[-1]
    )


def test_what_a_spec_promises() -> None:
    by_hand = WatermarkSpec(gamma=0.5, delta=2.0, context_width=2, vocab_size=VOCAB)
    with pytest.raises(InvalidInput, match="has no plan; give n_tokens"):
        promise_of(by_hand)
    assert promise_of(by_hand, n_tokens=50, alpha=0.05).signal == "plug-in"
    _, profile = sample()
    told = promise_of(by_hand, n_tokens=50, alpha=0.05, profile=profile)
    assert told.signal == profile.name
    planned = WatermarkSpec.from_plan(plan(n_tokens=50, alpha=0.05, power=0.9), vocab_size=VOCAB)
    with pytest.raises(InvalidInput, match="has a plan, with its own"):
        promise_of(planned, n_tokens=50)
    assert promise_of(planned) is planned.plan


def test_settings_are_those_of_the_plan() -> None:
    _, profile = sample()
    cool = dataclasses.replace(profile, about={**profile.about, "temperature": 0.7})
    planned = plan(n_tokens=50, alpha=0.05, power=0.8, signal=cool)
    length = enough(50)
    few = {"typical": {"scored_share": [0.8, 0.2]}}  # of the tokens count
    assert (enough(60, few), enough(60, {"typical": {"scored_share": [1.0, 0.0]}})) == (105, 74)
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
    assert (code, err) == (3, "")  # 40 texts are too few for a power of .8
    found = json.loads(text)
    assert (found["broken"], found["outcome"]) == ([], "not enough texts")
    assert (found["texts"], found["read"]) == (40, "text")
    by_name = {check["name"]: check for check in found["checks"]}
    assert by_name["attacked_power"]["measured"]["texts"] == 40
    assert by_name["attacked_power"]["by_ids"]["texts"] == 40
    assert by_name["power"]["texts_needed"] >= 500
    assert by_name["power"]["profile"] == pytest.approx(by_name["power"]["promised"], abs=1e-6)
    assert "not enough texts" in html.read_text()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 80
    assert rows[0]["prompt"] == rows[1]["prompt"]  # one with the mark, one without
    assert max(rows[1]["kl"]) == 0.0
    assert max(rows[0]["kl"]) > 0.0
    whole = out.read_text()
    out.write_text("".join(whole.splitlines(keepends=True)[:37]))  # killed in the second batch
    assert json.loads(run(*job, "--batch", "15", "--json")[1]) == found
    assert out.read_text() == whole


def test_a_killed_verification_resumes_at_defaults(
    run: Run,
    deployed: tuple[tuple[str, ...], Path],
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without -o too: finished batches are in the cache, in a file named after the settings."""
    options, _ = deployed
    whole = run(*options, "--json")
    assert whole[0] == 3
    kept = cache.parent / "verify"
    assert list(kept.iterdir()) == []
    kill_in_batch(2, *options)
    [left] = kept.iterdir()
    assert len(left.read_text().splitlines()) == 2 * 24
    with counted_batches(monkeypatch) as sizes:
        assert run(*options, "--json") == whole
    assert sizes == [2 * 16]
    assert list(kept.iterdir()) == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POWERMARK_CACHE", str(tmp_path / "file"))  # no place: nothing is kept
    assert run(*options, "--json") == whole


def test_verify_knows_the_models_special_tokens(
    run: Run, deployed: tuple[tuple[str, ...], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def recorded(*args: Any, **named: Any) -> Verification:
        asked.update(named)
        return verify(*args, **named)

    monkeypatch.setattr("powermark.measuring.verify.verify", recorded)
    assert run(*deployed[0])[0] == 3
    assert asked["special_ids"] == [0, 1]
    assert asked["tokenizer"].all_special_ids == [0, 1]


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


def test_verify_refuses_mismatches(
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
    """The same model, marked by a schedule: nothing speaks against the promise.

    At a high temperature, where texts share few contexts: otherwise one key's luck is all texts'.
    """
    options, _ = deployed
    spec, profile = tmp_path / "steered.json", str(tmp_path / "warm.npz")
    warm = ("--texts", "48", "--batch", "36", "--n-tokens", "40", "--temperature", "2")
    assert run("profile", *options[5:9], "-o", profile, *warm)[0] == 0
    request = ("--n-tokens", "40", "--alpha", ".05", "--power", ".8", "--gamma", ".5", "--steer")
    code, out, err = run("plan", *request, "--profile", profile, "-o", str(spec), *options[5:7])
    assert code == 0, err
    assert "steering saves" in out
    changed = (*options[:2], str(spec), *options[3:], "--batch", "48")
    code, out, _ = run(*changed, "--profile", profile, "--json")
    found = json.loads(out)
    by_name = {check["name"]: check for check in found["checks"]}
    assert (code, found["broken"]) == (3, []), by_name
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
    assert "cannot be kept" in run(*job, *more)[2]


def test_a_plan_for_windows_is_verified_by_their_detector() -> None:
    asked: dict[str, Any] = {"n_tokens": 30, "alpha": 0.05, "power": 0.9, "removal": 0.2}
    design = plan(**asked, detector="winmax-c")
    found = made(design)
    by_name = {check.name: check for check in found.checks}
    assert [*by_name] == ["gamma_prime", "kl", "power", "size", "attacked_power"]
    assert found.broken == []
    assert by_name["power"].promised == design.power
    assert by_name["power"].plug_in == design.power
    assert by_name["size"].promised == 0.05
    assert by_name["size"].plug_in == design.size
    counted = evaluate(design.gamma, design.delta, n_tokens=30, alpha=0.05, edits=design.edits)
    assert counted.attacked_power is not None
    assert by_name["attacked_power"].measured.value > counted.attacked_power + 0.2
    assert "power after edits" in verification_page(found)
    weaker = made(design, rate=design.gamma_prime - 0.08)
    assert weaker.broken == ["gamma_prime", "power", "attacked_power"]


def test_a_profile_s_size_is_allowed_for_in_a_plan_for_windows() -> None:
    signal = sample()[1]
    design = plan(
        n_tokens=30, alpha=0.05, power=0.8, removal=0.1, signal=signal, detector="winmax-c"
    )
    errors = design.standard_errors
    assert errors is not None
    texts = np.unique(signal.text).size
    p = design.power
    assert errors["power"] >= 0.99 * np.sqrt(p * (1.0 - p) / texts)
    assert made(design).checks[2].holds is True
    silent = dataclasses.replace(design, standard_errors={"kl": 0.1, "gamma_prime": 0.1})
    assert made(silent).checks[2].holds is None


@pytest.mark.parametrize("edits", [{}, {"edit_rate": 0.05}])
def test_a_plan_for_the_e_value_is_verified_by_it(edits: dict[str, Any]) -> None:
    design = plan(n_tokens=60, alpha=0.05, power=0.9, detector="evalue", **edits)
    assert made(design).broken == []
    by_name = {check.name: check for check in made(design).checks}
    assert by_name["power"].promised == by_name["power"].plug_in == design.power
    assert by_name["size"].plug_in == design.size
    if edits:
        assert by_name["attacked_power"].plug_in == design.attacked_power
        counted = plan(n_tokens=60, alpha=0.05, power=0.9, **edits)
        assert made(design, rate=counted.gamma_prime).broken != []


@pytest.mark.parametrize("steer", [False, True])
def test_a_plan_for_a_truncated_sampler_holds_by_text(writer: LanguageModel, steer: bool) -> None:
    """Temperature .7 and top-p .95: profile, plan, texts and their copies."""
    sampling = Sampling(n_tokens=60, temperature=0.7, top_p=0.95)
    prompts = [f"w{i} w{i + 1}" for i in range(2, 74)]
    profile = record_profile(writer, prompts, sampling, batch=36)
    found = plan(n_tokens=45, alpha=0.05, power=0.9, signal=profile, steer=steer)
    assert found.efficiency <= 1.0
    assert found.kl > 0.0
    spec = WatermarkSpec.from_plan(found, vocab_size=writer.vocab_size)
    mark, promise = Watermark(spec, KEY), promise_of(spec)
    marked, unmarked = write_pairs(mark, writer, prompts, sampling, seed=3, batch=36)
    result = verify(mark, promise, marked, unmarked, tokenizer=writer.tokenizer, profile=profile)
    assert result.read == "text"
    assert result.broken == []
    checks = {check.name: check.measured for check in result.checks}
    assert checks["kl"].value == pytest.approx(found.kl, rel=0.15)
    assert checks["power"].value > 0.8


def test_what_copies_lose_is_in_the_plan(writer: LanguageModel) -> None:
    """One token in twenty joins the next word: a plan for text is kept, one for ids is not."""
    inner = Tokenizer.from_str(writer.tokenizer.backend_tokenizer.to_str())
    inner.normalizer = normalizers.Replace(Regex("([02468]3) "), "\\1")
    joining = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="</s>", eos_token="</s>")
    model = dataclasses.replace(writer, tokenizer=joining)
    sampling, prompts = Sampling(n_tokens=60), [f"w{i} w{i + 1}" for i in range(2, 110)]
    profile = record_profile(model, prompts, sampling, batch=36)
    assert 0.6 < profile.text_survival < 0.95
    asked: dict[str, Any] = {"n_tokens": 40, "alpha": 0.05, "power": 0.9, "gamma": 0.75}
    powers = {}
    for source in ("text", "ids"):
        found = plan(**asked, signal=profile.seen_from(source))
        mark = Watermark(WatermarkSpec.from_plan(found, vocab_size=model.vocab_size), KEY)
        written = write_pairs(mark, model, prompts, sampling, seed=3, batch=36)
        promise = dataclasses.replace(found, profile={**(found.profile or {}), "source": "text"})
        result = verify(mark, promise, *written, tokenizer=joining)
        assert result.read == "text"
        powers[source] = {check.name: check for check in result.checks}["power"]
    assert powers["text"].verdict != "BROKEN"
    assert powers["text"].measured.value > 0.85
    assert powers["ids"].verdict == "BROKEN"
    assert powers["ids"].by_ids is not None
    assert powers["ids"].by_ids.value > 0.85


def test_too_few_texts_for_any_quantity() -> None:
    """A KL a quarter above the promise and a false positive, on 16 texts: neither is kept."""
    design = plan(n_tokens=60, alpha=0.01, power=0.9, gamma=0.5)
    spec, rng = WatermarkSpec.from_plan(design, vocab_size=VOCAB), np.random.default_rng(2)
    n = design.n_tokens + 6
    marked = [
        {
            "token_ids": marked_ids(spec, KEY, n, rng, rate=design.gamma_prime),
            "kl": [max(rng.normal(1.1 * design.kl, 0.5 * design.kl), 0.0)] * n,
        }
        for _ in range(16)
    ]
    plain = [{"token_ids": rng.integers(0, VOCAB, n)} for _ in range(16)]
    found = verify(Watermark(spec, KEY), promise_of(spec), marked, plain)
    by_name = {check.name: check for check in found.checks}
    assert found.outcome == "not enough texts"
    assert by_name["size"].texts_needed is not None
    assert 16 < by_name["size"].texts_needed < 100
    assert by_name["kl"].holds is None
    assert by_name["gamma_prime"].texts_needed is not None
    assert "size needs" in found.verdict()
