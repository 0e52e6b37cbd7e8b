import base64
import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark import evaluate, plan
from powermark.errors import FileProblem, InvalidInput, SpecCorrupt, SpecMismatch, SpecTooNew
from powermark.watermark.compat import Compat
from powermark.watermark.keys import HashKey, SecretKey, new_key
from powermark.watermark.scheme import Pm1
from powermark.watermark.spec import PROBE, WatermarkSpec, tokenizer_digest
from powermark.watermark.watermark import Watermark
from tests.signals.profiles import sample

KEY = SecretKey(bytes(range(32)))
SPEC = WatermarkSpec(gamma=0.25, delta=2.0, context_width=1, vocab_size=50_257)


def test_a_spec_comes_back_from_its_file(tmp_path: Path) -> None:
    found = plan(n_tokens=50, alpha=0.05, power=0.95, edit_rate=0.1, context_width=2)
    spec = WatermarkSpec.from_plan(
        found, vocab_size=1000, tokenizer_digest="ab", key_fingerprint=KEY.fingerprint
    )
    path = tmp_path / "s.json"
    spec.save(path)
    again = WatermarkSpec.load(path)
    assert again.to_dict() == json.loads(json.dumps(spec.to_dict()))
    assert again.digest == spec.digest
    assert (again.gamma, again.delta) == (found.gamma, found.delta)
    assert again.context_width == 2
    assert again.plan == found
    again.save(path)
    assert WatermarkSpec.load(path).digest == spec.digest


def test_a_plan_made_with_a_profile_knows_the_vocabulary() -> None:
    _, profile = sample()
    asked: dict[str, Any] = {"n_tokens": 30, "alpha": 0.05, "power": 0.6, "gamma": 0.5}
    spec = WatermarkSpec.from_plan(plan(**asked, signal=profile))
    assert (spec.vocab_size, spec.tokenizer_digest) == (1_500, "ab")
    assert WatermarkSpec.from_plan(plan(**asked, signal=profile), vocab_size=9).vocab_size == 9
    with pytest.raises(InvalidInput, match="needs to know the vocabulary"):
        WatermarkSpec.from_plan(plan(**asked))


def test_the_format_is_frozen() -> None:
    """A spec written today must be read for ever; this digest may never change."""
    assert SPEC.digest == "2a1ff2622a37c0fb80dddbd6115b0a27"
    assert list(SPEC.to_dict()) == [
        "format", "version", "scheme", "gamma", "delta", "context_width", "vocab_size",
        "tokenizer_digest", "delta_place", "key_fingerprint", "design", "digest",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"version": 4}, SpecTooNew, "has version 4; this powermark reads up to version 3"),
        ({"version": 2}, SpecCorrupt, "misses fields: steering"),
        ({"steering": {}}, SpecCorrupt, "has unknown fields: steering"),
        ({"version": "1"}, SpecCorrupt, "no valid version; got '1'"),
        ({"version": 0}, SpecCorrupt, "no valid version"),
        ({"format": "other"}, SpecCorrupt, "is not a watermark spec"),
        ({"gamma": 0.5}, SpecCorrupt, "changed after it was written"),
        ({"gamma": 1.5}, SpecCorrupt, r"gamma must be in \(0, 1\); got 1.5"),
        ({"gamma": "x"}, SpecCorrupt, "gamma in .* must be float; got str"),
        ({"vocab_size": True}, SpecCorrupt, "vocab_size in .* must be int; got bool"),
        ({"vocab_size": 10**400}, SpecCorrupt, "vocab_size must be a number"),
        ({"vocab_size": 2**25}, SpecCorrupt, "vocab_size must be in"),
        ({"scheme": "pm9"}, SpecCorrupt, "scheme must be one of pm1, kgw-lefthash"),
        ({"delta_place": "nowhere"}, SpecCorrupt, "delta_place must be one of"),
        ({"context_width": 65}, SpecCorrupt, r"context_width must be in \[0, 64\]"),
        ({"colour": "red"}, SpecCorrupt, "has unknown fields: colour"),
        ({"digest": "0"}, SpecCorrupt, "changed after it was written"),
    ],
)
def test_what_is_wrong_with_a_spec_is_named(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SPEC.to_dict() | change))
    with pytest.raises(error, match=message):
        WatermarkSpec.load(path)


