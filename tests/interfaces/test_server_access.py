"""Who may ask a server, and how much is told: tokens, scopes, proxies."""

from dataclasses import replace
from pathlib import Path

import pytest

from powermark import plan
from powermark.errors import FileProblem
from powermark.interfaces.server.access import Client, Tokens
from powermark.watermark.keys import load_key, new_key
from powermark.watermark.spec import WatermarkSpec
from powermark.watermark.watermark import Watermark
from tests.conftest import Run
from tests.interfaces.server import Asked, Ready, asking, lines_of, text_of


def test_scopes(ready: Ready, tokens: tuple[Tokens, dict[str, str]]) -> None:
    known, secret = tokens
    body = {"spec": "demo", "text": text_of(ready.marked)}
    with asking(ready.library, tokens=known) as asked:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {secret['detect']}"},
        ):
            answer = asked.http.post("/v1/detect", json=body, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "token")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert asked.http.get("/metrics").status_code == 401
        assert asked.http.get("/healthz", headers={"host": "marks.example"}).status_code == 200
        few, all_ = (
            {"Authorization": f"Bearer {secret[scope]}"} for scope in ("detect", "inspect")
        )
        status, found = asked.post("/v1/detect", body, **few)
        assert status == 200
        assert set(found) == {
            "source", "verdict", "p", "alpha", "detector", "tokens", "power", "tokens_needed",
            "signature",
        }  # fmt: skip
        exact = asked.post("/v1/detect", body, **all_)[1]
        assert exact["p"] <= found["p"] <= 10 * exact["p"]
        assert f"{found['p']:.0e}".startswith("1e-")
        for more in ({"tokens": True}, {"alpha": 0.5}, {"detector": "evalue"}, {"looks": 2}):
            assert asked.post("/v1/detect", body | more, **few)[0] == 403
        ids = {"token_ids": ready.marked}
        status, said = asked.post("/v1/detect", {"spec": "demo", **ids}, **few)
        assert (status, said["error"]["code"]) == (403, "scope")
        assert (
            "token ids, another detector or alpha and several looks need"
            in said["error"]["message"]
        )
        many = {"spec": "demo", "texts": [{"text": "w1"}, ids]}
        assert asked.post("/v1/detect/batch", many, **few)[0] == 403
        assert asked.post("/v1/detect/batch", many, **all_)[0] == 200
        assert asked.post("/v1/report", body, **few)[0] == 403
        _, batch = asked.post(
            "/v1/detect/batch", {"spec": "demo", "texts": [{"text": "w1"}]}, **few
        )
        assert "green" not in batch["results"][0]
        assert asked.http.get("/v1/specs", headers=few).json()["scope"] == "detect"
        assert {line.get("client") for line in lines_of(asked.logged)} == {
            None,
            "detect",
            "inspect",
        }


@pytest.mark.parametrize(
    "header", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"]
)
def test_strangers_behind_a_proxy_are_not_local(
    ready: Ready, tokens: tuple[Tokens, dict[str, str]], local: Asked, header: str
) -> None:
    """A proxy on this machine reaches loopback too, for whoever asks it."""
    body, through = {"spec": "demo", "text": "w1", "tokens": True}, {header: "for=192.0.2.1"}
    for answer in (
        local.http.post("/v1/detect", json=body, headers=through),
        local.http.get("/v1/specs", headers=through),
        local.http.get("/metrics", headers=through),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forwarded")
    assert local.http.get("/healthz", headers=through).status_code == 200
    known, secret = tokens
    with asking(ready.library, tokens=known) as asked:
        named = {"Authorization": f"Bearer {secret['inspect']}"}
        assert asked.post("/v1/detect", body, **through, **named)[0] == 200


def test_tokens_are_kept_in_files(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "tokens.txt"
    code, token, _ = run("token", str(path), "alice", "--scope", "inspect")
    assert code == 0
    known = Tokens.load(path)
    assert known.client(token.strip()) == Client("alice", "inspect")
    assert known.client(token.strip() + "x") is None
    assert known.client("\ud800") is None
    assert "a token needs a name" in run("token", str(path), "a b")[2]
    assert "a name of ASCII letters" in run("token", str(path), "Ána")[2]
    assert "a token needs a name" in run("token", str(path), "bob", "--scope", "all")[2]
    assert "cannot write" in run("token", str(tmp_path), "bob")[2]
    key = new_key(tmp_path / "k.key")
    assert "k.key' holds a key." in run("token", str(tmp_path / "k.key"), "bob")[2]
    assert load_key(tmp_path / "k.key") == key
    for content in (
        "",
        "alice inspect",
        "alice inspect 00",
        f"alice all {'0' * 64}",
        "a detect zz",
    ):
        path.write_text(content)
        with pytest.raises(FileProblem, match="token"):
            Tokens.load(path)
    with pytest.raises(FileProblem, match="cannot read the tokens"):
        Tokens.load(tmp_path / "none")


def test_tokens_are_added_to_token_files_alone(run: Run, tmp_path: Path) -> None:
    """A line of a token at the end of a spec would make it unreadable."""
    for name, content in (
        ("spec.json", b'{"gamma": 0.5}\n'),
        ("text", b"one two\n"),
        ("b", b"\xff"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        code, out, err = run("token", str(path), "bob")
        assert (code, out) == (2, "")
        assert f"{name}' is not a file of tokens." in err
        assert path.read_bytes() == content
    path = tmp_path / "tokens"
    path.write_bytes(b"")
    assert run("token", str(path), "alice")[0] == 0
    path.write_text(path.read_text().rstrip("\n"))  # as an editor may leave it
    assert run("token", str(path), "bob")[0] == 0
    assert len(Tokens.load(path)._entries) == 2


def test_the_plan_s_own_detector_needs_no_scope(
    ready: Ready, tokens: tuple[Tokens, dict[str, str]]
) -> None:
    known, secret = tokens
    few = {"Authorization": f"Bearer {secret['detect']}"}
    mark = ready.library.mark("demo")
    design = plan(n_tokens=30, alpha=0.05, power=0.9, removal=0.2, detector="winmax-c")
    spec = replace(
        WatermarkSpec.from_plan(design, vocab_size=mark.spec.vocab_size),
        tokenizer_digest=mark.spec.tokenizer_digest,
    )
    windows = replace(mark, name="windows", mark=Watermark(spec, mark.watermark.key))
    library = replace(ready.library, marks={"windows": windows})
    body = {"spec": "windows", "text": text_of(ready.marked)}
    with asking(library, tokens=known) as asked:
        for more in ({}, {"detector": "winmax-c"}):
            status, found = asked.post("/v1/detect", body | more, **few)
            assert (status, found["detector"]) == (200, "winmax-c")
        assert asked.post("/v1/detect", body | {"detector": "count"}, **few)[0] == 403
