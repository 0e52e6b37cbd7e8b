"""The experiments' tables, small and on a random model: complete, repeatable, resumable."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark import plan
from powermark.errors import InvalidInput
from powermark.generation.writing import Sampling
from powermark.models import LanguageModel
from powermark.paper import experiments_plans as plans
from powermark.paper import experiments_steering as steering
from powermark.paper.workspace import Workspace
from powermark.signals.signal import PlugIn
from powermark.watermark.keys import SecretKey


@pytest.fixture
def workspace(writer: LanguageModel, tmp_path: Path) -> Workspace:
    data, work = tmp_path / "data", tmp_path / "work"
    data.mkdir()
    work.mkdir()
    for corpus in plans.CORPORA:
        rows = [json.dumps({"text": f"w{i} w{i + 3} w7"}) for i in range(2, 100)]
        (data / f"{corpus}.jsonl").write_text("\n".join(rows))
    return Workspace(writer, data, work, SecretKey(bytes(range(32))), batch=48)


def test_predictions(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "CORPORA", ("c4",))
    monkeypatch.setattr(plans, "SETTINGS", {0.5: (1.0, 2.0, 6.0)})
    rows = list(plans.prediction_table(workspace, texts=16, profiled=48, n_tokens=20))
    assert [(row["temperature"], row["delta"]) for row in rows] == [
        (t, d) for t in (1.0, 0.7) for d in (1.0, 2.0, 6.0)
    ]
    assert all(row["texts"] == 16 for row in rows)
    assert sum(row["rate_holds"] for row in rows) >= 5
    assert not rows[-2]["rate_plug_in_holds"]  # spiky at a low temperature
    files = {path: path.stat().st_mtime_ns for path in workspace.work.iterdir()}
    assert list(plans.prediction_table(workspace, texts=16, profiled=48, n_tokens=20)) == rows
    assert {
        path: path.stat().st_mtime_ns for path in workspace.work.iterdir()
    } == files  # read, not made


def test_promises_and_rivals(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PROFILED", 48)
    monkeypatch.setattr(plans, "LENGTHS", (40,))
    monkeypatch.setattr(plans, "LEVELS", (0.05,))
    monkeypatch.setattr(plans, "TEMPERATURES", (0.7,))
    monkeypatch.setattr(plans, "EDIT_RATE", 0.005)
    rows = list(plans.promise_table(workspace, texts=40))
    assert [(row["signal"], row["edit_rate"]) for row in rows] == [
        ("profile", None), ("plug-in", None), ("profile", 0.005), ("plug-in", 0.005),
    ]  # fmt: skip
    for row in rows:
        assert row["tpr_texts"] > 35
        assert row["size"] <= 0.05
        assert row["size_holds"]
    assert rows[0]["tpr"] == pytest.approx(0.95, abs=3.5 * np.sqrt(0.95 * 0.05 / 40))
    assert rows[0]["tpr_ids"] >= rows[0]["tpr"] > rows[1]["tpr"]
    rivals = list(plans.rivals_table(workspace, texts=40))
    assert [row["design"] for row in rivals] == [
        "profile plan", "authors' point", "gamma 0.25, delta 2", "gamma 0.5, delta 2",
    ]  # fmt: skip
    best, _, *usual = (row["efficiency_measured"] for row in rivals)
    assert best > max(usual) > 0.0
    assert rivals[0]["size"] <= 0.05


def test_prompts_run_out(workspace: Workspace) -> None:
    with pytest.raises(InvalidInput, match="c4 has 98 prompts; 200 are needed"):
        workspace.prompts("c4", 100, 100)
    assert workspace.texts(["w2"], Sampling(n_tokens=2))[0]["prompt"] == "w2"


def test_steering(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "PROFILED", 48)
    pairs = ((0.5, None), (0.99, None), (None, 0.02))
    monkeypatch.setattr(steering, "LENGTHS", (24,))
    monkeypatch.setattr(steering, "CELLS", ((0.7, 24, 0.05, (30, 16), pairs),))
    rows = list(steering.steering_table(workspace))
    assert [(row["bias"], row["edit_rate"]) for row in rows] == [
        ("constant", None), ("steered", None), ("steered", None),
        ("constant", 0.02), ("steered", 0.02), ("steered", 0.02), ("authors' point", None),
    ]  # fmt: skip
    constant, steered, surer = rows[:3]
    assert surer["power"] > 0.969
    assert steered["kl"] < surer["kl"] < constant["kl"]
    assert (rows[-1]["gamma"], rows[-1]["delta"]) == plans.AUTHORS_POINT
    assert steered["kl_measured"] < constant["kl_measured"]
    assert steered["fpr"] == constant["fpr"]  # the same test on the same texts
    assert steered["tpr"] > 0.8
    assert 40 < steered["tpr_texts"] <= 46  # of both keys


def test_special_tokens_do_not_count(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth token of all texts is the end of text, which the tokenizer calls special."""
    rng = np.random.default_rng(0)
    texts = np.stack([rng.permutation(np.arange(2, 200))[:120] for _ in range(6)])
    rows: list[dict[str, Any]] = [
        {"token_ids": text, "prompt_ids": [2], "kl": [0.0] * 120} for text in texts
    ]
    decode = workspace.model.tokenizer.decode
    for row in rows:
        row["text"] = decode(row["token_ids"].tolist())
    design = plan(n_tokens=100, alpha=0.05, power=0.9, gamma=0.5)
    sample = plans.Sample(workspace, rows, rows)
    assert plans.measured(design, [sample], with_prompts=False)["tpr_texts"] == 6
    texts[:, ::4] = 1
    for row in rows:
        row["text"] = decode(row["token_ids"].tolist())
    found = plans.measured(design, [sample], with_prompts=False)
    assert {found[f"{name}_texts"] for name in ("tpr", "fpr", "green_rate", "kl_measured")} == {0}
    monkeypatch.setattr(Workspace, "texts", lambda *_, **__: rows)
    steered = plan(n_tokens=50, alpha=0.05, power=0.9, gamma=0.5, steer=True)
    reports = steering._reports(workspace, steered, ["w2"])["as planned"]
    assert [report.scored for report in reports] == [37] * 6  # of 52, the first three and 12 do not


def test_the_authors_point_is_for_its_length_alone() -> None:
    assert list(steering._designs(PlugIn(), 30, 0.05, ())) == []


def test_lengths_of_steered_texts(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "PROFILED", 48)
    monkeypatch.setattr(steering, "N_TOKENS", 30)
    rows = list(steering.lengths_table(workspace, texts=24))
    assert [row["checkpoint"] for row in rows] == [None] * 4 + [15] * 4
    half, planned, twice, _ = rows[:4]
    assert half["tpr"] < planned["tpr"]
    assert half["tpr"] < rows[4]["tpr"]  # found there on purpose
    for row in (half, planned, twice, *rows[4:7]):
        assert row["tpr_low"] - 0.05 <= row["power"] <= row["tpr_high"] + 0.05
