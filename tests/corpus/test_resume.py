"""A scan resumes with the settings it was started with, and with no others."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from powermark import Plan, plan
from powermark.corpus import batches, sources, workers
from powermark.corpus.output import Output
from powermark.corpus.scan import scan
from powermark.corpus.scanner import SCHEMA, Scanned
from powermark.corpus.sketches import Sketches
from powermark.errors import FileProblem
from powermark.watermark.keys import save_hash_key
from powermark.watermark.spec import WatermarkSpec
from tests.corpus.conftest import (
    WORDS,
    World,
    documents,
    save_key,
    text_of,
    write_jsonl,
)


def run(world: World, tmp_path: Path, form: str = "parquet", **given: Any) -> dict[str, Any]:
    corpus = tmp_path / "a.jsonl"
    if not corpus.exists():
        write_jsonl(corpus, [text_of(ids) for ids in documents(world, 5)])
    job = world.job(**{"alpha": 0.01, **given})
    return scan([str(corpus)], job, str(tmp_path / "o"), output_format=form, workers=1)


def refused(world: World, tmp_path: Path, words: str, form: str = "parquet", **given: Any) -> None:
    with pytest.raises(
        FileProblem, match=f"holds a scan with other {words}, and cannot be resumed"
    ):
        run(world, tmp_path, form, **given)


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [(workers, "PART", "partitions"), (sources, "PORTION_BYTES", "partitions"),
     (batches, "ROWS", "batches"), (batches, "WEIGHT", "batches")],
)  # fmt: skip
def test_another_way_to_cut(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    words: str,
) -> None:
    run(world, tmp_path)
    monkeypatch.setattr(module, name, 3)
    refused(world, tmp_path, words)


def test_other_settings(world: World, tmp_path: Path) -> None:
    whole = run(world, tmp_path)
    refused(world, tmp_path, "output format", form="jsonl")
    refused(world, tmp_path, "signatures", alpha=0.02)
    save_key(bytes(32), tmp_path / "other.key")
    refused(world, tmp_path, "signatures, keys", keys=(str(tmp_path / "other.key"),))
    assert run(world, tmp_path) == whole
    (tmp_path / "o" / "job.json").write_text("{")
    with pytest.raises(FileProblem, match=r"job.json in .* is damaged"):
        run(world, tmp_path)


def test_another_tokenizer_or_other_special_tokens(world: World, tmp_path: Path) -> None:
    """Where the spec does not say for which it is, nobody else would notice."""
    loose = WatermarkSpec.from_plan(_plan(), vocab_size=WORDS)
    tokenizers = {}
    for name in ("same", "special", "other"):
        inner = Tokenizer.from_file(str(world.folder / "model" / "tokenizer.json"))
        if name == "special":
            inner.add_special_tokens(["w7"])
        if name == "other":
            described = json.loads(inner.to_str())
            vocabulary = described["model"]["vocab"]
            vocabulary["w1"], vocabulary["w2"] = vocabulary["w2"], vocabulary["w1"]
            inner = Tokenizer.from_str(json.dumps(described))
        (tmp_path / name).mkdir()
        inner.save(str(tmp_path / name / "tokenizer.json"))
        tokenizers[name] = str(tmp_path / name)
    run(world, tmp_path, specs=(loose,), model=tokenizers["same"])
    refused(world, tmp_path, "special ids", specs=(loose,), model=tokenizers["special"])
    refused(world, tmp_path, "tokenizer", specs=(loose,), model=tokenizers["other"])
    refused(world, tmp_path, "tokenizer", specs=(loose,), model=None)


def test_another_hash_key(world: World, tmp_path: Path) -> None:
    compat = WatermarkSpec.from_plan(_plan(context_width=1), vocab_size=WORDS, scheme="hf-lefthash")
    for number in (123_456_789, 123_456_788):
        save_hash_key(tmp_path / f"{number}.key", number)
    keys = [(str(tmp_path / f"{number}.key"),) for number in (123_456_789, 123_456_788)]
    run(world, tmp_path, specs=(compat,), keys=keys[0])
    refused(world, tmp_path, "keys", specs=(compat,), keys=keys[1])
    job = (tmp_path / "o" / "job.json").read_text()
    assert "123456789" not in job


class Killed(BaseException):
    """As a kill: nothing runs after it."""


def killed_after(batches: int, seen: list[int]) -> Any:
    def step(documents: int, tokens: int) -> None:
        del tokens
        seen.append(documents)
        if len(seen) == batches:
            raise Killed

    return step


def small_batches(monkeypatch: pytest.MonkeyPatch, every: float = 0.0) -> None:
    """Ten documents a batch, four batches a partition; kept after each."""
    monkeypatch.setattr(batches, "ROWS", 10)
    monkeypatch.setattr(workers, "PART", 4)
    monkeypatch.setattr(workers, "KEPT_EVERY", every)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_kill_loses_some_batches_and_not_the_partition(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    small_batches(monkeypatch)
    corpus = tmp_path / "a.jsonl"
    texts = [text_of(ids) for ids in documents(world, 75)]
    texts += [f"w1 {text}" for text in texts[:20]]  # copies in other batches and partitions
    write_jsonl(corpus, texts)
    with corpus.open("a") as stream:
        stream.write('{"text": 5}\n')
    job = world.job()

    def run(name: str, kill: int = 0) -> list[int]:
        seen: list[int] = []
        progress, output = killed_after(kill, seen), str(tmp_path / name)
        scan([str(corpus)], job, output, output_format=form, workers=1, on_progress=progress)
        return seen

    assert run("whole") == [10] * 9 + [5]
    for kill in (3, 2, 3, 4):
        with pytest.raises(Killed):
            run("killed", kill)
    # each time the batch at which it was killed, and the one before, are scanned again
    assert run("killed") == [10, 5]
    names = {path.name for path in (tmp_path / "whole").iterdir()}
    assert names == {path.name for path in (tmp_path / "killed").iterdir()}
    assert not any(name.startswith("kept-") for name in names)
    for name in names:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    (mark,) = json.loads((tmp_path / "killed" / "summary.json").read_text())["marks"]
    assert (mark["distinct"], mark["merged"], mark["largest_group"]) == (75, 20, 2)


def test_what_was_kept_and_is_damaged_is_scanned_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    corpus = tmp_path / "a.jsonl"
    write_jsonl(corpus, [text_of(ids) for ids in documents(world, 40)])
    sources, output = [str(corpus)], str(tmp_path / "o")
    with pytest.raises(Killed):
        scan(sources, world.job(), output, workers=1, on_progress=killed_after(4, []))
    first, second = sorted((tmp_path / "o").glob("kept-*"))[:2]
    content = bytearray(first.read_bytes())
    content[len(content) // 3] ^= 1
    first.write_bytes(content)
    assert second.name == "kept-00000-00000-1-1.zip"
    seen: list[int] = []
    scan(sources, world.job(), output, workers=1, on_progress=killed_after(0, seen))
    assert len(seen) == 4
    # left over where a run was killed between writing a partition and tidying up
    (tmp_path / "o" / second.name).write_bytes(b"")
    assert len(Output(output).batches_done()) == 1
    scan(sources, world.job(), output, workers=1)
    assert not list((tmp_path / "o").glob("kept-*"))


def test_any_damage_to_what_was_kept_is_seen(world: World, tmp_path: Path) -> None:
    output, name = Output(str(tmp_path)), "kept-00000-00000-0-1.zip"
    texts = pa.array([text_of(ids) for ids in documents(world, 3)], batches.TEXT)
    rejects = [batches.Reject("a", "because")]
    found = world.job().scanner().scan(batches.Batch(texts, texts, rejects))
    output.keep("00000-00000", 0, [found])
    content = (tmp_path / name).read_bytes()
    (whole,) = output.kept("00000-00000")
    assert (whole.table, whole.rejects) == (found.table, rejects)
    for place in range(0, len(content), 5):
        for damaged in (content[:place], content[:place] + b"%c" % (content[place] ^ 0xFF)
                        + content[place + 1 :]):  # fmt: skip
            (tmp_path / name).write_bytes(damaged)
            for kept in output.kept("00000-00000"):  # damage where nothing is read
                assert (kept.table, kept.rejects) == (found.table, rejects)


def test_an_unreached_file_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "KEPT_EVERY", 0.0)
    unreached = [batches.Reject("a", "busy", file=True, again=True)]

    empty = Sketches.of(np.zeros(0, np.int64), np.zeros(1, np.int64), 2)

    def work() -> Iterator[tuple[str, Scanned]]:
        yield "00000-00000", Scanned(SCHEMA.empty_table(), 0, 0, [], empty)
        yield "00000-00000", Scanned(SCHEMA.empty_table(), 0, 0, unreached, empty)
        yield "00000-00000", Scanned(SCHEMA.empty_table(), 0, 0, [], empty)
        raise Killed

    portions = [(sources.Source("a", "jsonl", None, 0, ""),)]
    with pytest.raises(Killed):
        workers.write_partitions(work(), portions, Output(str(tmp_path)), lambda *_: None)
    assert [path.name for path in tmp_path.iterdir()] == ["kept-00000-00000-0-1.zip"]


def test_batches_are_kept_by_time(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch, every=3600.0)
    corpus = tmp_path / "a.jsonl"
    write_jsonl(corpus, [text_of(ids) for ids in documents(world, 40)])
    with pytest.raises(Killed):
        scan([str(corpus)], world.job(), str(tmp_path / "o"), workers=1,
             on_progress=killed_after(4, []))  # fmt: skip
    assert not list((tmp_path / "o").glob("kept-*"))


def _plan(context_width: int = 2) -> Plan:
    return plan(n_tokens=60, alpha=0.01, power=0.95, edit_rate=0.05, context_width=context_width)
