"""What a server reads from its folder."""

from pathlib import Path

import pytest

from powermark.errors import FileProblem
from powermark.interfaces.server.library import load_library
from powermark.signals.profile_file import save_profile
from tests.conftest import Run
from tests.interfaces.server import WORDS, Ready, asking, copied
from tests.signals.profiles import sample


def test_folders_are_read_by_name(ready: Ready, tmp_path: Path) -> None:
    shelf = copied(ready, tmp_path)
    (shelf / "demo.key").rename(shelf / "other.key")  # known by its fingerprint
    (shelf / "other.key").chmod(0o600)
    (shelf / "list.json").write_text("[1]")
    (shelf / "plan.json").write_text('{"gamma": 0.5}')
    (shelf / "demo.verify.json").write_text('{"checks": []}')
    save_profile(sample()[1], shelf / "p.npz")
    library = load_library(shelf, [])
    assert list(library.marks) == ["demo"]
    assert list(library.examples) == ["marked"]
    mark = library.mark("demo")
    assert (mark.to_dict()["detects"], mark.verification) == ("token ids", {"checks": []})
    with asking(library) as asked:
        status, said = asked.post("/v1/detect", {"spec": "demo", "text": "w1"})
        assert (status, said["error"]["message"]) == (
            422,
            "text needs a tokenizer; give one, or token ids.",
        )
        body = {"spec": "demo", "token_ids": ready.marked, "tokens": True}
        assert asked.post("/v1/detect", body)[1]["pieces"][5]["text"] == f"{ready.marked[5]} "
        body = {"n_tokens": 50, "alpha": 0.05, "power": 0.5, "profile": "p"}
        status, found = asked.post("/v1/plan", body)
        assert status == 200
        assert found["signal"].startswith("profile(")
        status, said = asked.post("/v1/plan", body | {"profile": "../p"})
        assert (status, said["error"]["hint"]) == (404, "loaded: p.")
    (shelf / "other.key").unlink()
    with asking(load_library(shelf, [])) as asked:
        assert asked.http.get("/v1/specs").json()["specs"][0]["detects"] == "nothing"
        status, said = asked.post("/v1/detect", {"spec": "demo", "token_ids": [1]})
        assert (status, said["error"]["code"]) == (422, "no-key")
    (shelf / "demo.verify.json").write_text("[]")
    with pytest.raises(FileProblem, match="is not a result of `powermark verify --result`"):
        load_library(shelf, [])
    (shelf / "plan.json").write_text("{")
    with pytest.raises(FileProblem, match="as JSON"):
        load_library(shelf, [])
    with pytest.raises(FileProblem, match=r"the folder .* does not exist"):
        load_library(tmp_path / "nowhere", [])
    with asking(load_library(None, [])) as empty:
        status, said = empty.post("/v1/detect", {"spec": "demo", "text": "w1"})
        assert (status, said["error"]["hint"]) == (404, "no spec is loaded.")


def test_another_tools_spec_needs_no_key_file(run: Run, ready: Ready, tmp_path: Path) -> None:
    run("spec", "new", str(tmp_path / "hf.json"), "--gamma", ".5", "--delta", "2",
        "--scheme", "hf-lefthash", "--vocab-size", str(WORDS))  # fmt: skip
    with asking(load_library(tmp_path, [ready.tokenizer])) as asked:
        status, _ = asked.post("/v1/detect", {"spec": "hf", "text": "w1 w2", "alpha": 0.05})
        assert status == 200
        status, said = asked.post("/v1/detect", {"spec": "hf", "text": "w1 w2"})
        assert (status, said["error"]["message"]) == (
            422,
            "the spec has no plan, so alpha must be given.",
        )
