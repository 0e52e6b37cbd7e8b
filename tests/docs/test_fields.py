"""Tables of fields are complete, and are those of what is really written and answered."""

import json
import re
import string
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fields import fields, meaning, table
from typer.testing import CliRunner
from words import WORDS

from powermark import Detector, SecretKey, WatermarkSpec, evaluate, plan
from powermark.corpus.summary import to_dict
from powermark.generation.endpoint import Endpoint
from powermark.generation.writing import Sampling, write_texts
from powermark.interfaces.cli import app
from powermark.interfaces.server.refusals import problem
from powermark.interfaces.server.writer import _Row
from powermark.measuring import record_profile as profile
from powermark.measuring import record_served_profile as served_profile
from powermark.measuring.audit import audit
from powermark.measuring.estimates import Estimate
from powermark.measuring.verification import Check, Verification
from powermark.models import Completion
from powermark.models.tokenizer import FileTokenizer
from powermark.planning.compare import Compared
from powermark.planning.curve import Curve
from powermark.planning.plan import FIELDS as PLAN
from powermark.signals import profile_file
from powermark.signals.assumptions import measure_assumptions
from powermark.signals.profile import ARRAYS, Profile
from powermark.signals.profile_file import FIELDS as PROFILE
from powermark.signals.round_trip import RoundTrip
from powermark.steering.schedule import Schedule
from powermark.watermark.watermark import Watermark
from tests.interfaces.server import asking, make_ready, write_key, write_tokenizer
from tests.signals.profiles import profile_of

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
KEY = SecretKey(bytes(range(32)))
SPEC = WatermarkSpec(gamma=0.25, delta=2.0, context_width=1, vocab_size=600)
IDS = np.random.default_rng(0).integers(0, 600, 60).tolist()
ABOUT = {
    "format",
    "version",
    "texts",
    "steps",
    "next",
    "digest",
    "survival",
    "typical",
    "source",
    "min_p",
    "repetition_penalty",
    "chat",
    "answered",
    "randomness",
    "reference",
    "sharpened",
}  # beside what every recording says
OF_COVERAGE = ("coverage", "attacked_coverage", "lengths", "power_by_length")
OPTIONAL = ("draws", "bet", "least_tokens", *OF_COVERAGE)


@pytest.mark.parametrize("name", WORDS)
def test_every_field_has_a_meaning_and_no_meaning_is_left_over(name: str) -> None:
    for field in fields(name):
        words = meaning(name, field)
        assert words, field
        assert "\n" not in words
    assert WORDS[name].keys() <= fields(name).keys()


