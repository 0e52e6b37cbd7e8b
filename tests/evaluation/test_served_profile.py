"""profile --endpoint: what a server's likeliest tokens tell of its model."""

import json
from pathlib import Path

import numpy as np
import pytest

from powermark.calibration.plan import plan
from powermark.calibration.profile import Profile
from powermark.calibration.profile_file import load_profile
from powermark.errors import InvalidInput
from powermark.evaluation.endpoint import Endpoint
from powermark.evaluation.served_profile import as_sampled, profile_endpoint
from powermark.evaluation.writing import Sampling
from powermark.watermark.spec import WatermarkSpec
from tests.evaluation.conftest import VOCAB
from tests.evaluation.test_endpoint import Server, job, server
from tests.interfaces.test_cli import Run, run

__all__ = ["job", "run", "server"]  # fixtures
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
def test_a_mark_is_foretold_nearly_as_from_whole_distributions(temperature: float) -> None:
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


def test_from_a_server(run: Run, job: tuple[str, ...], tmp_path: Path) -> None:
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


def test_what_cannot_be_told(
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
        (Sampling(n_tokens=20, temperature=1.2), "too little above temperature 1"),
        (Sampling(n_tokens=20, temperature=1.0, top_k=30), "at most the 20 tokens"),
    ):
        with pytest.raises(InvalidInput, match=words):
            profile_endpoint(endpoint, ["a"], sampling, None, model="m")


def test_a_steered_mark_has_no_one_strength() -> None:
    found = plan(n_tokens=12, alpha=0.1, power=0.9, gamma=0.5, steer=True)
    marks = {"s": WatermarkSpec.from_plan(found, vocab_size=VOCAB)}
    with pytest.raises(InvalidInput, match="'s' is steered"):
        profile_endpoint(
            Endpoint("http://x"), ["a"], Sampling(n_tokens=20), None, model="m", marks=marks
        )
