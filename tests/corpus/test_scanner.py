"""A batch gives row for row what the detector says of each text alone."""

import dataclasses
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from powermark import plan
from powermark.corpus.batches import IDS, TEXT, Batch
from powermark.corpus.scanner import SCHEMA, Scanner
from powermark.detection.detector import Detector
from powermark.detection.text import characters_of, flat_ids
from powermark.errors import InvalidInput
from powermark.watermark.keys import PUBLIC_HASH_KEY, SecretKey, save_hash_key
from powermark.watermark.spec import WatermarkSpec
from tests.corpus.conftest import KEY, World, documents, save_key, text_of


def batch(contents: list[list[int]] | list[str], kind: pa.DataType = IDS) -> Batch:
    return Batch(
        pa.array([f"d{i}" for i in range(len(contents))], TEXT), pa.array(contents, kind), []
    )


def assert_equal_rows(table: pa.Table, detector: Detector, texts: list[Any]) -> None:
    rows = table.to_pylist()
    assert len(rows) == len(texts)
    for i, (row, text) in enumerate(zip(rows, texts, strict=True)):
        found = detector.detect(text).to_dict()
        assert row["id"] == f"d{i}"
        assert row["spec"] == detector.spec.digest[:12]
        own = {"id", "mark", "spec", "log_e", "size", "char_start", "char_stop"}
        assert set(row) - set(found) == own
        for name in set(row) & set(found):
            assert row[name] == found[name], name


@pytest.mark.parametrize("detector", ["count", "evalue"])
def test_rows_are_what_the_detector_says(world: World, detector: str) -> None:
    texts = [[], [7], *documents(world, 30 if detector == "count" else 5)]
    texts[4] = texts[4][:10] * 8  # repeats
    job = world.job(detector=detector)
    look = Detector(world.spec, KEY, tokenizer=world.tokenizer, detector=detector)  # type: ignore[arg-type]
    scanned = job.scanner().scan(batch(texts))
    assert scanned.table.schema == SCHEMA
    assert_equal_rows(scanned.table, look, texts)
    written = [text_of(ids) for ids in texts]
    assert_equal_rows(job.scanner().scan(batch(written, TEXT)).table, look, written)
    assert (scanned.documents, scanned.tokens) == (len(texts), sum(map(len, texts)))


def test_evidence_and_size(world: World) -> None:
    texts = documents(world, 6)
    rows = world.job().scanner().scan(batch(texts)).table.to_pylist()
    gamma, rate = world.spec.gamma, world.spec.gamma_prime
    for row in rows:
        reds = row["scored"] - row["green"]
        e = row["green"] * math.log(rate / gamma) + reds * math.log((1 - rate) / (1 - gamma))
        assert row["log_e"] == pytest.approx(e)
        assert 0.0 < row["size"] <= 0.01
    assert rows[0]["verdict"] == "watermarked"


def test_several_marks_are_one_tokenisation(world: World) -> None:
    other = dataclasses.replace(world.spec, gamma=0.5, delta=2.0, design=None)
    texts = documents(world, 8)
    scanner = world.job(specs=(world.spec, other), alpha=0.02).scanner()
    table = scanner.scan(batch(texts)).table
    assert table["id"].to_pylist() == [f"d{i // 2}" for i in range(16)]
    for first, spec in enumerate((world.spec, other)):
        rows = table.take(pa.array(np.arange(first, 16, 2)))
        look = Detector(spec, KEY, tokenizer=world.tokenizer, alpha=0.02)
        assert_equal_rows(rows, look, texts)


def test_one_spec_with_two_keys_is_two_marks(world: World) -> None:
    save_key(bytes(32), world.folder / "other.key")
    keys = (world.key, str(world.folder / "other.key"))
    scanner = world.job(specs=(world.spec, world.spec), keys=keys).scanner()
    table = scanner.scan(batch(documents(world, 4))).table
    assert table["mark"].to_pylist()[:2] == scanner.labels
    digest = world.spec.digest[:12]
    assert scanner.labels == [f"{digest}.1", f"{digest}.2"]
    assert set(table["spec"].to_pylist()) == {digest}
    assert table["verdict"].to_pylist()[:2] == ["watermarked", "no watermark found"]


def test_the_most_marked_span_in_characters(world: World) -> None:
    """Only of what is called marked, in the text as it was given."""
    marked, *others = documents(world, 4, marked=1)
    mixed = others[0][:19] + marked
    texts = [text_of(mixed), *map(text_of, others)]
    rows = world.job().scanner().scan(batch(texts, TEXT)).table.to_pylist()
    first = rows[0]
    assert first["verdict"] == "watermarked"
    span = mixed[first["span_start"] : first["span_stop"]]
    assert texts[0][first["char_start"] : first["char_stop"]] == text_of(span)
    assert all(row["char_start"] is row["char_stop"] is None for row in rows[1:])
    normalised = world.job(normalise_text=True).scanner().scan(batch(texts, TEXT)).table
    assert normalised["char_start"].null_count == len(texts)


def test_characters_where_decoding_does_not_give_the_text_back() -> None:
    class Lower:
        """Words in small letters, with and without a record of their places."""

        is_fast = True

        def decode(self, ids: list[int]) -> str:
            return "x " * len(ids)

        def encode(self, text: str, **_: object) -> list[int]:
            return [len(word) for word in text.split()]

        def __call__(self, _: str, **__: object) -> dict[str, list[object]]:
            spans: list[object] = [(0, 2), (2, 5), (5, 8)]
            return {"input_ids": [1, 2, 3], "offset_mapping": spans}

    ids = np.array([1, 2, 3])
    assert characters_of(Lower(), "Ab cd ef", ids, 1, 3) == (3, 8)
    slow = Lower()
    slow.is_fast = False
    assert characters_of(slow, "Ab cd ef", ids, 1, 3) is None
    assert characters_of(slow, "x x x x ", ids, 1, 3) == (2, 5)
    assert characters_of(Lower(), "Ab       ", ids, 1, 2) == (2, 5)  # nothing but blanks


