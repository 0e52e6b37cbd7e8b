"""Ray gives the files that the local engine gives, even where a worker is lost on the way."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from powermark.corpus import sources, workers
from powermark.corpus.output import Output
from powermark.corpus.scan import scan
from powermark.corpus.sources import find_sources
from powermark.errors import MissingExtra
from powermark.interfaces.cli import main
from tests.corpus.conftest import World, documents, files, text_of, write_jsonl


@pytest.fixture
def corpus(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sources, "PORTION_BYTES", 1)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(4):
        texts = [text_of(ids) for ids in documents(world, 20, marked=1, seed=number)]
        write_jsonl(folder / f"{number}.jsonl", texts)
    return folder


def test_a_worker_alone(world: World, corpus: Path, tmp_path: Path) -> None:
    """What runs inside a worker, without a cluster; a second look finds everything done."""
    (mark,) = scan([str(corpus)], world.job(), str(tmp_path / "whole"), workers=1)["marks"]
    output = Output(str(tmp_path / "ray"))
    Path(output.place).mkdir()
    portions = sources.portions(find_sources([str(corpus)]))
    worker = workers.PortionScanner(portions, world.job(), output)
    tokens = sum(worker({"number": number})["tokens"] for number in range(3))
    last = worker({"number": 3})
    assert last["documents"] == 20
    assert tokens + last["tokens"] == mark["tokens"]
    assert worker({"number": 2}) == {"documents": 0, "tokens": 0}
    made = files(Path(output.place))
    wanted = [f"part-0000{number}-00000-20.parquet" for number in range(4)]
    assert sorted(made) == wanted + [f"sketches-0000{number}-00000.npz" for number in range(4)]
    assert made.items() <= files(tmp_path / "whole").items()


@pytest.mark.filterwarnings("ignore")  # of Ray's own
def test_a_cluster_that_loses_a_worker(
    world: World, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    flag = tmp_path / "killed"
    scanner = workers.PortionScanner

    class Dying(scanner):  # type: ignore[misc, valid-type]
        def __call__(self, row: dict[str, int]) -> dict[str, int]:
            answer: dict[str, int] = super().__call__(row)
            if row["number"] == 1 and not flag.exists():
                flag.write_text("once")
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

    whole = scan([str(corpus)], world.job(), str(tmp_path / "whole"), workers=1)
    monkeypatch.setattr(workers, "PortionScanner", Dying)
    seen: list[int] = []
    scanned = scan(
        [str(corpus)],
        world.job(),
        str(tmp_path / "ray"),
        workers=2,
        engine="ray",
        on_progress=lambda documents, _: seen.append(documents),
    )
    assert scanned == whole
    assert sorted(seen) == [0, 20, 20, 20]  # the lost worker did not report its portion
    assert flag.exists()
    assert files(tmp_path / "ray") == files(tmp_path / "whole")


def test_without_ray(
    world: World, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match="needs ray"):
        scan([str(corpus)], world.job(), str(tmp_path / "o"), engine="ray")


def test_the_command_on_a_cluster_that_is_there_already_and_is_left_running(
    world: World,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Data:
        """Ray Data as far as it is used, in this process."""

        def from_items(self, items: list[dict[str, int]], **_: object) -> "Data":
            self.items = items
            return self

        def map(self, kind: Any, fn_constructor_args: Any, concurrency: int, **_: object) -> "Data":
            assert concurrency == 3
            self.worker = kind(*fn_constructor_args)
            return self

        def iter_rows(self) -> Iterator[dict[str, int]]:
            return map(self.worker, self.items)

    fake: Any = ModuleType("ray")
    fake.is_initialized, fake.cluster_resources = lambda: True, lambda: {"CPU": 3.0}
    fake.data = Data()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray.data", fake.data)
    whole = scan([str(corpus)], world.job(), str(tmp_path / "whole"), workers=1)
    command = ["scan", str(corpus), "-o", str(tmp_path / "ray"), "--engine", "ray", "--json"]
    command += ["--spec", str(world.folder / "s.json"), "--key", world.key]
    with pytest.raises(SystemExit) as stop:
        main([*command, "--model", str(world.folder / "model")])
    assert not stop.value.code
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert answer["this_run"].pop("seconds") > 0
    mark = whole["marks"][0]
    assert answer.pop("this_run") == {"documents": 80, "tokens": mark["tokens"]}
    assert answer == whole
    assert "80 documents in" in shown.err
