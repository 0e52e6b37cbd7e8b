import dataclasses
from pathlib import Path

import pytest

from powermark import SpecMismatch, Watermark, WatermarkSpec, new_key, plan
from powermark.detection.detector import Detector
from powermark.watermark.keys import HashKey, SecretKey, save_hash_key
from tests.interfaces.server import make_ready, text_of

KEY = SecretKey(bytes(range(32)))


def steered() -> WatermarkSpec:
    design = plan(n_tokens=60, alpha=0.05, power=0.9, gamma=0.5, steer=True)
    return WatermarkSpec.from_plan(design, vocab_size=500)


def test_files_of_spec_and_key_make_a_watermark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key(tmp_path / "k.key")
    spec = dataclasses.replace(steered(), key_fingerprint=key.fingerprint)
    spec.save(tmp_path / "s.json")
    mark = Watermark.load(str(tmp_path / "s.json"), tmp_path / "k.key")
    assert (mark.spec.digest, mark.key, mark.fingerprint) == (spec.digest, key, key.fingerprint)
    assert not mark.has_private_hash_key
    assert key._secret.hex() not in repr(mark)
    assert str(key._secret) not in repr(mark)
    new_key(tmp_path / "other.key")
    with pytest.raises(SpecMismatch, match=f"for the key {key.fingerprint}"):
        Watermark.load(spec, tmp_path / "other.key")
    monkeypatch.setenv("POWERMARK_KEY", (tmp_path / "k.key").read_text())
    assert Watermark.load(spec).key == key


def test_scheme_and_schedule_are_made_once() -> None:
    mark = Watermark(steered(), KEY)
    assert mark.scheme is mark.scheme
    assert mark.schedule is not None
    assert mark.schedule is mark.schedule is mark.spec.schedule
    constant = WatermarkSpec(gamma=0.5, delta=2.0, context_width=1, vocab_size=500)
    assert Watermark(constant, KEY).schedule is None


def test_hash_keys_of_other_tools(tmp_path: Path) -> None:
    spec = WatermarkSpec(
        scheme="hf-lefthash", gamma=0.5, delta=2.0, context_width=1, vocab_size=500
    )
    public = Watermark.load(spec)
    assert (public.key, public.fingerprint) == (HashKey(), None)
    assert not public.has_private_hash_key
    save_hash_key(tmp_path / "hf.key", 123)
    own = Watermark.load(spec, tmp_path / "hf.key")
    assert own.has_private_hash_key
    assert own.scheme.name == "hf-lefthash"


def test_detection_is_the_detectors(tmp_path: Path) -> None:
    ready = make_ready(tmp_path)
    mark = Watermark.load(ready.folder / "demo.json", ready.folder / "demo.key")
    detector = Detector(mark.spec, mark.key, tokenizer=ready.tokenizer, looks=2)
    text = text_of(ready.marked)
    found = mark.detect(text, tokenizer=ready.tokenizer, looks=2)
    assert found == detector.detect(text)
    assert found.verdict == "watermarked"
    by_ids = mark.detect(ready.marked, prompt=[3])
    assert by_ids == mark.detector().detect(ready.marked, prompt=[3])
    assert by_ids.scored > mark.detect(ready.marked).scored
