"""What the OpenAPI document says is what the server does: schemathesis makes requests from it, right ones and wrong
ones, for every verb of every task; each is answered, in the form that the document gives, and none with 500."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("schemathesis", reason="schemathesis is not installed")
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core import NOT_SET
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from test_served import client, hosted  # noqa: F401  # fixtures: a server with a run of every task

from regard.core.registry import find, registered_names
from regard.serve import option_schema
from regard.serve import requests as serve_requests

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
VERBS = {verb for name in registered_names("regard.tasks") for verb in getattr(find("regard.tasks", name), "VERBS", ())}
VERBS |= {getattr(find("regard.tasks", name), "VERB", "answer") for name in registered_names("regard.tasks")}
MANY = {GenerationMode.POSITIVE: 12, GenerationMode.NEGATIVE: 25}
CASES = [("POST", f"/v1/{verb}", mode) for verb in (*sorted(VERBS), "look") for mode in MANY]
CASES += [("GET", path, GenerationMode.POSITIVE) for path in ("/v1/runs", "/health", "/metrics")]


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for at most, as much less as a test has less time than a user."""
    monkeypatch.setattr(option_schema, "most", lambda name, kind: 3)
    monkeypatch.setattr(serve_requests, "INPUTS", 4)


@pytest.fixture(scope="module")
def described(client: Any) -> Any:  # noqa: F811
    """The document of the server, read once."""
    return schemathesis.openapi.from_dict(client.get("/openapi.json").json())


@pytest.mark.parametrize(("method", "path", "mode"), CASES, ids=str)
def test_requests_made_from_the_description(method: str, path: str, mode: Any, client: Any, described: Any) -> None:  # noqa: F811
    if path not in set(described):
        pytest.skip(f"{path}: no run with the defaults of its task has this verb")
    operation = described[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=MANY[mode],
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def requests(case: Any) -> None:
        content = case.body if isinstance(case.body, bytes) else json.dumps(case.body, default=str)
        body = {} if method == "GET" or isinstance(case.body, type(NOT_SET)) else {"content": content}
        answer = client.request(method, path, headers={"Content-Type": "application/json"}, **body)
        streamed = answer.headers["content-type"].startswith("text/event-stream")
        case.validate_response(answer, checks=[not_a_server_error] if streamed else CHECKS)

    requests()


def test_every_verb_is_among_them(described: Any) -> None:
    assert set(described) == {path for _, path, _ in CASES} - {"/v1/upscale"}
