"""Ray gives the files that the local engine gives, even where a worker is lost on the way."""

import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from powermark.corpus import ray as engine
from powermark.corpus import sources
from powermark.corpus.output import Output
from powermark.corpus.scan import scan
from powermark.corpus.sources import find_sources
from powermark.errors import MissingExtra
from tests.corpus.conftest import World, documents, text_of, write_jsonl
from tests.corpus.test_scan import files


@pytest.fixture
def corpus(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sources, "UNIT_BYTES", 1)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(4):
        texts = [text_of(ids) for ids in documents(world, 20, marked=1, seed=number)]
        write_jsonl(folder / f"{number}.jsonl", texts)
    return folder


def test_a_worker_alone(world: World, corpus: Path, tmp_path: Path) -> None:
    """What runs inside a worker, without a cluster; a second look finds everything done."""
    found = find_sources([str(corpus)])
    whole = Output(str(tmp_path / "whole"))
    scan(found, world.recipe(), whole, workers=1)
    output = Output(str(tmp_path / "ray"))
    Path(output.place).mkdir()
    worker = engine.PortionScanner(sources.units(found), world.recipe(), output)
    for number in [*range(4), 2]:
        assert worker({"number": number}) == {"number": number}
    made = files(Path(output.place))
    assert sorted(made) == [f"part-0000{number}-00000-20.parquet" for number in range(4)]
    assert made.items() <= files(Path(whole.place)).items()


@pytest.mark.filterwarnings("ignore")  # of Ray's own
def test_a_cluster_that_loses_a_worker(
    world: World, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    flag = tmp_path / "killed"
    scanner = engine.PortionScanner

    class Dying(scanner):  # type: ignore[misc, valid-type]
        def __call__(self, row: dict[str, int]) -> dict[str, int]:
            answer: dict[str, int] = super().__call__(row)
            if row["number"] == 1 and not flag.exists():
                flag.write_text("once")
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

    found = find_sources([str(corpus)])
    whole = scan(found, world.recipe(), Output(str(tmp_path / "whole")), workers=1)
    monkeypatch.setattr(engine, "PortionScanner", Dying)
    spread = Output(str(tmp_path / "ray"))
    assert scan(found, world.recipe(), spread, workers=2, engine="ray") == whole
    assert flag.exists()
    assert files(tmp_path / "ray") == files(tmp_path / "whole")


def test_without_ray(
    world: World, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match="needs ray"):
        scan(find_sources([str(corpus)]), world.recipe(), Output(str(tmp_path / "o")), engine="ray")


def test_a_cluster_that_is_there_already_is_left_running(
    world: World, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

        def materialize(self) -> None:
            for item in self.items:
                self.worker(item)

    fake: Any = ModuleType("ray")
    fake.is_initialized, fake.cluster_resources = lambda: True, lambda: {"CPU": 3.0}
    fake.data = Data()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray.data", fake.data)
    found = find_sources([str(corpus)])
    whole = scan(found, world.recipe(), Output(str(tmp_path / "whole")), workers=1)
    assert scan(found, world.recipe(), Output(str(tmp_path / "ray")), engine="ray") == whole
