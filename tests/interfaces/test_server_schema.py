"""Requests made up from the REST interface's own description: it answers as it says it does.

``make fuzz`` makes up many more.
"""

import io
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from powermark.interfaces.server.access import Tokens, new_token
from powermark.interfaces.server.app import create_app
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.service import new_service
from powermark.interfaces.server.telemetry import Log
from tests.interfaces.server import make_ready, served

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "10"))


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    place = tmp_path_factory.mktemp("schema")
    token = new_token(place / "tokens", "all", "inspect")
    service = new_service(
        make_ready(place).library,
        tokens=Tokens.load(place / "tokens"),
        limits=Limits(rate=1e9),
        log=Log(io.StringIO()),
    )
    with served(create_app(service)) as url:
        schema = schemathesis.openapi.from_url(f"{url}openapi.json")
        schema.config.update(headers={"Authorization": f"Bearer {token}"})
        schema.config.generation.update(max_examples=EXAMPLES, deterministic=True)
        yield schema


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_it_answers_as_described(case: Any) -> None:
    """What is well formed may still ask for the impossible, and is then refused with 422."""
    case.call_and_validate(excluded_checks=[positive_data_acceptance])
