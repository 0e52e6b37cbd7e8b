"""Which mark a request gets, and every way of not getting one."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest

from powermark import plan
from powermark.engines.serving import Marks, ServedMark, sampling_of
from powermark.errors import FileProblem, InvalidInput, SpecMismatch
from powermark.watermark.keys import SecretKey, save_hash_key
from powermark.watermark.spec import WatermarkSpec
from tests.engines.letters import Letters
from tests.engines.served import SECRETS, TOKENIZER, VOCAB, WIDTH, save_key, serve, spec
from tests.signals.profiles import sample


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Marks:
    serve(monkeypatch, tmp_path, {"a": spec(1), "b": spec(2)}, default="a", opt_out="yes")
    found = Marks.from_environment()
    assert found is not None
    return found


def test_a_request_chooses(two: Marks) -> None:
    for asked, name in (({"powermark": "b"}, "b"), ({}, "a"), (None, "a"), ({"other": 1}, "a")):
        mark = two.choose(asked)
        assert mark is not None
        assert mark.name == name
    assert two.choose({"powermark": "off"}) is None


@pytest.mark.parametrize("asked", ["c", "", 3, ["a"], None])
def test_unknown_marks_are_named(two: Marks, asked: object) -> None:
    with pytest.raises(InvalidInput, match=r"no mark named .* this server has: a, b, off"):
        two.choose({"powermark": asked})


def test_misspelt_fields_are_no_opt_out(two: Marks) -> None:
    with pytest.raises(InvalidInput, match="no field 'powermark_spec'"):
        two.choose({"powermark_spec": "b"})


def test_opting_out_where_it_is_forbidden(two: Marks) -> None:
    with pytest.raises(InvalidInput, match="a request cannot opt out"):
        dataclasses.replace(two, opt_out=False).choose({"powermark": "off"})
    on_request = dataclasses.replace(two, default="off", opt_out=False)
    assert on_request.choose(None) is None
    assert on_request.choose({"powermark": "off"}) is None


def test_a_server_that_was_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPECS", "KEYS", "DEFAULT", "OPT_OUT", "CONFIG"):
        monkeypatch.delenv(f"POWERMARK_{name}", raising=False)
    assert Marks.from_environment() is None
    assert Marks.none().choose(None) is None
    with pytest.raises(InvalidInput, match="no mark named 'a' here; this server has: none"):
        Marks.none().choose({"powermark": "a"})
    monkeypatch.setenv("POWERMARK_OPT_OUT", "yes")
    with pytest.raises(InvalidInput, match="the server's specs are not named, only opt_out"):
        Marks.from_environment()


def test_a_config_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec(1).save(tmp_path / "a.json")
    save_key(tmp_path / "k.key", SECRETS["old"])
    config = tmp_path / "marks.toml"
    monkeypatch.setenv("POWERMARK_CONFIG", str(config))
    with pytest.raises(FileProblem, match="cannot read"):
        Marks.from_environment()
    config.write_text("specs = ")
    with pytest.raises(FileProblem, match="is not TOML"):
        Marks.from_environment()
    config.write_text("spec = 'a.json'")
    with pytest.raises(FileProblem, match="unknown settings: spec"):
        Marks.from_environment()
    for wrong in ("specs = 3", "opt_out = []", "default = true"):
        config.write_text(wrong)
        with pytest.raises(FileProblem, match=f"{wrong.split()[0]} in .* must be text"):
            Marks.from_environment()
    config.write_text("specs = 'a.json'\nkeys = 'k.key'\nopt_out = true")  # beside the file
    found = Marks.from_environment()
    assert found is not None
    assert (list(found.by_name), found.default, found.opt_out) == (["a"], "a", True)
    monkeypatch.setenv("POWERMARK_OPT_OUT", "maybe")  # the environment has the last word
    with pytest.raises(InvalidInput, match="opt_out must be yes or no; got 'maybe'"):
        Marks.from_environment()


def test_defaults_must_be_clear(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"no file named \*.json"):
        Marks.load(tmp_path)
    key = save_key(tmp_path / "k.key", SECRETS["old"])
    for name in ("a", "b"):
        spec(1).save(tmp_path / f"{name}.json")
    with pytest.raises(InvalidInput, match="there are 2 specs: say which is the default"):
        Marks.load(tmp_path, key)
    with pytest.raises(InvalidInput, match="must be off or a spec's name; got 'c'"):
        Marks.load(tmp_path, key, default="c")
    (tmp_path / "b.json").rename(tmp_path / "off.json")
    with pytest.raises(InvalidInput, match="a spec cannot be named 'off'"):
        Marks.load(tmp_path, key, default="a")


def test_keys_are_found_by_fingerprint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rotation: old and new specs and keys side by side."""
    for name, secret in SECRETS.items():
        save_key(tmp_path / f"{name}.key", secret)
        tied = spec(1, key_fingerprint=SecretKey(secret).fingerprint)
        tied.save(tmp_path / f"{name}.json")
    marks = Marks.load(tmp_path, tmp_path, default="new")
    contexts = [[5], [6]]
    lists = [mark.scheme.green_masks(contexts) for mark in marks.by_name.values()]
    assert (lists[0] != lists[1]).any()
    (tmp_path / "old.key").unlink()
    with pytest.raises(SpecMismatch, match=r"the spec 'old' is for .*, not for: new"):
        Marks.load(tmp_path, tmp_path, default="new")
    save_key(tmp_path / "old.key", SECRETS["old"])
    spec(1).save(tmp_path / "any.json")
    with pytest.raises(SpecMismatch, match=r"'any' names no key, and there are: new .*, old "):
        Marks.load(tmp_path, tmp_path, default="new")
    monkeypatch.delenv("POWERMARK_KEY", raising=False)
    with pytest.raises(FileProblem, match="no key"):
        Marks.load(tmp_path / "any.json")


