"""What the fuzz asks of a server: every route, bodies that are almost right, headers, tokens."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from powermark.models.tokenizer import FileTokenizer
from proof.inputs import Said, Target, any_json, changed, mostly
from proof.shop import Shop

GET = ("/v1/specs", "/metrics", "/openapi.json", "/healthz", "/readyz", "/", "/docs")
_DESIGN = {"n_tokens": 50, "alpha": 0.05, "power": 0.9}
_POST: dict[str, dict[str, Any]] = {
    "plan": _DESIGN,
    "spec": {**_DESIGN, "vocab_size": 200},
    "power": {"gamma": 0.5, "delta": 2.0, "n_tokens": 50, "alpha": 0.05},
    "curve": {"over": "power", "points": 3, "n_tokens": 50, "alpha": 0.05},
    "detect": {"spec": "canary", "text": "w3 w4 w5 w6 w7", "alpha": 0.05, "detector": "count"},
    "detect/batch": {"spec": "canary", "texts": [{"text": "w3"}, {"token_ids": [3, 4]}]},
    "report": {"spec": "canary", "token_ids": [3, 4, 5, 6]},
}


@contextlib.contextmanager
def rest(shop: Shop, place: Path) -> Iterator[Target]:
    """Ask a server that is open to its machine, and one that wants a token."""
    from powermark.interfaces.server.access import Tokens, new_token

    names, logged = ("detect", "inspect"), io.StringIO()
    (place / "tokens").unlink(missing_ok=True)
    tokens = [new_token(place / "tokens", name, name) for name in names]
    headers = st.sampled_from([
        {},
        {"content-type": "text/plain"},
        {"x-forwarded-for": "192.0.2.1"},
        {"host": "example.org"},
        *({"authorization": f"Bearer {token}"} for token in ("x", "", *tokens)),
    ])  # fmt: skip
    near = [
        st.tuples(st.just(f"/v1/{route}"), changed(body).map(lambda found: json.dumps(found)))
        for route, body in _POST.items()
    ]
    any_body = st.binary(max_size=60) | any_json.map(lambda found: json.dumps(found))
    paths = st.sampled_from([*(f"/v1/{route}" for route in (*_POST, "generate", "specs")), *GET])
    asked = mostly(
        st.one_of(*near, st.tuples(st.sampled_from(GET), st.none())), st.tuples(paths, any_body)
    )
    with (
        _client(shop, logged, None) as open_server,
        _client(shop, logged, Tokens.load(place / "tokens")) as closed_server,
    ):

        def take(value: Any, said: Said) -> bool:
            (path, body), more, closed = value
            http = closed_server if closed else open_server
            if body is None:
                answer = http.get(path, headers=more)
            else:
                kind = {"content-type": "application/json"}
                answer = http.post(path, content=body, headers={**kind, **more})
            said(answer.text + logged.getvalue())
            logged.seek(0)
            logged.truncate()
            if answer.status_code >= 500 and answer.status_code != 503:
                raise AssertionError(f"{answer.status_code} {answer.text}")
            return bool(answer.status_code == 200)

        yield Target(st.tuples(asked, headers, st.booleans()), take)


@contextlib.contextmanager
def _client(shop: Shop, logged: io.StringIO, tokens: Any) -> Iterator[Any]:
    from starlette.testclient import TestClient

    from powermark.interfaces.server.app import create_app
    from powermark.interfaces.server.library import load_library
    from powermark.interfaces.server.limits import Limits
    from powermark.interfaces.server.service import new_service
    from powermark.interfaces.server.telemetry import Log

    library = load_library(shop.shelf, [FileTokenizer(shop.model / "tokenizer.json")])
    limits = Limits(rate=1e6)  # the fuzz is one client, and to be answered
    service = new_service(library, limits=limits, tokens=tokens, threads=1, log=Log(logged))
    address = "http://127.0.0.1:8000"
    with TestClient(create_app(service), base_url=address, raise_server_exceptions=False) as http:
        yield http
