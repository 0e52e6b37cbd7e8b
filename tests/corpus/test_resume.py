"""A scan is gone on with only in the way it was begun."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from powermark import Plan, plan
from powermark.corpus import batches, local, sources
from powermark.corpus.output import Output
from powermark.corpus.scan import scan
from powermark.corpus.sources import find_sources
from powermark.errors import FileProblem
from powermark.watermark.keys import save_hash_key
from powermark.watermark.spec import WatermarkSpec
from tests.corpus.conftest import WORDS, World, documents, save_key, text_of, write_jsonl


def run(world: World, tmp_path: Path, form: str = "parquet", **given: Any) -> dict[str, Any]:
    corpus = tmp_path / "a.jsonl"
    if not corpus.exists():
        write_jsonl(corpus, [text_of(ids) for ids in documents(world, 5)])
    recipe = world.recipe(**{"alpha": 0.01, **given})
    return scan(find_sources([str(corpus)]), recipe, Output(str(tmp_path / "o"), form), workers=1)


def refused(world: World, tmp_path: Path, words: str, form: str = "parquet", **given: Any) -> None:
    with pytest.raises(FileProblem, match=f"holds a scan with other {words}, and cannot"):
        run(world, tmp_path, form, **given)


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [(local, "PART", "partitions"), (sources, "UNIT_BYTES", "partitions"),
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


def _plan(context_width: int = 2) -> Plan:
    return plan(n_tokens=60, alpha=0.01, power=0.95, edit_rate=0.05, context_width=context_width)