@pytest.mark.parametrize("name", WORDS)
def test_every_table_is_in_the_reference(name: str) -> None:
    pages = [path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")]
    shown = {"Plan": ("points", "steering")}.get(name, ())
    assert any(table(name) in page for page in pages)
    assert not shown or any(table(name, without=shown) in page for page in pages)


def same(name: str, found: dict[str, Any], *, without: tuple[str, ...] = ()) -> None:
    """Compare the fields of a table with what there is; those that are not always there go."""
    assert [field for field in fields(name) if field not in without] == list(found)


def test_designs() -> None:
    best = plan(n_tokens=12, alpha=0.05, power=0.9, steer=True)
    spec = WatermarkSpec.from_plan(best, vocab_size=600)
    assert spec.design is not None
    assert spec.steering is not None
    known = [*fields("Design"), *fields("Plan")]
    always = [name for name in known if name not in OPTIONAL]
    assert list(best.to_dict()) == always
    assert list(spec.design) == [name for name in always if name not in ("points", "steering")]
    same("steering", spec.steering)
    evalue = plan(n_tokens=12, alpha=0.05, power=0.9, detector="evalue").to_dict()
    assert list(evalue) == [name for name in known if name not in ("draws", *OF_COVERAGE)]
    design = evaluate(0.5, 2.0, n_tokens=12, alpha=0.05)
    same("Design", design.to_dict())
    same("Curve", Curve("kl", [design], None, None).to_dict())
    same("Compared", Compared(model="x", promised=None, on_profile=None).to_dict())
    assert {name for name in PLAN if not name.startswith("window_")} <= {*known}


def test_a_schedule_is_packed_as_the_page_says() -> None:
    """A second reader: the bias after t tokens, s of them green, is number t (t + 1) / 2 + s."""
    import base64
    import zlib

    deltas = np.tril(np.random.default_rng(0).integers(0, 51200, (5, 6)) / 1024)
    packed = Schedule(0.5, deltas, np.full(56, 0.5)).to_dict()
    read = np.frombuffer(zlib.decompress(base64.b64decode(packed["deltas"])), "<u2") / 1024
    assert [len(rates) for rates in packed["rates"]] == [56]
    for t in range(packed["n_tokens"]):
        for s in range(t + 1):
            assert read[t * (t + 1) // 2 + s] == deltas[t, s]


def test_detections(tmp_path: Path) -> None:
    detector = Detector(SPEC, KEY, alpha=0.01)
    seen = detector.inspect(IDS)
    found = seen.detection.to_dict()
    same("Detection", {"source": "-", **found})
    same("tokens", {name: value for name, value in seen.to_dict().items() if name not in found})
    same("Piece", seen.pieces[0]._asdict())
    path = tmp_path / "s.json"
    SPEC.save(path)
    write_key(tmp_path / "k.key")
    named = ["--spec", str(path), "--key", str(tmp_path / "k.key"), "--json"]
    streamed = ["detect", *named, "--stream", "--ids", "--alpha", ".01"]
    said = CliRunner().invoke(app, streamed, input=" ".join(map(str, IDS)))
    same("stream", json.loads(said.stdout))
    said = CliRunner().invoke(app, ["greenlist", *named, "--context", "5"])
    same("green list", json.loads(said.stdout))


def test_verifications_and_audits() -> None:
    check = Check(
        name="kl",
        promised=0.1,
        plug_in=0.1,
        profile=None,
        measured=Estimate(np.nan, -np.inf, np.inf, 0),
        by_ids=None,
        holds=None,
        texts_needed=None,
    )
    numbers: dict[str, Any] = dict.fromkeys(("n_tokens", "texts", "marked", "unmarked"), 1)
    numbers |= dict.fromkeys(("alpha", "gamma", "delta"), 0.5)
    found = Verification(checks=(check,), **numbers, read="text", notes=(), signature="").to_dict()
    same("Verification", found)
    same("Check", found["checks"][0])
    same("Estimate", found["checks"][0]["measured"])
    rng = np.random.default_rng(0)
    audited = audit(Watermark(SPEC, KEY), [IDS], rng=rng, lengths=(20,), fresh_keys=1).to_dict()
    same("Audit", audited)
    same("AuditRow", audited["rows"][0])


def test_assumptions() -> None:
    found = measure_assumptions(profile_of(np.ones((3, 8), bool)), 0.5, 2.0).to_dict()
    same("Assumptions", found)
    same("Lags", found["lags"][0])


def test_scans(tmp_path: Path) -> None:
    """One document, a word of which is no token id, and what is written of it."""
    SPEC.save(tmp_path / "s.json")
    write_key(tmp_path / "k.key")
    (tmp_path / "in.jsonl").write_text(json.dumps({"ids": IDS}) + '\n{"ids": null}\n')
    arguments = {"--spec": "s.json", "--key": "k.key", "-o": "out"}
    places = [x for name, file in arguments.items() for x in (name, str(tmp_path / file))]
    more = "--ids --field ids --alpha .9 --fdr .99 --output-format jsonl --json --workers 1"
    said = CliRunner().invoke(app, ["scan", str(tmp_path / "in.jsonl"), *places, *more.split()])
    found = json.loads(said.stdout)
    same("summary", found)
    same("summary", to_dict([], []), without=("this_run",))
    assert list(found["this_run"]) == ["documents", "tokens", "seconds"]
    same("MarkSummary", found["marks"][0])
    (part,) = (tmp_path / "out").glob("part-*")
    same("row", json.loads(part.read_text()), without=("holm", "copy_of"))
    (rejects,) = (tmp_path / "out").glob("rejects-*")
    same("Reject", json.loads(rejects.read_text()))


def test_servers_and_texts(tmp_path: Path) -> None:
    ready = make_ready(tmp_path)
    with asking(ready.library) as server:
        loaded = server.http.get("/v1/specs").json()
        same("loaded", loaded)
        same("error", server.post("/v1/power", {})[1]["error"], without=("hint",))
        same(
            "Batch", server.post("/v1/detect/batch", {"spec": "demo", "texts": [{"text": "w"}]})[1]
        )
    assert list(loaded["specs"][0]) == ["name", "detects", "spec", "verification"]
    same("error", problem("x", "y", "z")["error"])
    model: Any = SimpleNamespace(tokenizer=ready.tokenizer, end_ids=(), chats=False)
    same("step", _Row(model, ready.library.mark("demo").watermark).step(IDS))
    written = Completion(text="w1", prompt_ids=[1], token_ids=[2], finished=True)
    model.complete = lambda *_, **__: [written]
    (records,) = write_texts(model, ["w1"], Sampling(n_tokens=1), seed=0, batch=1)
    same("record", records[0], without=("kl", "green_rate", "certainty", "thinking"))


def test_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (profile, served_profile):
        monkeypatch.setattr(module, "gather", lambda *_, about, **__: about)
    monkeypatch.setattr(profile, "_reference", lambda *_: None)
    names = ("name", "digest", "tokenizer", "tokenizer_digest", "vocab_size")
    here: Any = profile.record_profile(
        SimpleNamespace(**dict.fromkeys(names)),  # type: ignore[arg-type]
        ["w1"],
        Sampling(n_tokens=1),
    )
    tokenizer = FileTokenizer(write_tokenizer(tmp_path / "words") / "tokenizer.json")
    asked = Endpoint("http://127.0.0.1/v1", "m")
    there: Any = served_profile.profile_endpoint(
        asked, ["w1"], Sampling(n_tokens=1), tokenizer, model="m"
    )
    assert fields("about").keys() == here.keys() | there.keys() | ABOUT
    assert PROFILE.keys() <= fields("about").keys()
    copies = [f"copies_{name}" for name in profile_file.COPIES]
    assert list(fields("profile")) == [*ARRAYS, *copies]


def test_a_profile_on_disk_is_what_the_page_says(tmp_path: Path) -> None:
    """A second reader: arrays of these names, kinds and shapes, and a digest over them."""
    from hashlib import blake2b

    kinds = fields("profile")
    zeros: dict[str, Any] = {name: np.zeros(4, kind.split()[0]) for name, kind in kinds.items()} | {
        "head": np.ones((4, 3), np.float32) / 3
    }
    copies = RoundTrip(**{name: zeros.pop(f"copies_{name}") for name in profile_file.COPIES})
    found = Profile(**zeros, about={"model": "é"}, round_trip=copies)
    found.about["digest"] = profile_file.profile_digest(found)
    profile_file.save_profile(found, tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz", allow_pickle=False) as arrays:
        about = json.loads(str(arrays["about"]))
        assert {about.pop("format"), about.pop("version")} == {"powermark-profile", 2}
        digest = about.pop("digest")
        content = json.dumps(about, sort_keys=True).encode()
        content += b"".join(arrays[name].tobytes() for name in kinds)
        assert blake2b(content, digest_size=16, person=b"pm-profile").hexdigest() == digest
        for name, kind in kinds.items():
            assert kind.startswith(f"{arrays[name].dtype} (")
    assert set(digest) <= set(string.hexdigits)
    assert re.fullmatch("[0-9a-f]{32}", digest)
