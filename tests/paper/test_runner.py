import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from powermark.errors import MissingExtra
from powermark.generation.records import parquet
from powermark.generation.writing import Sampling
from powermark.models import LanguageModel, load_model
from powermark.paper import workspace as workspace_module
from powermark.paper.runner import Cell, _Worker, over_ray, run, with_colours
from powermark.paper.workspace import Workspace
from tests.paper.cells import CELLS, KEY, workspace_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for corpus in ("c4", "lfqa"):
        words = rng.integers(2, 200, (20, 60))
        rows = [json.dumps({"text": " ".join(f"w{word}" for word in row)}) for row in words]
        (tmp_path / f"{corpus}.jsonl").write_text("\n".join(rows))
    return tmp_path


def test_cells_share_batches_and_keep_their_marks(writer: LanguageModel, data: Path) -> None:
    sampling = Sampling(n_tokens=30, temperature=0.7)
    rows = run(workspace_of(writer, data, data / "work"), CELLS, sampling, batch=5)
    assert [row["method"] for row in rows] == ["unmarked"] * 3 + ["grid"] * 4 + ["opt"] * 3 + [
        "dp"
    ] * 3
    assert [row["number"] for row in rows] == [0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 0, 1, 2]
    unmarked, grid, opt, dp = (
        [row for row in rows if row["method"] == name] for name in ("unmarked", "grid", "opt", "dp")
    )
    for row in unmarked:
        assert set(row["colours"]) == {"."}
        assert max(row["kl"]) == 0.0
    assert unmarked[0]["prompt"] == grid[0]["prompt"]
    assert len(grid[0]["prompt_ids"]) == 50
    for row in grid:
        counted = row["colours"].replace(".", "")
        assert len(counted) > 20
        assert counted.count("G") / len(counted) > 0.7
        assert np.mean(row["kl"]) > np.mean(row["kl_plain"]) > 0.0  # T < 1 sharpens the bias
    for row in opt:
        assert set(row["colours"]) == {".", "G"}
    assert 0.5 < np.mean(["G" in c for row in dp for c in row["colours"].replace(".", "")]) < 0.9


def test_a_killed_run_ends_with_the_same_records(
    writer: LanguageModel, data: Path, writer_folder: Path
) -> None:
    """Killed again and again at any moment, in another process."""
    sampling = Sampling(n_tokens=10)
    want = run(workspace_of(writer, data, data / "calm"), CELLS, sampling, batch=2)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from powermark.models import load_model\n"
        "from tests.paper.cells import CELLS, workspace_of\n"
        "from powermark.paper.runner import run\n"
        "from powermark.generation.writing import Sampling\n"
        "model, data = load_model(sys.argv[1]), Path(sys.argv[2])\n"
        "workspace = workspace_of(model, data, data / 'shaken')\n"
        "print('ready', flush=True)\n"
        "run(workspace, CELLS, Sampling(n_tokens=10), batch=2)\n"
    )
    (data / "shaken").mkdir()
    for wait in (0.02, 0.1):
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(writer_folder), str(data)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        try:
            child.wait(wait)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
        child.stdout.close()
    assert run(workspace_of(writer, data, data / "shaken"), CELLS, sampling, batch=2) == want
    calm, shaken = (next((data / name).glob("*.jsonl")) for name in ("calm", "shaken"))
    assert calm.read_bytes() == shaken.read_bytes()


def test_colours_under_another_share(writer: LanguageModel, data: Path) -> None:
    workspace = workspace_of(writer, data, data / "work")
    rows = run(workspace, CELLS[:2], Sampling(n_tokens=30), batch=7)
    again = with_colours(workspace, rows, 0.5)
    assert [row["colours"] for row in again[3:]] == [row["colours"] for row in rows[3:]]
    assert set(again[0]["colours"]) == {".", "G", "r"}
    assert with_colours(workspace, [], 0.5) == []


def test_json_is_made_once(writer: LanguageModel, data: Path) -> None:
    workspace, values = Workspace(writer, data, data, KEY), iter([1.5, 2.5])
    for _ in range(2):
        assert workspace.remembered("one", lambda: {"a": next(values)}) == {"a": 1.5}


def test_corpora_by_name(
    writer: LanguageModel, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def passages(name: str, most: int) -> list[str]:
        asked.append((name, most))
        return ["w3 w4", "w5 w6"]

    monkeypatch.setattr(workspace_module, "passages", passages)
    workspace = Workspace(writer, None, data, KEY)
    assert sorted(workspace.openings("wikitext-2", 2)) == ["w3 w4", "w5 w6"]
    assert asked == [("wikitext-2", 1_000)]


def test_progress_says_what_is_left(writer: LanguageModel, data: Path) -> None:
    heard: list[str] = []
    workspace = Workspace(writer, data, data, KEY, say=heard.append)
    run(workspace, CELLS[:1], Sampling(n_tokens=4), batch=2)
    assert heard == ["2 of 3 texts, about 0 min left", "3 of 3 texts, about 0 min left"]


def test_a_steered_cell(writer: LanguageModel, data: Path) -> None:
    from powermark import plan

    found = plan(n_tokens=20, alpha=0.05, power=0.9, gamma=0.5, steer=True)
    cell = Cell(
        corpus="c4",
        method="steered",
        texts=20,
        gamma=0.5,
        delta=found.delta,
        rule="steered",
        steering=found.steering,
    )
    rows = run(workspace_of(writer, data, data / "work"), [cell], Sampling(n_tokens=26), batch=20)
    greens = [row["colours"].replace(".", "")[:20].count("G") for row in rows]
    assert np.mean(greens) > 12


def test_workers_of_a_cluster_write_the_same_and_may_be_lost(
    writer: LanguageModel, data: Path, writer_folder: Path
) -> None:
    sampling = Sampling(n_tokens=10)
    want = run(workspace_of(writer, data, data / "alone"), CELLS, sampling, batch=2)
    lost = data / "lost"

    def make_workspace() -> Workspace:
        if not lost.exists():  # the first worker does not come to its first batch
            lost.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return workspace_of(load_model(str(writer_folder)), data, data / "many")

    many = over_ray(make_workspace, workers=2)
    workspace = replace(workspace_of(writer, data, data / "many"), spread=many)
    found = run(workspace, CELLS, sampling, batch=2)
    for mine, theirs in zip(found, want, strict=True):  # a worker has one thread, and so rounds
        for field in ("kl", "green_rate", "certainty"):
            assert mine.pop(field) == pytest.approx(theirs.pop(field), abs=1e-5)
        assert mine == theirs
    assert len(run(workspace, CELLS, sampling, batch=2)) == len(want)  # read, without a cluster
    assert lost.exists()


def test_a_ray_worker_runs_a_batch_in_its_own_workspace(writer: LanguageModel, data: Path) -> None:
    worker = _Worker(lambda: workspace_of(writer, data, data / "work"))
    assert worker.run(lambda own, text: (own.model.name, text), ("a",)) == (
        writer.name,
        "a",
    )


def test_records_as_parquet_need_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="Parquet needs pyarrow"):
        parquet([])


def test_clusters_need_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match="needs ray"):
        over_ray(lambda: None)  # type: ignore[arg-type,return-value]