@pytest.mark.parametrize("odd", ["NaN", '{"x":' * 700 + "1" + "}" * 700])
def test_designs_that_are_no_plan(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "s.json"
    planned = json.dumps(plan(n_tokens=9, alpha=0.1, power=0.9).to_dict())
    design = f'{planned[:-1]}, "x": {odd}}}'
    text = json.dumps(SPEC.to_dict()).replace('"design": null', f'"design": {design}')
    path.write_text(text)
    with pytest.raises(SpecCorrupt, match=r"no plan|not JSON"):
        WatermarkSpec.load(path)


def test_widths_of_other_tools_are_checked() -> None:
    with pytest.raises(InvalidInput, match="context_width of hf-lefthash must be 1; got 4"):
        dataclasses.replace(SPEC, scheme="hf-lefthash", context_width=4)


def test_files_that_hold_no_spec(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    with pytest.raises(FileProblem, match="cannot read the spec"):
        WatermarkSpec.load(path)
    for content in (b'{"format": "powermark-', b"\xff", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(SpecCorrupt, match="is not JSON"):
            WatermarkSpec.load(path)
    path.write_text("[]")
    with pytest.raises(SpecCorrupt, match="is not a watermark spec"):
        WatermarkSpec.load(path)
    found = SPEC.to_dict()
    del found["gamma"], found["design"]
    with pytest.raises(SpecCorrupt, match="misses fields: design, gamma"):
        WatermarkSpec.from_dict(found)


def test_a_full_disk_leaves_the_old_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.json"
    SPEC.save(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FileProblem, match="No space left on device"):
        dataclasses.replace(SPEC, gamma=0.5).save(path)
    assert WatermarkSpec.load(path) == SPEC
    assert len(list(tmp_path.iterdir())) == 1


def test_every_field_counts_in_the_digest() -> None:
    others = [
        {"scheme": "kgw-lefthash", "context_width": 1}, {"gamma": 0.26}, {"delta": 2.5},
        {"context_width": 2},
        {"vocab_size": 50_258}, {"tokenizer_digest": "x"}, {"delta_place": "before_temperature"},
        {"key_fingerprint": "y"},
        {"design": evaluate(0.25, 2.0, n_tokens=9, alpha=0.1).to_dict()},
    ]  # fmt: skip
    digests = {dataclasses.replace(SPEC, **change).digest for change in others}  # type: ignore[arg-type]
    assert len(digests | {SPEC.digest}) == 10


def test_keys_must_fit(tmp_path: Path) -> None:
    tied = dataclasses.replace(SPEC, key_fingerprint=KEY.fingerprint)
    tied.check_key(KEY)
    with pytest.raises(SpecMismatch, match=f"for the key {KEY.fingerprint}; got the key"):
        tied.check_key(SecretKey(bytes(32)))
    with pytest.raises(SpecMismatch, match="pm1 needs a SecretKey; got a HashKey"):
        Watermark(SPEC, HashKey())
    path = tmp_path / "k.key"
    key = new_key(path)
    assert Watermark.load(SPEC, path).key == key
    legacy = dataclasses.replace(SPEC, scheme="hf-lefthash")
    assert Watermark.load(legacy).key == HashKey()
    assert isinstance(Watermark(SPEC, key).scheme, Pm1)
    assert isinstance(Watermark(legacy, HashKey()).scheme, Compat)


def test_tokenizers_must_fit() -> None:
    SPEC.check_tokenizer("anything", 50_257)
    tied = dataclasses.replace(SPEC, tokenizer_digest="aa")
    tied.check_tokenizer("aa", 50_257)
    with pytest.raises(SpecMismatch, match="for the tokenizer aa; this one is bb"):
        tied.check_tokenizer("bb", 50_257)
    for size in (50_256, 50_258):
        with pytest.raises(SpecMismatch, match=f"vocabulary of 50257; the tokenizer has {size}"):
            SPEC.check_tokenizer("aa", size)
    legacy = dataclasses.replace(SPEC, scheme="hf-lefthash")  # lists as wide as the logits
    legacy.check_tokenizer("aa", 50_000)
    with pytest.raises(SpecMismatch, match="has 50258 ids"):
        legacy.check_tokenizer("aa", 50_258)


def test_tokenizers_with_one_vocabulary_but_other_merges_differ() -> None:
    vocabulary = {"a": 0, "b": 1, "ab": 2}

    def digest(vocabulary: dict[str, int], ids: list[int]) -> str:
        def encode(text: str) -> list[int]:
            assert text == PROBE
            return ids

        return tokenizer_digest(vocabulary, encode)

    base = digest(vocabulary, [0, 1])
    assert base == digest(dict(reversed(vocabulary.items())), [0, 1])  # order does not matter
    assert base != digest(vocabulary, [2])
    assert base != digest({"a": 1, "b": 0, "ab": 2}, [0, 1])
    assert base != digest({"a": 0, "b": 1}, [0, 1])


def test_delta_is_converted_between_places() -> None:
    before = dataclasses.replace(SPEC, delta_place="before_temperature")
    mark = Watermark(SPEC, KEY)
    assert mark.delta_scale("after_temperature", None) == 1.0
    assert mark.delta_scale("before_temperature", 0.5) == 0.5
    assert Watermark(before, KEY).delta_scale("after_temperature", 0.5) == 2.0
    with pytest.raises(InvalidInput, match="added before temperature here: the temperature must"):
        mark.delta_scale("before_temperature", None)
    with pytest.raises(InvalidInput, match="temperature must be in"):
        mark.delta_scale("before_temperature", 0.0)


def test_a_reader_that_knows_no_schedules_refuses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of version 1 is this one with its own constant; constant specs it still reads."""
    found = plan(n_tokens=12, alpha=0.1, power=0.9, gamma=0.5, steer=True)
    steered, constant = tmp_path / "steered.json", tmp_path / "constant.json"
    WatermarkSpec.from_plan(found, vocab_size=1000).save(steered)
    SPEC.save(constant)
    monkeypatch.setattr("powermark.watermark.spec.VERSION", 1)
    with pytest.raises(
        SpecTooNew, match="version 3; this powermark reads up to version 1"
    ) as caught:
        WatermarkSpec.load(steered)
    assert caught.value.hint == "install a newer powermark."
    assert WatermarkSpec.load(constant) == SPEC


def test_schedules_travel_with_the_spec(tmp_path: Path) -> None:
    """In a few kB, as version 3, which older readers refuse in words; version 1 stays as it was."""
    found = plan(n_tokens=200, alpha=0.001, power=0.95, gamma=0.5, steer=True)
    spec = WatermarkSpec.from_plan(found, vocab_size=1000)
    assert spec.delta == found.delta
    assert spec.design is not None
    assert "steering" not in spec.design
    path = tmp_path / "s.json"
    spec.save(path)
    assert path.stat().st_size < 40_000
    written = json.loads(path.read_text())
    assert written["version"] == 3
    again = WatermarkSpec.load(path)
    assert again.digest == spec.digest
    assert again.plan == found
    assert again.schedule is not None
    assert spec.schedule is not None
    np.testing.assert_array_equal(again.schedule.deltas, spec.schedule.deltas)
    for wrong in (
        {"n_tokens": 200},
        {**written["steering"], "deltas": "!"},
        {**written["steering"], "n_tokens": 201},
        {**written["steering"], "n_tokens": 10**9},
        {**written["steering"], "rates": "x"},
        {**written["steering"], "rates": [10**400] * 56},
        {**written["steering"], "more": 1},
        {**written["steering"], "deltas": base64.b64encode(zlib.compress(b"ab")).decode()},
    ):
        path.write_text(json.dumps({**written, "steering": wrong}))
        with pytest.raises(SpecCorrupt, match="steering must be a schedule of biases"):
            WatermarkSpec.load(path)
    path.write_text(json.dumps({**written, "steering": {**written["steering"], "rates": [[0.5]]}}))
    with pytest.raises(SpecCorrupt, match=r"has 56 rates and a share lost .* got \(1, 1\)"):
        WatermarkSpec.load(path)
    path.write_text(json.dumps({**written, "steering": None}))
    with pytest.raises(SpecCorrupt, match=r"steering in .* must be dict; got NoneType"):
        WatermarkSpec.load(path)


def test_a_file_that_is_too_large_is_no_spec(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(b" " * (2**24 + 1))
    with pytest.raises(FileProblem, match="has more than 16777216 bytes"):
        WatermarkSpec.load(tmp_path / "s.json")