def test_another_tools_mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    theirs = WatermarkSpec(
        scheme="hf-lefthash", gamma=0.25, delta=2.0, context_width=1, vocab_size=WIDTH
    )
    theirs.save(tmp_path / "hf.json")
    save_hash_key(tmp_path / "hash.key", 77)
    monkeypatch.setenv("POWERMARK_KEY", (tmp_path / "hash.key").read_text())
    marks = Marks.load(tmp_path / "hf.json", None)
    marks.fitted(TOKENIZER, WIDTH)
    with pytest.raises(SpecMismatch, match="vocabulary of 416; the model has 417"):
        marks.fitted(TOKENIZER, WIDTH + 1)


def test_models_that_do_not_fit(two: Marks) -> None:
    fitted = two.fitted(TOKENIZER, WIDTH)
    assert fitted.by_name["a"].special_ids == {399}
    assert two.fitted(TOKENIZER).default == "a"
    with pytest.raises(SpecMismatch, match="the spec 'a' is for a vocabulary of 400"):
        two.fitted(TOKENIZER, VOCAB - 1)
    with pytest.raises(SpecMismatch, match="the tokenizer has 399 ids"):
        two.fitted(Letters(VOCAB - 1))


def test_the_bias_follows_the_temperature(two: Marks) -> None:
    mark = two.by_name["a"]
    assert [mark.scale(t) for t in (0.5, 1.0, 0.0, None)] == [0.5, 1.0, 1.0, 1.0]


def test_other_sampling_than_the_plans_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """As vLLM, SGLang and llama.cpp ask; settings that the plan's profile does not have are no
    difference."""
    _, profile = sample()
    about = {**profile.about, "temperature": 0.7, "top_p": 0.95}
    signal = dataclasses.replace(profile, about=about)
    planned = plan(n_tokens=20, alpha=0.1, power=0.6, signal=signal)
    chat = WatermarkSpec.from_plan(planned, vocab_size=VOCAB)
    mark = ServedMark(chat, SecretKey(SECRETS["old"]), name="chat")
    for _ in range(2):
        asked = SimpleNamespace(temperature=0.7, top_p=0.95, top_k=-1)
        mark.check_sampling(sampling_of(asked))
        assert caplog.records == []
    for _ in range(2):
        asked = SimpleNamespace(temperature=1.0, top_p=0.95, min_p=0.05, top_k=1 << 30)
        mark.check_sampling(sampling_of(asked))
    assert [record.message.split(";")[0] for record in caplog.records] == [
        "the spec 'chat' is planned for temperature 0.7",
        "the spec 'chat' is planned for min_p 0",
    ]
    ServedMark(spec(1), SecretKey(SECRETS["old"])).check_sampling({"temperature": 2.0})
    assert len(caplog.records) == 2