def test_a_hash_key_is_told_from_others_and_not_given_away(world: World, tmp_path: Path) -> None:
    compat = dataclasses.replace(world.spec, scheme="hf-lefthash", context_width=1, design=None)
    found = []
    for number in (PUBLIC_HASH_KEY, 123_456_789, 123_456_788):
        path = tmp_path / f"{number}.key"
        save_hash_key(path, number)
        job = world.job(specs=(compat,), keys=(str(path),), alpha=0.01)
        (keys,) = job.scanner().identity["keys"]
        found.append(keys[""])
    assert found[0] == "public"
    assert len(set(found)) == 3
    assert all(len(digest) <= 6 for digest in found)


def test_a_ring_of_keys(world: World) -> None:
    folder = world.folder / "ring"
    folder.mkdir()
    ring = {name: SecretKey(bytes([i]) * 32) for i, name in enumerate("ab")}
    for i, name in enumerate(ring):
        save_key(bytes([i]) * 32, folder / f"{name}.key")
    job = world.job(keys=(None,), key_folder=str(folder))
    texts = documents(world, 5)
    look = Detector(world.spec, ring, tokenizer=world.tokenizer)
    table = job.scanner().scan(batch(texts)).table
    assert_equal_rows(table, look, texts)
    assert set(table["key"].to_pylist()) <= {"a", "b"}
    assert table["z"].null_count == len(texts)  # the better of two is no normal deviate
    for row in table.to_pylist():
        alone = [Detector(world.spec, key, tokenizer=world.tokenizer) for key in ring.values()]
        best = min(look.detect(texts[int(row["id"][1:])]).p_mid for look in alone)
        assert row["p_mid"] == pytest.approx(min(1.0, 2.0 * best))
    assert all(0.0 < size <= 0.01 for size in table["size"].to_pylist())


def test_the_plan_s_own_detector_is_used(world: World) -> None:
    design = plan(n_tokens=30, alpha=0.05, power=0.9, removal=0.2, detector="winmax-c")
    (spec,) = world.job().specs
    windows = WatermarkSpec.from_plan(design, vocab_size=spec.vocab_size)
    table = world.job(specs=(windows,)).scanner().scan(batch([list(range(40))])).table
    assert table["detector"].to_pylist() == ["winmax-c"]


def test_long_documents_have_a_detector_of_their_own(world: World) -> None:
    texts = [list(range(150)), list(range(30)), list(range(100, 250))]
    scanner = world.job(detector="winmax-c", windows_above=100).scanner()
    table = scanner.scan(batch(texts)).table
    assert table["detector"].to_pylist() == ["winmax-c", "count", "winmax-c"]
    (mark,) = scanner.marks
    assert mark.long is not None
    rows = table.to_pylist()
    for row, look, text in zip(rows, (mark.long, mark.detector, mark.long), texts, strict=True):
        assert row["p"] == look.detect(text).p


def test_foreign_ids_and_texts_without_a_tokenizer_are_rejected(world: World) -> None:
    scanner = world.job(model=None).scanner()
    scanned = scanner.scan(batch([[1, 2, 3], [1, 500], [-1], [4, 5, 6]]))
    assert scanned.table["id"].to_pylist() == ["d0", "d3"]
    assert [place for place, *_ in scanned.rejects] == ["d1", "d2"]
    assert "not between 0 and 499" in scanned.rejects[0].reason
    texts = scanner.scan(batch(["a", "b"], TEXT))
    assert texts.table.num_rows == 0
    assert len(texts.rejects) == 2
    empty = scanner.scan(batch([]))
    assert empty.table.schema == SCHEMA


def test_normalised_texts(world: World) -> None:
    scanner = world.job(normalise_text=True).scanner()
    disguised = "w1\u200b w2 w3 \uff574"
    row = scanner.scan(batch([disguised], TEXT)).table.to_pylist()[0]
    look = Detector(world.spec, KEY, tokenizer=world.tokenizer, normalise_text=True)
    assert row["signature"] == look.signature
    assert (row["tokens"], row["green"]) == (4, look.detect(disguised).green)


def test_tokenizers_of_every_kind_give_flat_ids() -> None:
    class Slow:
        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            assert not add_special_tokens
            return [ord(letter) for letter in text]

    ids, offsets = flat_ids(Slow(), ["ab", "", "c"])
    assert ids.tolist() == [ord(letter) for letter in "abc"]
    assert offsets.tolist() == [0, 2, 2, 3]

    class Fast:
        is_fast = True

        def __call__(
            self, texts: list[str], *, add_special_tokens: bool
        ) -> dict[str, list[list[int]]]:
            assert not add_special_tokens
            return {"input_ids": [[len(text)] for text in texts]}

        def encode(self, text: str, **_: object) -> list[int]:
            raise AssertionError(text)

    assert flat_ids(Fast(), ["ab", "c"])[0].tolist() == [2, 1]
    assert flat_ids(Fast(), [])[0].size == 0


def test_jobs_travel_without_keys_and_are_checked(world: World) -> None:
    job = world.job()
    assert pickle.loads(pickle.dumps(job)) == job
    with pytest.raises(InvalidInput, match="one key for all specs or one for each"):
        world.job(keys=("a", "b")).scanner()
    with pytest.raises(InvalidInput, match="`windows_above` needs the `detector` winmax"):
        world.job(windows_above=5).scanner()
    with pytest.raises(InvalidInput, match="at least one mark"):
        Scanner([])
