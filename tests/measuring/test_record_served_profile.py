"""profile --endpoint: a profile from the likeliest tokens that a server reports."""

import json
from pathlib import Path

import numpy as np
import pytest

from powermark.errors import InvalidInput
from powermark.generation.endpoint import Endpoint
from powermark.generation.writing import Sampling
from powermark.measuring.record_served_profile import as_sampled, profile_endpoint
from powermark.planning.plan import plan
from powermark.signals.profile import Profile
from powermark.signals.profile_file import load_profile
from powermark.watermark.spec import WatermarkSpec
from tests.conftest import VOCAB, Run
from tests.generation.completions import Server

HEAD = 20


def distributions(temperature: float = 1.0) -> np.ndarray:
    logits = np.random.default_rng(3).normal(0.0, 3.0, (300, 2_000)) / temperature
    found = np.exp(np.sort(logits)[:, ::-1])
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def profile_of(head: np.ndarray, mass: np.ndarray, square: np.ndarray) -> Profile:
    n = len(head)
    ids, text = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32) // 30
    return Profile(head, mass, square, text, ids, np.zeros(n, np.float32))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_predictions_are_close_to_those_from_whole_distributions(temperature: float) -> None:
    p = distributions(temperature)
    whole = profile_of(p, np.zeros(len(p)), np.zeros(len(p)))
    told = profile_of(
        *as_sampled(distributions()[:, :HEAD], Sampling(n_tokens=30, temperature=temperature))
    )
    for gamma, delta in ((0.25, 2.0), (0.9, 3.0)):
        exact, found = whole.green_rate(gamma, delta), told.green_rate(gamma, delta)
        assert found == pytest.approx(exact, abs=0.005)
        assert told.kl(gamma, delta) == pytest.approx(whole.kl(gamma, delta), rel=0.02)
    if temperature == 1.0:
        assert told.head == pytest.approx(p[:, :HEAD], rel=1e-6)
        assert told.tail_mass == pytest.approx(p[:, HEAD:].sum(axis=1), abs=1e-6)


def test_what_truncation_leaves_is_exact_where_it_is_known() -> None:
    p = distributions()
    head, mass, square = as_sampled(p[:, :HEAD], Sampling(n_tokens=30, temperature=1.0, top_k=5))
    assert head == pytest.approx(p[:, :5] / p[:, :5].sum(axis=1, keepdims=True), rel=1e-6)
    assert (mass.max(), square.max()) == (0.0, 0.0)
    head, mass, _ = as_sampled(p[:, :HEAD], Sampling(n_tokens=30, temperature=1.0, top_p=0.5))
    kept = np.where(np.cumsum(p, axis=1) - p < 0.5, p, 0.0)
    known = kept[:, HEAD] == 0.0
    exact = kept[known, :HEAD] / kept[known].sum(axis=1, keepdims=True)
    assert known.sum() > 200
    assert head[known] == pytest.approx(exact, rel=1e-6, abs=1e-9)
    assert mass[known].max() < 1e-6
    assert (head.sum(axis=1) + mass) == pytest.approx(1.0, abs=1e-6)


def test_a_profile_of_a_server(run: Run, job: tuple[str, ...], tmp_path: Path) -> None:
    asked = ("--model", job[6], *job[7:9], *job[-2:], "--texts", "12", "--n-tokens", "20")
    out = tmp_path / "p.npz"
    code, said, err = run("profile", *asked, "--spec", job[2], "-o", str(out), "--json")
    assert code == 0, err
    found = load_profile(out)
    assert json.loads(said)["digest"] == found.about["digest"]
    assert found.about["model"] == job[6]
    assert (found.about["texts"], found.head.shape[1]) == (12, HEAD)
    assert found.ids.max() < VOCAB
    assert 1 not in found.ids  # the end of a text is not of it
    assert np.unique(found.text[found.strength > 0]).tolist() == [2, 5, 8, 11]
    assert found.head == pytest.approx(1 / (VOCAB - 2))
    assert found.tail_mass == pytest.approx(1 - HEAD / (VOCAB - 2), abs=1e-6)
    plain = tmp_path / "plain.npz"
    code, said, _ = run("profile", *asked, "-o", str(plain))
    assert code == 0
    assert "12 texts" in said
    assert load_profile(plain).strength.max() == 0.0


def test_a_profile_of_chats_with_a_server(run: Run, job: tuple[str, ...], tmp_path: Path) -> None:
    asked = ("--model", job[6], *job[7:9], *job[-2:], "--texts", "12", "--n-tokens", "20")
    out = tmp_path / "p.npz"
    code, _, err = run("profile", *asked, "--chat", "--system", "w4", "-o", str(out))
    assert code == 0, err
    found = load_profile(out)
    assert found.about["chat"] is True
    assert (found.about["texts"], found.head.shape[1]) == (12, HEAD)
    assert found.head == pytest.approx(1 / (VOCAB - 2))


def test_min_p_cuts_the_head_and_the_others() -> None:
    p = distributions()
    head, mass, square = as_sampled(p[:, :HEAD], Sampling(n_tokens=30, min_p=0.5))
    kept = np.where(p[:, :HEAD] >= 0.5 * p[:, :1], p[:, :HEAD], 0.0)
    cut = kept[:, -1] == 0.0
    assert cut.sum() > 200
    exact = kept[cut] / kept[cut].sum(axis=1, keepdims=True)
    assert head[cut] == pytest.approx(exact, rel=1e-5)
    assert (mass[cut].max(), square[cut].max()) == (0.0, 0.0)


def test_servers_and_settings_that_are_refused(
    run: Run, job: tuple[str, ...], server: Server, tmp_path: Path
) -> None:
    asked = ("profile", "--model", job[6], *job[-2:], "--texts", "2", "-o", str(tmp_path / "p.npz"))
    server.fault = "words"
    assert "does not report the ids" in run(*asked)[2]
    server.tells_ids = False
    assert "does not report the ids" in run(*asked)[2]
    assert "are for --endpoint" in run(*asked[:3], "--spec", job[2], *asked[-2:])[2]
    assert not (tmp_path / "p.npz").exists()
    endpoint = Endpoint(job[-1])
    for sampling, words in (
        (Sampling(n_tokens=20, temperature=1.2), "not enough above temperature 1"),
        (Sampling(n_tokens=20, temperature=1.0, top_k=30), "at most the 20 tokens"),
        (Sampling(n_tokens=20, repetition_penalty=1.1), "before its repetition penalty"),
    ):
        with pytest.raises(InvalidInput, match=words):
            profile_endpoint(endpoint, ["a"], sampling, None, model="m")


def test_a_steered_mark_is_refused() -> None:
    found = plan(n_tokens=12, alpha=0.1, power=0.9, gamma=0.5, steer=True)
    marks = {"s": WatermarkSpec.from_plan(found, vocab_size=VOCAB)}
    with pytest.raises(InvalidInput, match="'s' is steered"):
        profile_endpoint(
            Endpoint("http://x"), ["a"], Sampling(n_tokens=20), None, model="m", marks=marks
        )
