"""The REST interface: the command line's JSON, what is loaded, who may ask, what is refused."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark.calibration.profile_file import save_profile
from powermark.errors import FileProblem, PowermarkError
from powermark.interfaces.server.access import LOCAL, Client, Rates, Tokens, new_token
from powermark.interfaces.server.library import Library, load_library
from powermark.interfaces.server.limits import Limits, Workers
from powermark.interfaces.server.refusals import Refusal
from tests.calibration.test_profile import sample
from tests.interfaces.server import (
    SECRET,
    WORDS,
    Asked,
    Ready,
    asking,
    lines_of,
    make_ready,
    text_of,
)
from tests.interfaces.test_cli import Run, run
from tests.interfaces.test_cli_detect import stdin

__all__ = ["run"]  # a fixture, used below by name


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    return make_ready(tmp_path_factory.mktemp("server"))


@pytest.fixture
def local(ready: Ready) -> Iterator[Asked]:
    with asking(ready.library) as asked:
        yield asked


@pytest.fixture
def tokens(tmp_path: Path) -> tuple[Tokens, dict[str, str]]:
    path = tmp_path / "tokens.txt"
    secret = {scope: new_token(path, scope, scope) for scope in ("detect", "inspect")}
    assert path.stat().st_mode & 0o077 == 0
    assert not any(token in path.read_text() for token in secret.values())
    return Tokens.load(path), secret


def options_of(body: dict[str, Any]) -> list[str]:
    return [
        part for name, value in body.items() for part in (f"--{name.replace('_', '-')}", str(value))
    ]


def test_plans_are_those_of_the_command_line(local: Asked, run: Run) -> None:
    for body in (
        {"n_tokens": 80, "alpha": 0.01, "power": 0.9, "edit_rate": 0.05, "context_width": 1},
        {"n_tokens": 50, "alpha": 0.05, "kl": 0.05, "signal": "dirichlet", "vocab_size": 500},
        {"alpha": 0.05, "power": 0.9, "kl": 0.1, "signal": "mixture", "mixture": ".3:2,.7:90"},
        {"n_tokens": 40, "alpha": 0.05, "power": 0.9, "gamma": 0.5, "precision": 0.1},
    ):
        told = json.loads(run("plan", *options_of(body), "--json")[1])
        assert local.post("/v1/plan", body) == (200, told)
    body = {"n_tokens": 20, "alpha": 0.05, "power": 0.9, "checkpoint": [15], "delta_cap": 6.0}
    body |= {"kl_cap": 1.5}
    told = json.loads(run("plan", *options_of(body | {"checkpoint": 15}), "--steer", "--json")[1])
    assert local.post("/v1/plan", body | {"steer": True}) == (200, told)
    status, said = local.post("/v1/plan", body)
    message = "checkpoint, delta_cap and kl_cap are for steer."
    assert (status, said["error"]["message"]) == (422, message)
    status, said = local.post("/v1/plan", {"n_tokens": 3, "alpha": 1e-9, "power": 0.9})
    assert (status, said["error"]["code"]) == (422, "infeasible")
    status, said = local.post("/v1/plan", body | {"steer": True, "n_tokens": 5000})
    assert (status, said["error"]["code"]) == (422, "invalid")


def test_powers_and_curves_are_those_of_the_command_line(local: Asked, run: Run) -> None:
    body: dict[str, Any] = {"gamma": 0.25, "delta": 2, "n_tokens": 50, "alpha": 0.01}
    told = json.loads(run("power", *options_of(body), "--json")[1])
    assert local.post("/v1/power", body) == (200, told)
    for body in (
        {"over": "power", "points": 4, "n_tokens": 50, "alpha": 0.05},
        {"over": "n_tokens", "from": 10, "to": 60, "points": 5, "gamma": 0.5, "delta": 2,
         "alpha": 0.05},
    ):  # fmt: skip
        told = json.loads(run("curve", *options_of(body), "--json")[1])
        assert local.post("/v1/curve", body) == (200, told)
    status, said = local.post("/v1/curve", {"over": "gamma", "n_tokens": 50, "alpha": 0.05})
    assert status == 422
    assert "over gamma needs power or kl" in said["error"]["message"]


def test_specs_are_those_of_the_command_line(
    local: Asked, run: Run, ready: Ready, tmp_path: Path
) -> None:
    body = {"n_tokens": 50, "alpha": 0.05, "power": 0.9}
    path = tmp_path / "s.json"
    run("plan", *options_of(body), "--vocab-size", "600", "-o", str(path))
    assert local.post("/v1/spec", body | {"vocab_size": 600}) == (200, json.loads(path.read_text()))
    path = tmp_path / "like.json"
    run("plan", *options_of(body), "--model", str(ready.folder.parent / "words"),
        "--key", str(ready.folder / "demo.key"), "-o", str(path))  # fmt: skip
    assert local.post("/v1/spec", body | {"like": "demo"}) == (200, json.loads(path.read_text()))
    flat = {"signal": "dirichlet", "vocab_size": 600}
    status, found = local.post("/v1/spec", body | flat)
    assert (status, found["design"]["signal"][:9]) == (200, "dirichlet")
    status, said = local.post("/v1/spec", body)
    assert (status, said["error"]["hint"]) == (422, "give like or vocab_size.")
    _, shown, _ = run("spec", "show", str(ready.folder / "demo.json"), "--json")
    found = local.http.get("/v1/specs").json()
    assert found["specs"][0]["spec"] == json.loads(shown)
    assert (found["scope"], found["model"], found["specs"][0]["detects"]) == (
        "inspect",
        None,
        "texts",
    )
    assert found["examples"] == [{"name": "marked", "text": text_of(ready.marked)}]


def mark_of(ready: Ready) -> tuple[str, ...]:
    words = str(ready.folder.parent / "words")
    return (
        "--spec", str(ready.folder / "demo.json"), "--key", str(ready.folder / "demo.key"),
        "--model", words,
    )  # fmt: skip


def test_detections_are_those_of_the_command_line(
    local: Asked, run: Run, ready: Ready, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = text_of(ready.marked)
    for body, options in (
        ({}, ()),
        ({"alpha": 0.2, "detector": "evalue"}, ("--alpha", ".2", "--detector", "evalue")),
        ({"prompt": "w1 w2 w3", "normalise": True}, ("--prompt", "w1 w2 w3", "--normalise")),
        ({"tokens": True}, ("--tokens",)),
    ):
        stdin(monkeypatch, text.encode())
        code, out, err = run("detect", *mark_of(ready), *options, "--json")
        assert (code, err) == (0, "")
        found = local.post("/v1/detect", {"spec": "demo", "text": text, **body})
        assert found == (200, json.loads(out))
    page = tmp_path / "r.html"
    run("detect", *mark_of(ready), str(ready.folder / "marked.txt"), "--html", str(page))
    report = local.http.post("/v1/report", json={"spec": "demo", "text": text})
    assert report.text == page.read_text()
    assert "attachment" in report.headers["content-disposition"]


def test_batches_are_those_of_the_command_line(
    local: Asked, run: Run, ready: Ready, tmp_path: Path
) -> None:
    plain = np.random.default_rng(1).integers(0, WORDS, 100).tolist()
    rows = [
        {"text": text_of(ready.marked), "prompt": "w1 w2"},
        {"text": text_of(plain), "prompt": "w3 w4"},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    _, out, _ = run("detect", *mark_of(ready), str(path), "--prompt-field", "prompt", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    texts = [row | {"source": f"{path}:{i}"} for i, row in enumerate(rows, 1)]
    _, found = local.post("/v1/detect/batch", {"spec": "demo", "texts": texts})
    assert found == {"results": told}
    bad = [
        {"token_ids": [1, 2, WORDS], "source": "far"},
        {"text": "w1"},
        {"token_ids": ready.marked},
    ]
    _, found = local.post("/v1/detect/batch", {"spec": "demo", "texts": bad})
    first, second, third = found["results"]
    assert (first["source"], first["error"]["code"]) == ("far", "mismatch")
    assert (second["verdict"], third["verdict"]) == ("inconclusive", "watermarked")
    with asking(ready.library, limits=Limits(n_tokens=100)) as few:
        body = {"spec": "demo", "texts": [{"token_ids": ready.marked}]}
        _, found = few.post("/v1/detect/batch", body)
        assert found["results"][0]["error"]["code"] == "too-large"
        status, _ = few.post("/v1/detect", {"spec": "demo", "token_ids": ready.marked})
        assert status == 413


def test_folders_are_read_by_name(ready: Ready, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    for file in ready.folder.iterdir():
        (shelf / file.name).write_bytes(file.read_bytes())
    (shelf / "demo.key").rename(shelf / "other.key")  # known by its fingerprint
    (shelf / "other.key").chmod(0o600)
    (shelf / "list.json").write_text("[1]")
    (shelf / "plan.json").write_text('{"gamma": 0.5}')
    (shelf / "long.txt").write_text("w1 " * 10_000)
    (shelf / "latin.txt").write_bytes(b"caf\xe9")
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
    with pytest.raises(FileProblem, match="is not what `powermark verify --result` writes"):
        load_library(shelf, [])
    (shelf / "plan.json").write_text("{")
    with pytest.raises(FileProblem, match="as JSON"):
        load_library(shelf, [])
    with pytest.raises(FileProblem, match="there is no folder"):
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
        for more in ({"tokens": True}, {"alpha": 0.5}, {"detector": "evalue"}):
            assert asked.post("/v1/detect", body | more, **few)[0] == 403
        ids = {"token_ids": ready.marked}
        status, said = asked.post("/v1/detect", {"spec": "demo", **ids}, **few)
        assert (status, said["error"]["code"]) == (403, "scope")
        assert "token ids, another detector or alpha need" in said["error"]["message"]
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


def test_rates(ready: Ready, tokens: tuple[Tokens, dict[str, str]]) -> None:
    known, secret = tokens
    headers = {"Authorization": f"Bearer {secret['detect']}"}
    with asking(ready.library, tokens=known, limits=Limits(rate=0.001)) as asked:
        statuses = [asked.http.get("/v1/specs", headers=headers).status_code for _ in range(4)]
        assert statuses == [200, 429, 429, 429]
    now = 0.0
    rates = Rates(2.0, lambda: now)
    assert [rates.charge(LOCAL) for _ in range(5)] == [0.0] * 4 + [0.5]
    assert rates.charge(Client("other", "detect")) == 0.0
    now = 0.6
    assert [rates.charge(LOCAL) for _ in range(2)] == [0.0, pytest.approx(0.4)]


def test_every_text_of_a_batch_counts(
    ready: Ready, tokens: tuple[Tokens, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    known, secret = tokens
    headers = {"Authorization": f"Bearer {secret['detect']}"}
    one = {"spec": "demo", "text": "w1"}
    with asking(ready.library, tokens=known, limits=Limits(rate=5.0)) as asked:
        now = 0.0
        monkeypatch.setattr(asked.service.rates, "_clock", lambda: now)
        texts = [{"text": "w1"}] * 60  # ten at once, so fifty are owed: ten seconds
        batch = {"spec": "demo", "texts": texts}
        assert asked.post("/v1/detect/batch", batch, **headers)[0] == 200
        now = 10.0
        answer = asked.http.post("/v1/detect", json=one, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate")
        assert answer.headers["retry-after"] == "1"
        assert asked.post("/v1/detect/batch", batch, **headers)[0] == 429
        now = 10.3
        assert asked.post("/v1/detect", one, **headers)[0] == 200


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
    assert "a token needs a name" in run("token", str(path), "bob", "--scope", "all")[2]
    assert "cannot write" in run("token", str(tmp_path), "bob")[2]
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


def test_health_metrics_docs_and_page(local: Asked, ready: Ready) -> None:
    assert local.http.get("/healthz").json() == {"status": "alive"}
    assert local.http.get("/readyz").json() == {"status": "ready", "specs": 1}
    local.post("/v1/detect", {"spec": "demo", "text": text_of(ready.marked)})
    told = local.http.get("/metrics").text
    assert 'powermark_verdicts_total{spec="demo",verdict="watermarked"} 1.0' in told
    assert 'powermark_requests_total{route="/v1/detect",status="200"} 1.0' in told
    assert "powermark_tokens_total 120.0" in told
    for path, kind in (
        ("/", "text/html"), ("/docs", "text/html"), ("/static/app.js", "javascript"),
        ("/swagger/swagger-ui-bundle.js", "javascript"), ("/openapi.json", "application/json"),
    ):  # fmt: skip
        answer = local.http.get(path)
        assert answer.status_code == 200
        assert kind in answer.headers["content-type"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    paths = local.http.get("/openapi.json").json()["paths"]
    assert "/v1/detect/batch" in paths
    assert "/v1/generate" not in paths


def test_work_is_bounded(ready: Ready) -> None:
    body = {"spec": "demo", "text": "w1"}
    with asking(ready.library, limits=Limits(waiting=0)) as asked:
        assert asked.post("/v1/detect", body)[0] == 503
        assert asked.http.get("/readyz").status_code == 503
    with asking(ready.library, limits=Limits(seconds=0.05)) as asked:
        assert asked.service.detecting.busy == 0
        answer = asked.http.portal.call(_slow, asked)  # type: ignore[union-attr]
        assert answer == (503, "this takes more than 0.05 seconds.")
        time.sleep(0.5)
        assert asked.service.detecting.busy == 0


async def _slow(asked: Asked) -> tuple[int, str]:
    with pytest.raises(Refusal) as refused:
        await asked.service.detecting.run(lambda: time.sleep(0.3))
    return refused.value.status_code, refused.value.detail


def test_the_end_does_not_wait_for_work_that_takes_too_long() -> None:
    async def begin_and_leave() -> float:
        workers, release = Workers(1, Limits(seconds=0.01)), threading.Event()
        with pytest.raises(Refusal):
            await workers.run(lambda: release.wait(20))
        with pytest.raises(Refusal):  # waits in vain, and is then never begun
            await workers.run(lambda: done.append("too late"))
        start = time.monotonic()
        workers.close()
        took = time.monotonic() - start
        left.append(release)
        return took

    left: list[threading.Event] = []
    done: list[str] = []
    before = set(threading.enumerate())
    assert asyncio.run(begin_and_leave()) < 5
    mine = set(threading.enumerate()) - before
    assert mine
    assert all(thread.daemon for thread in mine)  # else Python would wait for them at its end
    left[0].set()  # its result comes when the loop is closed, and disturbs nobody
    for thread in mine:
        thread.join(10)
        assert not thread.is_alive()
    assert done == []


def test_missing_extras_are_not_the_clients_fault(ready: Ready) -> None:
    from powermark.errors import MissingExtra
    from powermark.interfaces.server.refusals import of_error

    assert of_error(MissingExtra("x")).status_code == 501
    assert of_error(PowermarkError("x")).status_code == 422
    assert Library().profile(None) is None
    assert SECRET not in repr(ready.library)
