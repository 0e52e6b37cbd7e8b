"""The REST interface: the command line's JSON, health and pages."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from powermark.errors import PowermarkError
from powermark.interfaces.server.library import Library
from powermark.interfaces.server.limits import Limits
from tests.conftest import Run
from tests.interfaces.server import (
    SECRET,
    WORDS,
    Asked,
    Ready,
    asking,
    text_of,
)
from tests.interfaces.stdin import stdin
from tests.signals.profiles import sample


def options_of(body: dict[str, Any]) -> list[str]:
    return [
        part for name, value in body.items() for part in (f"--{name.replace('_', '-')}", str(value))
    ]


def test_plans_are_those_of_the_command_line(local: Asked, run: Run) -> None:
    for body in (
        {"n_tokens": 80, "alpha": 0.01, "power": 0.9, "edit_rate": 0.05, "context_width": 1},
        {"n_tokens": 50, "alpha": 0.05, "kl": 0.05, "signal": "dirichlet", "vocab_size": 500},
        {"alpha": 0.05, "power": 0.9, "kl": 0.1, "signal": "mixture", "mixture": ".3:2,.7:90"},
        {
            "n_tokens": 50,
            "alpha": 0.05,
            "power": 0.9,
            "signal": "topics",
            "topics": ".4=1:5/2=1:90",
        },
        {"n_tokens": 40, "alpha": 0.05, "power": 0.9, "gamma": 0.5, "precision": 0.1},
        {"n_tokens": 40, "alpha": 0.05, "power": 0.9, "edit_rate": 0.05, "detector": "evalue"},
        {"n_tokens": 40, "alpha": 0.05, "power": 0.4, "gamma": 0.5, "like": "chat", "entropy": 0.6},
    ):
        told = json.loads(run("plan", *options_of(body), "--json")[1])
        assert local.post("/v1/plan", body) == (200, told)
    body = {"n_tokens": 20, "alpha": 0.05, "power": 0.9, "checkpoint": [15], "delta_cap": 6.0}
    body |= {"kl_cap": 1.5}
    told = json.loads(run("plan", *options_of(body | {"checkpoint": 15}), "--steer", "--json")[1])
    assert local.post("/v1/plan", body | {"steer": True}) == (200, told)
    status, said = local.post("/v1/plan", {"n_tokens": 40, "alpha": 0.05, "kl": 1, "entropy": 2})
    message = "entropy needs like, the reference profile that it sharpens."
    assert (status, said["error"]["message"]) == (422, message)
    status, said = local.post("/v1/plan", {"n_tokens": 40, "alpha": 0.05, "kl": 1, "like": "x"})
    assert (status, said["error"]["code"]) == (422, "invalid")
    status, said = local.post("/v1/plan", body)
    message = "checkpoint, delta_cap and kl_cap need steer."
    assert (status, said["error"]["message"]) == (422, message)
    status, said = local.post("/v1/plan", {"n_tokens": 3, "alpha": 1e-9, "power": 0.9})
    assert (status, said["error"]["code"]) == (422, "infeasible")
    status, said = local.post("/v1/plan", body | {"steer": True, "n_tokens": 5000})
    assert (status, said["error"]["code"]) == (422, "invalid")
    status, said = local.post("/v1/plan", body | {"steer": True, "detector": "evalue"})
    message = "detector evalue takes no steer."
    assert (status, said["error"]["message"]) == (422, message)


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
    known = {"n_tokens": 50, "gamma": 0.5, "delta": 2, "alpha": 0.05}
    _, said = local.post("/v1/curve", {"over": "n_tokens", **known})
    assert said["error"]["message"].endswith("leave n_tokens out, or use from and to.")


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
    assert local.post("/v1/spec", body | {"spec": "demo"}) == (200, json.loads(path.read_text()))
    flat = {"signal": "dirichlet", "vocab_size": 600}
    status, found = local.post("/v1/spec", body | flat)
    assert (status, found["design"]["signal"][:9]) == (200, "dirichlet")
    status, said = local.post("/v1/spec", body)
    assert (status, said["error"]["hint"]) == (422, "give spec, vocab_size or profile.")
    about = {"model": "other", "vocab_size": 200, "digest": "d"}
    library = replace(ready.library, profiles={"p": replace(sample()[1], about=about)})
    with asking(library) as asked:
        status, said = asked.post("/v1/spec", body | {"profile": "p", "spec": "demo"})
        assert status == 422
        assert "of 'other', whose tokenizer is not the spec's" in said["error"]["message"]
        status, found = asked.post("/v1/spec", body | {"profile": "p"})
        assert (status, found["vocab_size"], found["tokenizer_digest"]) == (200, 200, None)
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
        (
            {"detector": ["count", "winmax"], "looks": 3},
            ("--detector", "count", "--detector", "winmax", "--looks", "3"),
        ),
    ):
        stdin(monkeypatch, text.encode())
        code, out, err = run("detect", *mark_of(ready), *options, "--json")
        assert (code, err) == (0, "")
        found = local.post("/v1/detect", {"spec": "demo", "text": text, **body})
        assert found == (200, json.loads(out))
    page = tmp_path / "r.html"
    run(
        "detect",
        *mark_of(ready),
        str(ready.folder / "examples" / "marked.txt"),
        "--html",
        str(page),
    )
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


def test_the_references_are_listed(local: Asked) -> None:
    found = local.http.get("/v1/specs").json()["references"]
    assert [each["name"] for each in found] == ["chat", "prose", "code"]
    assert all(each["reference"]["name"] == each["name"] for each in found)
    assert all("tokenizer_digest" not in each for each in found)


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


def test_missing_extras_are_not_the_clients_fault(ready: Ready) -> None:
    from powermark.errors import MissingExtra
    from powermark.interfaces.server.refusals import of_error

    assert of_error(MissingExtra("x")).status_code == 501
    assert of_error(PowermarkError("x")).status_code == 422
    assert Library().profile(None) is None
    assert SECRET not in repr(ready.library)
