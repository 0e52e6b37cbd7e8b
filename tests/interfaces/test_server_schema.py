"""Requests made up from the REST interface's own description: it answers as it says it does.

``make fuzz`` makes up many more.
"""

import io
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from powermark.interfaces.server.access import Tokens, new_token
from powermark.interfaces.server.app import create_app
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.service import new_service
from powermark.interfaces.server.telemetry import Log
from tests.interfaces.server import make_ready, served

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "25"))


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
    app = create_app(service)
    with served(app) as url:
        schema = schemathesis.openapi.from_dict(app.openapi())
        named = {"Authorization": f"Bearer {token}"}
        schema.config.update(base_url=url, headers=named, request_timeout=120)
        yield schema


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_it_answers_as_described(described: Any, mode: GenerationMode) -> None:
    """What is well formed may still ask for the impossible, and is then refused with 422.

    Built by hand from schemathesis' strategies: its pytest plugin reads what pytest 9.2 has not.
    """
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 10
    for operation in operations:
        if mode.is_negative and not operation.body:
            continue  # nothing in it can be wrong

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(mode))
        def answers(case: Any) -> None:
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        answers()
